"""(i) How many pods a second kube-scheduler places on 1,000 nodes with the extender, and without.

Two kube-schedulers of one cluster, in turn: all pods are created while the one they name is suspended; time runs from
when it is resumed to the last pod that has a node. Its client limits are the default ones, or lifted.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import monotonic
from typing import Final

from bench.control_plane.documents import NAMESPACE, Document, pod
from bench.control_plane.stage import in_parallel
from bench.control_plane.timeline import Timeline
from bench.progress import say
from bench.rows import Row
from devcluster.cluster import DevCluster
from devcluster.control_plane.api import answers_ok
from devcluster.control_plane.certificates import Authority
from devcluster.control_plane.components import Options
from devcluster.control_plane.lifted_limits import LIFTED_CONFIGURATION, LIFTED_FLAGS
from devcluster.control_plane.nodes import spread
from devcluster.processes.component import Component
from devcluster.processes.ports import LOOPBACK, free_ports
from kube.client.api import KubeApi
from kube.client.connect import connect
from kube.objects.api_resource import PODS

NODES: Final = 1_000
PODS_EACH: Final = 1_000
ROUNDS: Final = 3
KEEPS, KEEPS_LIFTED = 0.9, 0.7
"""The goals: the share of the pods a second that is left with the extender, at default client limits and beyond
them."""
"""clientConnection with limits that have no effect."""


@dataclass(frozen=True, slots=True)
class Case:
    """One way to run kube-scheduler: with or without the extender, at its own client limits or beyond them."""

    extended: bool
    lifted: bool

    @property
    def scheduler(self) -> str:
        return f"{'extended' if self.extended else 'plain'}-{'lifted' if self.lifted else 'default'}"


def run(quick: bool) -> list[Row]:
    """Place 1,000 pods three times in each case; quick: 20 pods on 20 nodes, once."""
    return asyncio.run(_run(20, 20, 1) if quick else _run(NODES, PODS_EACH, ROUNDS))


async def _run(nodes: int, pods: int, rounds: int) -> list[Row]:
    cases = [Case(extended, lifted) for lifted in (False, True) for extended in (False, True)]
    rates: dict[Case, list[float]] = {case: [] for case in cases}
    async with _stage(nodes) as (cluster, api), _extender(cluster) as extender:
        schedulers = {case: await cluster.start_scheduler(case.scheduler, _settings(case, extender)) for case in cases}
        for scheduler in schedulers.values():
            scheduler.pause()
        for number in range(rounds):
            for case in cases:
                rates[case].append(await _rate(api, schedulers[case], case, f"{case.scheduler}-{number}", pods))
        for scheduler in schedulers.values():
            scheduler.resume()
    return [row for lifted in (False, True) for row in _rows(rates, lifted, nodes, pods)]


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
async def _extender(cluster: DevCluster) -> AsyncIterator[Document]:
    """Start the command, over TLS; yield kube-scheduler's configuration of it."""
    directory = cluster.directory / "extender"
    directory.mkdir()
    authority = Authority(directory, datetime.now(UTC))
    serving, client = authority.serving("extender"), authority.client("kube-scheduler")
    address, health = (f"{LOOPBACK}:{port}" for port in free_ports(2))
    command = [sys.executable, "-m", "prebinder.cli", "extender", f"--kubeconfig={cluster.kubeconfig}"]
    command += [f"--bind-address={address}", f"--health-bind-address={health}", f"--metrics-bind-address={health}"]
    command += [f"--tls-cert-file={serving.certificate}", f"--tls-key-file={serving.key}"]
    command += [f"--client-ca-file={authority.certificate}"]
    process = await cluster.start_component("extender", command, lambda: answers_ok(f"http://{health}/readyz"))
    yield {
        "urlPrefix": f"https://{address}",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 5,
        "nodeCacheCapable": True,
        "enableHTTPS": True,
        "tlsConfig": {
            "caFile": str(authority.certificate),
            "certFile": str(client.certificate),
            "keyFile": str(client.key),
        },
    }
    await process.stop()


def _settings(case: Case, extender: Document) -> Document:
    """Not ignorable: every pod that was placed was sent to the extender."""
    connection = LIFTED_CONFIGURATION if case.lifted else {}
    return connection | ({"extenders": [extender]} if case.extended else {})


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


def _rows(rates: dict[Case, list[float]], lifted: bool, nodes: int, pods: int) -> list[Row]:
    limits = "client limits lifted" if lifted else "default client limits"
    without, extended = (rates[Case(with_extender, lifted)] for with_extender in (False, True))
    size, keeps = f"{pods} pods on {nodes} nodes", KEEPS_LIFTED if lifted else KEEPS
    share = Row.of_rounds(
        f"share kept, {limits}", [more / less for less, more in zip(without, extended, strict=True)], "x"
    )
    return [
        Row.of_rounds(f"without the extender, {limits}", without, "pods/s", size),
        Row.of_rounds(f"with the extender over TLS, {limits}", extended, "pods/s", size),
        replace(share, at_least=keeps),
    ]
