"""kube-scheduler and the standalone scheduler want the same volumes at the same time, forty rounds long at least.

On a control plane of its own without client limits, so that both are at full speed.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from binder.matching.rejection import Reason
from devcluster.control_plane.nodes import NodeSpec
from tests.scenarios.environment import documents
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import ZONES, claim_spec
from tests.scenarios.environment.fast_cluster import fast_cluster
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World, lived_in
from tests.scenarios.processes.scheduler_in_process import InProcessScheduler, running_scheduler

ROUNDS, MAX_ROUNDS = 40, 200
AT_ONCE = 20
SECONDS = 120


@pytest_asyncio.fixture
async def arena() -> AsyncIterator[World]:
    nodes = [NodeSpec(f"node-{zone}", zone, pods=5 * MAX_ROUNDS) for zone in ZONES]
    async with fast_cluster(nodes) as cluster, lived_in(cluster) as world:
        yield world


@pytest_asyncio.fixture
async def scheduler(arena: World) -> AsyncIterator[InProcessScheduler]:
    async with running_scheduler(arena.cluster.kubeconfig, arena.namespace, arena.prefix) as running:
        yield running


def pod(world: World, name: str, who: str, *claims: str) -> Document:
    extra: dict[str, Any] = {"schedulerName": world.namespace} if who == "ours" else {}
    return documents.pod(world.namespace, name, documents.pod_spec(claims, extra=extra))


async def classes_with(world: World, rounds: range, zones: Sequence[str], volumes: int) -> list[str]:
    """Make a class for each round, with so many volumes in each of the zones."""
    names = [await world.storage_class(None, f"disks-{number}") for number in rounds]
    made = [
        world.volume(f"{number}-{zone}-{n}", name, zone=zone)
        for number, name in zip(rounds, names, strict=True)
        for zone in zones
        for n in range(volumes)
    ]
    await world.volumes(names[0], *made)
    return names


@asynccontextmanager
async def witness(world: World) -> AsyncIterator[list[str]]:
    """While inside, collect the volumes that were taken from one claim and given to another in one write."""
    holders: dict[str, str] = {}
    stolen: list[str] = []

    async def look() -> None:
        async for volume in world.admin.changes("PersistentVolume"):
            name, holder = volume["metadata"]["name"], volume["spec"].get("claimRef", {}).get("uid", "")
            if holder and holders.get(name, holder) != holder:
                stolen.append(name)
            holders.pop(name, None)
            if holder:
                holders[name] = holder

    task = asyncio.create_task(look())
    try:
        yield stolen
        assert not task.done(), "the witness sleeps"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def each_claim_has_one_volume(world: World, claims: int) -> None:
    """Wait until all are bound, and require that claims and volumes belong to each other one by one."""
    bound = await eventually(world.bound, lambda bound: len(bound) == claims, f"{claims} claims are bound", SECONDS)
    assert len(set(bound.values())) == claims
    # A volume that a claim was given and did not get is let go by the PV controller, or by us.
    expected = {claim: [volume] for claim, volume in bound.items()}
    await eventually(world.held, lambda held: held == expected, "no claim has a second volume", SECONDS)


@pytest.mark.timeout(900)
async def test_pods_with_claims_of_their_own(arena: World, scheduler: InProcessScheduler) -> None:
    """Each round a pod of either scheduler wants three volumes in one zone, and two zones have six of them.

    With fewer both could end up with a part each, which Kubernetes binds, and a bind cannot be undone.
    """
    world, wanted = arena, []
    async with witness(world) as stolen:
        for first in range(0, MAX_ROUNDS, AT_ONCE):
            rounds = range(first, first + AT_ONCE)
            names = await classes_with(world, rounds, ZONES[:2], 6)
            batch = []
            for number, name in zip(rounds, names, strict=True):
                for who in ("ours", "theirs"):
                    claims = [f"{who}-{number}-{n}" for n in range(3)]
                    batch += [documents.claim(world.namespace, claim, claim_spec(name)) for claim in claims]
                    batch.append(pod(world, f"{who}-{number}", who, *claims))
                    wanted.append(f"{who}-{number}")
            await world.admin.create_at_once(batch)
            if rounds.stop < ROUNDS:
                continue
            await world.all_run(*wanted, seconds=SECONDS)
            # Who is faster depends on the machine: it goes on until we were not, at least once.
            if scheduler.metrics.failures[Reason.CLAIMED_BY_OTHER]:
                break
        await each_claim_has_one_volume(world, 3 * len(wanted))
    assert stolen == []
    assert await world.violations() == []
    assert scheduler.metrics.failures[Reason.CLAIMED_BY_OTHER] > 0, "nobody was ever faster than we: this was no race"


@pytest.mark.timeout(900)
async def test_pods_that_share_a_claim(arena: World, scheduler: InProcessScheduler) -> None:
    """Each round one claim, and a pod of either scheduler that uses it: both choose a volume, only one may be kept."""
    world, wanted = arena, []
    for first in range(0, ROUNDS, AT_ONCE):
        rounds = range(first, first + AT_ONCE)
        names = await classes_with(world, rounds, ZONES, 1)
        batch = []
        for number, name in zip(rounds, names, strict=True):
            batch.append(documents.claim(world.namespace, f"data-{number}", claim_spec(name)))
            batch += [pod(world, f"{who}-{number}", who, f"data-{number}") for who in ("ours", "theirs")]
            wanted += [f"{who}-{number}" for who in ("ours", "theirs")]
        await world.admin.create_at_once(batch)
    await each_claim_has_one_volume(world, ROUNDS)
    await world.all_run(*wanted, seconds=SECONDS)
    zones, bound, pods = await world.zones(), await world.bound(), await world.pods()
    reach = {number: f"node-{zones[bound[f'data-{number}']]}" for number in range(ROUNDS)}
    # kube-scheduler is content when the claim is bound, to whichever volume: its own pods may be out of reach here.
    assert [n for n in reach if pods[f"ours-{n}"]["spec"]["nodeName"] != reach[n]] == []
