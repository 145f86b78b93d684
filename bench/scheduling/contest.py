"""One scheduler on a control plane of its own: how soon it places pods, and what that costs."""

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from statistics import quantiles
from time import monotonic
from typing import Final

from bench.control_plane.documents import NAMESPACE, Document, claim, pod, ready_node, storage_class, volume
from bench.control_plane.stage import Stage, in_parallel
from bench.control_plane.timeline import Timeline
from bench.other_work import OtherWork
from bench.placement import checker as placement_checker
from bench.placement import cluster as placement_cluster
from bench.progress import say
from bench.usage import Usage, usage
from devcluster.cluster import DevCluster
from devcluster.control_plane.components import Options
from devcluster.control_plane.lifted_limits import LIFTED_CONFIGURATION, LIFTED_FLAGS
from devcluster.control_plane.nodes import DEFAULT_ZONES, NodeSpec, spread
from devcluster.processes.component import Component
from devcluster.processes.ports import LOOPBACK, free_ports
from devcluster.processes.probes import answers_ok
from kube.client.api import KubeApi
from kube.client.connect import connect
from kube.objects.api_resource import CLAIMS, NODES, PODS, STORAGE_CLASSES

NAME: Final = "bench-scheduler"
MAX_SECONDS: Final = 600.0
"""Seconds after which a run is ended as it is."""


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int
    pods: int
    volumes: bool = False
    """Each pod has a claim whose volume exists and waits for its first consumer."""
    kwok: bool = False
    """kwok plays the kubelets and takes its share of the processor; otherwise nodes are objects that nothing updates,
    as from here the kubelets of a real cluster are."""
    rounds: int = 1

    @property
    def title(self) -> str:
        volumes, kwok = " with volumes" if self.volumes else "", " of kwok" if self.kwok else ""
        return f"{self.pods:,} pods{volumes} on {self.nodes:,} nodes{kwok}"


@dataclass(frozen=True, slots=True)
class Contender:
    """The scheduler to measure. `lifted`: kube-scheduler and controller manager without client limits; ours always has
    its own.
    """

    ours: bool
    lifted: bool

    @property
    def title(self) -> str:
        limits = "limits lifted" if self.lifted else "default limits"
        return f"pvc-prebinder beside {limits}" if self.ours else f"kube-scheduler, {limits}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds from the moment when all pods exist and the scheduler is resumed to each pod's node, as seen by a
    watcher.
    """

    placed: int
    per_second: float
    """Over the time to the last pod."""
    p50: float
    p99: float
    seconds: float
    scheduler: Usage
    """Processor time from the release on; memory when all is placed."""
    api_server: float
    """Processor time from the release on."""
    violations: list[str] = field(default_factory=list)
    beside: float = 0.0
    """Cores that other work kept busy meanwhile."""

    @property
    def busy(self) -> float:
        """The scheduler's share of one core."""
        return self.scheduler.processor / self.seconds


async def run(size: Size, contender: Contender) -> Outcome:
    """Place the pods once, beginning with an empty cluster."""
    say(f"{size.title}: {contender.title}")
    others = OtherWork()
    outcome = await _run(size, contender)
    return replace(outcome, beside=others.cores())


async def _run(size: Size, contender: Contender) -> Outcome:
    async with _stage(size, contender) as stage:
        scheduler = await _start(stage.cluster) if contender.ours else stage.cluster.scheduler
        timeline = Timeline(stage.api)
        async with timeline.following():
            # A pod that is placed first shows that it is ready: health checks report that too early.
            await _create(stage, "first", size, contender)
            if not await timeline.until(lambda seen: "first" in seen.placed, MAX_SECONDS):
                raise RuntimeError(f"{contender.title} placed nothing; the end of its log:\n{scheduler.log_tail()}")
            scheduler.pause()
            names = [f"pod-{number:05}" for number in range(size.pods)]
            await in_parallel(_create(stage, name, size, contender) for name in names)
            before, server = usage(scheduler.pid), usage(stage.cluster.apiserver.pid)
            released = monotonic()
            scheduler.resume()
            await timeline.until(lambda seen: len(seen.placed) > size.pods, MAX_SECONDS)
            after, server_after = usage(scheduler.pid), usage(stage.cluster.apiserver.pid)
            if size.volumes:
                # A pod gets its node as soon as its claim's bind is complete (isPVCFullyBound in kubernetes/kubernetes
                # pkg/scheduler/framework/plugins/volumebinding/binder.go); the claim's phase is written after that.
                await timeline.until(lambda seen: len(seen.bound) > size.pods, MAX_SECONDS)
        async with stage.cluster.api() as api:
            wrong = placement_checker.violations(await placement_cluster.read(api))
    moments = [timeline.placed[name] - released for name in names if name in timeline.placed]
    spent = Usage(after.processor - before.processor, after.memory, after.peak)
    return _outcome(moments, spent, server_after.processor - server.processor, wrong)


def _outcome(moments: list[float], scheduler: Usage, api_server: float, violations: list[str]) -> Outcome:
    cuts = quantiles(moments, n=100, method="inclusive")
    last = max(moments)
    return Outcome(len(moments), len(moments) / last, cuts[49], cuts[98], last, scheduler, api_server, violations)


@asynccontextmanager
async def _stage(size: Size, contender: Contender) -> AsyncIterator[Stage]:
    """Yield a cluster with nodes, our class, and volumes that are Available."""
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(DevCluster(_options(size, contender)))
        for nodes in _batches(spread(size.nodes)) if size.kwok else ():
            await cluster.add_nodes(nodes)
        await cluster.create_namespace(NAMESPACE)
        transport = await stack.enter_async_context(await connect(str(cluster.kubeconfig)))
        stage = Stage(cluster, KubeApi(transport))
        await stage.create_all(NODES, [] if size.kwok else map(ready_node, spread(size.nodes)))
        await stage.create_all(STORAGE_CLASSES, [storage_class()])
        if size.volumes:
            zones = DEFAULT_ZONES
            await stage.add_volumes([volume(f"volume-{n:05}", zones[n % len(zones)]) for n in range(size.pods + 1)])
        yield stage


def _batches(nodes: list[NodeSpec]) -> Iterator[list[NodeSpec]]:
    """As many as kwok makes ready in time even on a loaded machine."""
    return (nodes[start : start + 200] for start in range(0, len(nodes), 200))


def _options(size: Size, contender: Contender) -> Options:
    if not contender.lifted:
        return Options(scheduler=not contender.ours, kwok=size.kwok)
    return Options(
        scheduler=not contender.ours,
        kwok=size.kwok,
        flags={"kube-controller-manager": LIFTED_FLAGS},
        scheduler_configuration=LIFTED_CONFIGURATION,
    )


async def _start(cluster: DevCluster) -> Component:
    """Start ours with its defaults, but without a Lease, as kube-scheduler here: both are paused for a while."""
    address = f"{LOOPBACK}:{free_ports(1)[0]}"
    command = [sys.executable, "-m", "prebinder.cli", "scheduler", f"--name={NAME}", "--no-leader-elect"]
    command += [f"--kubeconfig={cluster.kubeconfig}"]
    command += [f"--health-bind-address={address}", f"--metrics-bind-address={address}"]
    return await cluster.start_component(NAME, command, lambda: answers_ok(f"http://{address}/readyz"))


async def _create(stage: Stage, name: str, size: Size, contender: Contender) -> None:
    claims = [name] if size.volumes else []
    for each in claims:
        await stage.api.create(CLAIMS, claim(each), NAMESPACE)
    await stage.api.create(PODS, _pod(name, claims, contender), NAMESPACE)


def _pod(name: str, claims: list[str], contender: Contender) -> Document:
    document = pod(name, claims, gated=False)
    document["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    if contender.ours:
        document["spec"]["schedulerName"] = NAME
    return document
