"""(p) Pods of two claims whose volumes are still to be made, on node-local pools that they fill nearly.

With the real external-provisioner, whose reports of what is free are up to a minute old, and the directory driver with
a limit for each node. A hidden solution exists: pools are cut into the claims of five pods each. Variants: more slack,
pods that come one a second, more pools and a provisioner at its default limits, and reports that are wrong because
others use the disks.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from math import ceil, inf
from random import Random
from time import monotonic
from typing import Final

import msgspec

from bench.control_plane.documents import NAMESPACE, Document, claim, pod, ready_node
from bench.control_plane.stage import Stage, in_parallel, stage
from bench.control_plane.timeline import Timeline
from bench.progress import say
from bench.rows import Row
from binder.reservation.contract import STRICT, Annotations
from devcluster.control_plane.nodes import NodeSpec
from devcluster.driver.volumes import create_volume
from kube.objects.api_resource import CAPACITIES, CLAIMS, CSI_DRIVERS, CSI_NODES, EVENTS, NODES, PODS, STORAGE_CLASSES
from kube.rules.topology import HOSTNAME_LABEL

DRIVER: Final = "pools.csi.example"
CLASS: Final = "pools"
GIB: Final = 2**30
POOL: Final = 200
"""GiB of each node."""
PODS_PER_POOL: Final = 5
POOLS: Final = 40
SLACK: Final = 5
"""Percent of each pool that the hidden solution leaves free."""
SEEDS: Final = (1, 2, 3)
REPORTED: Final = 240.0
"""Seconds for the provisioner to report every pool: by default it writes one a second."""
PATIENCE: Final = 240.0
"""Seconds without another pod that has a node, after which those without one are stuck."""
_TASK: Final = ("--strict-topology", "--enable-capacity", "--capacity-ownerref-level=-1", "--retry-interval-max=5m")
DEFAULTS: Final = (*_TASK, "--kube-api-qps=5", "--kube-api-burst=10")
"""The provisioner's own defaults of how fast it may be; the control plane for development starts it with others."""
PROVISIONER: Final = (*_TASK, "--kube-api-qps=50", "--kube-api-burst=100")
MANY_POOLS: Final = 100
WIDE: Final = 25
"""Percent of slack where others use OTHERS percent of every second pool: the hidden solution is still one."""
OTHERS: Final = 20
SHARES: Final = (10, 50, 90, 99)
"""Percent of the pods whose times are told."""


@dataclass(frozen=True, slots=True)
class Puzzle:
    """Pods by name with the GiB of their claims, and so many pools."""

    pods: Mapping[str, tuple[int, ...]]
    pools: int

    @classmethod
    def of(cls, seed: int, pools: int, slack: int) -> "Puzzle":
        """Cut what is used of each pool into the claims of its pods, and mix them."""
        rng, wanted = Random(seed), list[tuple[int, ...]]()
        for _ in range(pools):
            used = POOL * (100 - slack) // 100
            cuts = sorted(rng.sample(range(1, used), 2 * PODS_PER_POOL - 1))
            sizes = [end - start for start, end in zip([0, *cuts], [*cuts, used], strict=True)]
            wanted += [(sizes[number], sizes[number + 1]) for number in range(0, len(sizes), 2)]
        rng.shuffle(wanted)
        return cls({f"pod-{number:04}": sizes for number, sizes in enumerate(wanted)}, pools)


@dataclass(frozen=True, slots=True)
class Case:
    """A puzzle, and how it is put: the seconds between two pods, the provisioner's flags, and percent of every second
    pool that others take right after it was reported.
    """

    name: str
    seed: int = SEEDS[0]
    pools: int = POOLS
    slack: int = SLACK
    between: float = 0.0
    flags: tuple[str, ...] = PROVISIONER
    others: int = 0

    @property
    def puzzle(self) -> "Puzzle":
        return Puzzle.of(self.seed, self.pools, self.slack)


CASES: Final = (
    *(Case(f"seed {seed}, {SLACK} % slack", seed) for seed in SEEDS),
    Case("20 % slack", slack=20),
    Case("one pod a second", between=1.0),
    Case(f"{MANY_POOLS} pools, default flags", pools=MANY_POOLS, flags=DEFAULTS),
    Case(f"{WIDE} % slack, wrong reports", slack=WIDE, others=OTHERS),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of so many pods: those without a node that have some of their volumes, rejected calls, and the seconds until each
    of the others had a node, in order.
    """

    total: int
    partly: int
    rejected: int
    seconds: tuple[float, ...]

    def after(self, share: int) -> float:
        """Return the seconds after which so many percent of all pods had a node; infinite if they never had."""
        last = ceil(self.total * share / 100) - 1
        return self.seconds[last] if last < len(self.seconds) else inf

    def behind(self, other: "Outcome") -> tuple[float, int]:
        """Return how many seconds later than there pods have a node, at the percentile where it is worst, and which.

        Negative where they have it sooner at each one. Percentiles that are never reached there do not count.
        """
        return max(
            (self.after(share) - other.after(share), share) for share in range(1, 101) if other.after(share) < inf
        )


def run(quick: bool) -> list[Row]:
    """Measure each case; quick: one of 20 pods."""
    if quick:
        return asyncio.run(_rows(Case("4 pools", pools=4)))
    return [row for case in CASES for row in asyncio.run(_rows(case))]


async def _rows(put: Case) -> list[Row]:
    ours, theirs = await solve(put, ours=True), await solve(put, ours=False)
    total, case = len(put.puzzle.pods), put.name
    later, worst = ours.behind(theirs)
    what = f"{total} pods of two claims, {put.pools} pools"
    # What others have taken since the report nobody can know: those calls fail, and a pod may keep a part.
    whole, part, calls = (None, None, None) if put.others else (total, 0, 2)
    return [
        Row(f"whole pods, ours, {case}", len(ours.seconds), "pods", what, at_least=whole),
        Row(f"pods with a part, ours, {case}", ours.partly, "pods", at_most=part),
        Row(f"CreateVolume rejected, ours, {case}", ours.rejected, "calls", at_most=calls),
        *(
            Row(f"{share} % placed after, {whose}, {case}", seen.after(share), "s")
            for whose, seen in (("ours", ours), ("in-tree", theirs))
            for share in SHARES
            if seen.after(share) < inf
        ),
        Row(f"later than in-tree at the worst percentile, {case}", later, "s", f"the {worst}th", at_most=0),
        Row(f"whole pods, in-tree, {case}", len(theirs.seconds), "pods", what),
        Row(f"pods with a part, in-tree, {case}", theirs.partly, "pods"),
        Row(f"CreateVolume rejected, in-tree, {case}", theirs.rejected, "calls"),
    ]


async def solve(put: Case, *, ours: bool) -> Outcome:
    """Let our controller, or Kubernetes alone, have the volumes of all pods made, at its default limits."""
    puzzle = put.puzzle
    say(f"{len(puzzle.pods)} pods with volumes to be made, {put.name}, {'ours' if ours else 'in-tree'}")
    async with stage(pods=len(puzzle.pods)) as ready, _pools(ready, put):
        if ours:
            await ready.start_controller("off")
        timeline = Timeline(ready.api)
        async with timeline.following():
            created = await _create_all(ready, put, gated=ours)
            await _placed(timeline, len(puzzle.pods))
        rejected = await _rejected(ready)
    stuck = puzzle.pods.keys() - timeline.placed.keys()
    partly = [name for name in stuck if any(each.startswith(f"{name}-") for each in timeline.bound)]
    seconds = sorted(moment - created[name] for name, moment in timeline.placed.items())
    return Outcome(len(puzzle.pods), len(partly), rejected, tuple(seconds))


async def _placed(timeline: Timeline, pods: int) -> None:
    """Wait until so many pods have a node, or no further one had it for PATIENCE."""
    while (already := len(timeline.placed)) < pods:
        if not await timeline.until(partial(_more_placed, already), PATIENCE):
            return


def _more_placed(already: int, seen: Timeline) -> bool:
    return len(seen.placed) > already


async def _create_all(ready: Stage, put: Case, *, gated: bool) -> Mapping[str, float]:
    """Create the pods, at once or one after the other, and return when each was, by the monotonic clock."""
    pods = put.puzzle.pods
    if not put.between:
        began = monotonic()
        await in_parallel(_create(ready, name, sizes, gated=gated) for name, sizes in pods.items())
        return dict.fromkeys(pods, began)
    created: dict[str, float] = {}
    for name, sizes in pods.items():
        created[name] = monotonic()
        await _create(ready, name, sizes, gated=gated)
        await asyncio.sleep(max(0.0, created[name] + put.between - monotonic()))
    return created


@asynccontextmanager
async def _pools(ready: Stage, put: Case) -> AsyncIterator[None]:
    """While inside, so many nodes have a pool each, and their driver and its provisioner run and have reported."""
    names = [f"pool-{number}" for number in range(put.pools)]
    await ready.create_all(NODES, [ready_node(NodeSpec(name, "zone-a")) for name in names])
    about = {"apiVersion": "storage.k8s.io/v1"}
    entry = {"name": DRIVER, "topologyKeys": [HOSTNAME_LABEL]}
    registered = [
        {**about, "kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": [{**entry, "nodeID": name}]}}
        for name in names
    ]
    await ready.create_all(CSI_NODES, registered)
    spec = {"attachRequired": False, "storageCapacity": True}
    await ready.create_all(CSI_DRIVERS, [{**about, "kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": spec}])
    await ready.create_all(STORAGE_CLASSES, [_storage_class()])
    flags = (f"--segment-capacity={POOL * GIB}",)
    root = ready.cluster.directory / "pools"
    driver = await ready.cluster.start_driver(DRIVER, root, topology={HOSTNAME_LABEL: "none"}, flags=flags)
    provisioner = await ready.cluster.start_sidecar("csi-provisioner", *put.flags, driver=driver)
    try:
        async with asyncio.timeout(REPORTED):
            while await _reports(ready) < put.pools:  # noqa: ASYNC110 - a list has no event
                await asyncio.sleep(1)
        for name in names[::2] if put.others else ():
            size = POOL * GIB * put.others // 100
            create_volume(root, f"others-{name}", size, {HOSTNAME_LABEL: name}, "")
        yield
    finally:
        await provisioner.stop()
        await driver.stop()


def _storage_class() -> Document:
    annotations = {Annotations().mode: "provision", Annotations().topology: STRICT}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS, "annotations": annotations},
        "provisioner": DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


async def _create(ready: Stage, name: str, sizes: tuple[int, ...], *, gated: bool) -> None:
    names = [f"{name}-{number}" for number in range(len(sizes))]
    for each, size in zip(names, sizes, strict=True):
        document = claim(each, size)
        document["spec"]["storageClassName"] = CLASS
        await ready.api.create(CLAIMS, document, NAMESPACE)
    await ready.api.create(PODS, pod(name, names, gated=gated), NAMESPACE)


class _Series(msgspec.Struct):
    count: int = 1


class _Event(msgspec.Struct):
    reason: str = ""
    note: str = ""
    series: _Series | None = None
    count: int = msgspec.field(name="deprecatedCount", default=1)


class _Items(msgspec.Struct):
    items: list[msgspec.Raw]


async def _reports(ready: Stage) -> int:
    return len(msgspec.json.decode(await _listed(ready, CAPACITIES.plural), type=_Items).items)


async def _rejected(ready: Stage) -> int:
    """Return how often the driver had no room, by the provisioner's Events."""
    raw = msgspec.json.decode(await _listed(ready, EVENTS.plural), type=_Items).items
    events = [msgspec.json.decode(each, type=_Event) for each in raw]
    failed = [each for each in events if each.reason == "ProvisioningFailed" and "ResourceExhausted" in each.note]
    return sum(max(each.count, each.series.count if each.series else 1) for each in failed)


async def _listed(ready: Stage, plural: str) -> bytes:
    command = [str(ready.cluster.kubectl), f"--kubeconfig={ready.cluster.kubeconfig}", "get", "-A", "-o", "json"]
    group = "storage.k8s.io" if plural == CAPACITIES.plural else "events.k8s.io"
    process = await asyncio.create_subprocess_exec(
        *command, f"{plural}.{group}", stdout=asyncio.subprocess.PIPE, stderr=sys.stderr
    )
    output, _ = await process.communicate()
    return output
