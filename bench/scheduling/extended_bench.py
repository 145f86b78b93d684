"""(i) How many pods a second kube-scheduler places on 1,000 nodes with the extender, and without.

With limits lifted also with a minimal extender in Go, which keeps every node: that much is lost to any extender, since
kube-scheduler writes and reads the node names for two calls a pod, and gives up OpportunisticBatching beside one. The
kube-schedulers share a cluster and run in turn: all pods are created while the one they name is suspended; time runs
from when it is resumed to the last pod that has a node. Client limits are the default ones, or lifted.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final

from bench.control_plane.documents import NAMESPACE, Document, pod
from bench.control_plane.stage import in_parallel
from bench.control_plane.timeline import Timeline
from bench.go_command import run_go
from bench.progress import say
from bench.rows import Row
from devcluster.cluster import DevCluster
from devcluster.control_plane.components import Options
from devcluster.control_plane.lifted_limits import LIFTED_CONFIGURATION, LIFTED_FLAGS
from devcluster.control_plane.nodes import spread
from devcluster.credentials.certificates import Authority
from devcluster.processes.component import Component
from devcluster.processes.ports import LOOPBACK, free_ports
from devcluster.processes.probes import answers_ok
from kube.client.api import KubeApi
from kube.client.connect import connect
from kube.objects.api_resource import PODS

NODES: Final = 1_000
PODS_EACH: Final = 1_000
ROUNDS: Final = 3
KEEPS, KEEPS_LIFTED = 0.9, 0.7
"""The goals: the share of the pods a second that is left with the extender, at default client limits and beyond
them."""
MINIMAL: Final = Path(__file__).with_name("minimal_extender")


class Extender(StrEnum):
    """What kube-scheduler is configured to call."""

    NONE = "plain"
    OURS = "extended"
    MINIMAL = "minimal"


@dataclass(frozen=True, slots=True)
class Case:
    """One way to run kube-scheduler: with which extender, at its own client limits or beyond them."""

    extender: Extender
    lifted: bool

    @property
    def scheduler(self) -> str:
        return f"{self.extender}-{'lifted' if self.lifted else 'default'}"


CASES: Final = (
    Case(Extender.NONE, lifted=False),
    Case(Extender.OURS, lifted=False),
    Case(Extender.NONE, lifted=True),
    Case(Extender.OURS, lifted=True),
    Case(Extender.MINIMAL, lifted=True),
)


def run(quick: bool) -> list[Row]:
    """Place 1,000 pods three times in each case; quick: 20 pods on 20 nodes, once."""
    return asyncio.run(_run(20, 20, 1) if quick else _run(NODES, PODS_EACH, ROUNDS))


async def _run(nodes: int, pods: int, rounds: int) -> list[Row]:
    rates: dict[Case, list[float]] = {case: [] for case in CASES}
    async with _stage(nodes) as (cluster, api), _extenders(cluster) as extenders:
        schedulers = {case: await cluster.start_scheduler(case.scheduler, _settings(case, extenders)) for case in CASES}
        for scheduler in schedulers.values():
            scheduler.pause()
        for number in range(rounds):
            for case in CASES:
                rates[case].append(await _rate(api, schedulers[case], case, f"{case.scheduler}-{number}", pods))
        for scheduler in schedulers.values():
            scheduler.resume()
    return list(_rows(rates, nodes, pods))


@asynccontextmanager
async def _stage(nodes: int) -> AsyncIterator[tuple[DevCluster, KubeApi]]:
    # Without kwok, which would share the processor: from here a real cluster's nodes are objects, too.
    flags = {"kube-controller-manager": LIFTED_FLAGS}
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(DevCluster(Options(kwok=False, flags=flags)))
        say(f"adding {nodes} nodes")
        await cluster.add_nodes(spread(nodes))
        await cluster.create_namespace(NAMESPACE)
        transport = await stack.enter_async_context(await connect(str(cluster.kubeconfig)))
        yield cluster, KubeApi(transport)


@asynccontextmanager
async def _extenders(cluster: DevCluster) -> AsyncIterator[Mapping[Extender, Document]]:
    """Start both extenders, over TLS; yield kube-scheduler's configuration of each."""
    directory = cluster.directory / "extender"
    directory.mkdir()
    authority = Authority(directory, datetime.now(UTC))
    serving, client = authority.serving("extender"), authority.client("kube-scheduler")
    ours, minimal, health = (f"{LOOPBACK}:{port}" for port in free_ports(3))
    await asyncio.to_thread(run_go, ["build", "-o", str(directory / "minimal"), "."], MINIMAL)
    files = [serving.certificate, serving.key, authority.certificate]
    processes = [
        await cluster.start_component(
            "extender",
            _command(str(cluster.kubeconfig), ours, health, files),
            lambda: answers_ok(f"http://{health}/readyz"),
        ),
        await cluster.start_component(
            "minimal", [directory / "minimal", minimal, *files], partial(_listens, *minimal.split(":"))
        ),
    ]
    tls = {"caFile": authority.certificate, "certFile": client.certificate, "keyFile": client.key}
    yield {
        extender: {
            "urlPrefix": f"https://{address}",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 5,
            "nodeCacheCapable": True,
            "enableHTTPS": True,
            "tlsConfig": {key: str(path) for key, path in tls.items()},
        }
        for extender, address in ((Extender.OURS, ours), (Extender.MINIMAL, minimal))
    }
    for process in processes:
        await process.stop()


def _command(kubeconfig: str, address: str, health: str, files: Sequence[Path]) -> list[str]:
    certificate, key, authority = files
    command = [sys.executable, "-m", "prebinder.cli", "extender", f"--kubeconfig={kubeconfig}"]
    command += [f"--bind-address={address}", f"--health-bind-address={health}", f"--metrics-bind-address={health}"]
    return [*command, f"--tls-cert-file={certificate}", f"--tls-key-file={key}", f"--client-ca-file={authority}"]


async def _listens(host: str, port: str) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return False
    writer.close()
    return True


def _settings(case: Case, extenders: Mapping[Extender, Document]) -> Document:
    """Not ignorable: every pod that was placed was sent to the extender."""
    connection = LIFTED_CONFIGURATION if case.lifted else {}
    return connection | ({"extenders": [extenders[case.extender]]} if case.extender in extenders else {})


async def _rate(api: KubeApi, scheduler: Component, case: Case, prefix: str, pods: int) -> float:
    """Return pods placed a second. The scheduler is paused before and after."""
    say(f"{prefix}: {pods} pods")
    names = [f"{prefix}-{number}" for number in range(pods)]
    timeline = Timeline(api)
    async with timeline.following():
        await in_parallel(api.create(PODS, _pod(name, case.scheduler), NAMESPACE) for name in names)
        began = monotonic()
        scheduler.resume()
        if not await timeline.until(lambda seen: all(name in seen.placed for name in names), seconds=300):
            raise RuntimeError(f"{prefix}: not all pods were placed within 300 s")
        scheduler.pause()
    return pods / (max(timeline.placed[name] for name in names) - began)


def _pod(name: str, scheduler: str) -> Document:
    document = pod(name, [], gated=False)
    document["spec"]["schedulerName"] = scheduler
    return document


def _rows(rates: Mapping[Case, Sequence[float]], nodes: int, pods: int) -> Iterator[Row]:
    titles = {
        Extender.NONE: "without the extender",
        Extender.OURS: "with the extender over TLS",
        Extender.MINIMAL: "with a minimal extender in Go",
    }
    for case in CASES:
        limits = "client limits lifted" if case.lifted else "default client limits"
        yield Row.of_rounds(
            f"{titles[case.extender]}, {limits}", rates[case], "pods/s", f"{pods} pods on {nodes} nodes"
        )
        if case.extender == Extender.NONE:
            continue
        without = rates[replace(case, extender=Extender.NONE)]
        shares = [more / less for less, more in zip(without, rates[case], strict=True)]
        goal = KEEPS_LIFTED if case.lifted else KEEPS
        share = Row.of_rounds(f"share kept {titles[case.extender]}, {limits}", shares, "x")
        yield replace(share, at_least=goal) if case.extender == Extender.OURS else share
