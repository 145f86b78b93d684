"""The volumes of pods that the standalone scheduler places, beside the real PV controller and kube-scheduler."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from binder.matching.rejection import Reason
from devcluster.cluster import DevCluster
from kube.errors import LeadershipLost
from tests.scenarios.environment import documents
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.bindings import comparable, pairs
from tests.scenarios.environment.documents import HOSTNAME, ZONES, claim_spec
from tests.scenarios.environment.final_state import clean
from tests.scenarios.environment.provisioner import NAME, SELECTED, make_volume, provisioning, selected
from tests.scenarios.environment.waiting import eventually, never
from tests.scenarios.environment.world import World
from tests.scenarios.processes.controller import SYSTEM, apply_manifests, start_controller
from tests.scenarios.processes.scheduler_in_process import InProcessScheduler, running_scheduler
from tests.scenarios.scheduler.faulty_transports import DiesAfterWrite, EventBeforeWrite, LostAnswers

UID = "uid"
BOUND_BY = "pv.kubernetes.io/bound-by-controller"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def account(cluster: DevCluster) -> Path:
    """A kubeconfig with the rights that the scheduler's manifests grant."""
    await apply_manifests(cluster, ["scheduler"])
    return await cluster.kubeconfig_for_service_account(SYSTEM, "pvc-prebinder-scheduler")


@pytest_asyncio.fixture
async def scheduler(account: Path, own_world: World) -> AsyncIterator[InProcessScheduler]:
    """A scheduler that answers to the name of the story's namespace."""
    async with running_scheduler(account, own_world.namespace, own_world.prefix) as running:
        yield running


def ours(world: World, **spec: Any) -> dict[str, Any]:
    return {"extra": {"schedulerName": world.namespace, **spec}}


async def volume_of(world: World, word: str) -> Document:
    return (await world.own_volumes())[world.name(word)]


async def claim_of(world: World, name: str) -> Document:
    return (await world.claims())[name]


def taken(volume: Document) -> bool:
    return UID in volume["spec"].get("claimRef", {})


def reference(world: World, claim: str) -> Document:
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    return {"spec": {"claimRef": {**kind, "namespace": world.namespace, "name": claim}}}


@pytest.mark.parametrize("by_name", [False, True], ids=["free", "prebound by name"])
async def test_a_volume_is_left_as_kube_scheduler_leaves_it(
    own_world: World, scheduler: InProcessScheduler, by_name: bool
) -> None:
    """Field by field: right after the scheduler's write, and after the PV controller has finished the bind."""
    world = own_world
    disks = {who: await world.storage_class(None, f"disks-{who}") for who in ("theirs", "ours")}
    for who, name in disks.items():
        await world.volumes(name, world.volume(who, name, zone="zone-a"))
    async with world.pv_controller_paused():
        for who, name in disks.items():
            if by_name:
                await world.admin.patch("PersistentVolume", world.name(who), reference(world, who))
            await world.pod(who, {who: claim_spec(name)}, **(ours(world) if who == "ours" else {}))
        for who in disks:
            await eventually(lambda who=who: volume_of(world, who), taken, f"{who}: claimRef")  # type: ignore[misc]
        states = {who: comparable(await claim_of(world, who), await volume_of(world, who)) for who in disks}
        assert states["ours"] == states["theirs"]
        annotated = BOUND_BY in states["ours"]["volume"]["metadata"].get("annotations", {})
        assert annotated is not by_name
    await world.all_run("theirs", "ours")
    both = await pairs(world)
    assert comparable(*both["ours"]) == comparable(*both["theirs"])


async def test_a_claim_to_provision_is_left_as_kube_scheduler_leaves_it(
    own_world: World, scheduler: InProcessScheduler
) -> None:
    world = own_world
    node = (await world.admin.list("Node"))[0]["metadata"]["name"]
    pinned = {"nodeSelector": {HOSTNAME: node}}
    made = await world.storage_class(None, "made", provisioner=NAME)
    async with world.pv_controller_paused():
        await world.pod("theirs", {"theirs": claim_spec(made)}, extra=pinned)
        await world.pod("ours", {"ours": claim_spec(made)}, **ours(world, **pinned))
        for who in ("theirs", "ours"):
            await eventually(lambda who=who: claim_of(world, who), selected, f"{who}: selected node")  # type: ignore[misc]
        left = {who: await claim_of(world, who) for who in ("theirs", "ours")}
        assert left["ours"]["metadata"]["annotations"] == left["theirs"]["metadata"]["annotations"] == {SELECTED: node}
        assert left["ours"]["spec"] == left["theirs"]["spec"]
    for claim in left.values():
        await make_volume(world, claim)
    await world.all_run("theirs", "ours")
    both = await pairs(world)
    assert comparable(*both["ours"]) == comparable(*both["theirs"])


async def test_three_claims_are_bound_in_one_zone(own_world: World, scheduler: InProcessScheduler) -> None:
    """Zone a and b are one volume short each; a provisioned fourth claim goes along."""
    world = own_world
    disks, made = await world.storage_class(None), await world.storage_class(None, "made", provisioner=NAME)
    few = [world.volume(f"{zone}-{n}", disks, zone=zone) for zone in ZONES[:2] for n in range(2)]
    await world.volumes(disks, *few, *(world.volume(f"c-{n}", disks, zone="zone-c") for n in range(3)))
    claims = {f"data-{n}": claim_spec(disks) for n in range(3)} | {"new": claim_spec(made)}
    async with provisioning(world, made):
        await world.pod("app", claims, **ours(world))
        await world.all_run("app")
    zones = await world.zones()
    assert {zones[volume] for volume in (await world.bound()).values()} == {"zone-c"}


async def test_what_is_lost_half_way_is_rolled_back_and_retried(account: Path, own_world: World) -> None:
    """Another writer takes the third volume right before us: the other two are as before until three can be had."""
    world = own_world
    disks = await world.storage_class(None)
    names = await world.volumes(disks, *(world.volume(f"v{n}", disks, zone="zone-b") for n in range(3)))
    theft = EventBeforeWrite(3, lambda name: world.admin.patch("PersistentVolume", name, reference(world, "thief")))
    async with (
        world.pv_controller_paused(),
        running_scheduler(account, world.namespace, world.prefix, through=theft.through),
    ):
        await world.pod("app", {f"data-{n}": claim_spec(disks) for n in range(3)}, **ours(world))
        await eventually(world.held, lambda held: held == {"thief": [theft.about]}, "all or none")
        volumes = await world.own_volumes()
        assert sorted(volumes) == sorted(names)
        for name, volume in volumes.items():
            assert name == theft.about or BOUND_BY not in volume["metadata"].get("annotations", {})
        await world.admin.create(world.volume("late", disks, zone="zone-b"))
        world.cluster.controller_manager.resume()
        await world.all_run("app")


async def test_a_volume_that_becomes_unhealthy_right_before_the_write_is_not_taken(
    account: Path, own_world: World
) -> None:
    world = own_world
    disks = await world.storage_class(None)
    names = await world.volumes(disks, *(world.volume(f"v{n}", disks, zone="zone-b") for n in range(2)))
    unhealthy = {"metadata": {"annotations": {f"{world.prefix}quarantine": "the disk is gone"}}}
    falls = EventBeforeWrite(1, lambda name: world.admin.patch("PersistentVolume", name, unhealthy))
    async with running_scheduler(account, world.namespace, world.prefix, through=falls.through) as running:
        await world.pod("app", {"data": claim_spec(disks)}, **ours(world))
        await world.all_run("app")
    assert running.metrics.failures[Reason.QUARANTINED] == 1
    assert await world.bound() == {"data": next(name for name in names if name != falls.about)}
    await world.admin.patch(
        "PersistentVolume", falls.about, {"metadata": {"annotations": {f"{world.prefix}quarantine": None}}}
    )


async def test_many_pods_share_one_claim(own_world: World, scheduler: InProcessScheduler) -> None:
    """They arrive together and are decided before anything is written: one volume, and all where it is."""
    world = own_world
    disks = await world.storage_class(None)
    await world.volumes(disks, *(world.volume(zone, disks, zone=zone) for zone in ZONES))
    await world.admin.create(documents.claim(world.namespace, "data", claim_spec(disks)))
    names = [f"app-{number}" for number in range(10)]
    spec = documents.pod_spec(("data",), **ours(world))
    await world.admin.create_at_once(documents.pod(world.namespace, name, spec) for name in names)
    await world.all_run(*names)
    zone = (await world.zones())[(await world.bound())["data"]]
    nodes = {pod["spec"]["nodeName"] for pod in (await world.pods()).values()}
    labels = [(await world.admin.get("Node", node))["metadata"]["labels"] for node in nodes]
    assert {node_labels[documents.ZONE] for node_labels in labels} == {zone}
    assert list((await world.held()).items()) == [("data", [(await world.bound())["data"]])]


async def test_a_read_write_once_pod_claim_is_one_pods_at_a_time(
    own_world: World, scheduler: InProcessScheduler
) -> None:
    world, alone = own_world, ("ReadWriteOncePod",)
    disks = await world.storage_class(None)
    await world.volumes(disks, world.volume("one", disks, zone="zone-a", access_modes=alone))
    await world.admin.create(documents.claim(world.namespace, "data", claim_spec(disks, access_modes=alone)))
    spec = documents.pod_spec(("data",), **ours(world))
    await world.admin.create_at_once(documents.pod(world.namespace, name, spec) for name in ("app-0", "app-1"))
    await eventually(world.pod_phases, lambda phases: "Running" in phases.values(), "one of them runs")
    await never(world.pod_phases, lambda phases: list(phases.values()) == ["Running"] * 2, "both run")
    first, second = sorted((await world.pod_phases()).items(), key=lambda pair: pair[1] != "Running")
    await world.admin.delete("Pod", first[0], world.namespace)
    await world.all_run(second[0])


async def test_the_controllers_reservation_is_taken_and_ended_by_the_controller(
    own_world: World, scheduler: InProcessScheduler
) -> None:
    """Mode annotate: the gate is lifted when the volumes are reserved, in one zone; then we take exactly those."""
    world = own_world
    controller = await start_controller(world)
    disks = await world.storage_class("annotate")
    await world.volumes(disks, *(world.volume(f"{zone}-{n}", disks, zone=zone) for zone in ZONES for n in range(4)))
    names = [f"app-{number}" for number in range(6)]
    async with world.pv_controller_paused():
        for name in names:
            claims = {f"{name}-{n}": claim_spec(disks) for n in range(2)}
            await world.pod(name, claims, gated=True, **ours(world))
        held = await eventually(world.reserved, lambda reserved: len(reserved) == 12, "all are reserved")
    await world.all_run(*names)
    assert await world.bound() == held
    await clean(world)
    await controller.stop()


@pytest.mark.parametrize("mode", ["annotate", "prebind", "complete"])
async def test_beside_a_controller_that_decides_about_the_same_pods(
    own_world: World, scheduler: InProcessScheduler, mode: str
) -> None:
    """Without a gate both choose at once. Whichever is faster, each claim gets one volume and nothing stays."""
    world = own_world
    controller = await start_controller(world)
    disks = await world.storage_class(mode)
    await world.volumes(disks, *(world.volume(f"{zone}-{n}", disks, zone=zone) for zone in ZONES for n in range(15)))
    names = [f"app-{number}" for number in range(12)]
    for name in names:
        await world.pod(name, {f"{name}-{n}": claim_spec(disks) for n in range(2)}, **ours(world))
    await world.all_run(*names)
    expected = {claim: [volume] for claim, volume in (await world.bound()).items()}
    await eventually(world.held, lambda held: held == expected, "each claim has one volume")
    await clean(world)
    await controller.stop()


async def test_a_provisioner_that_gives_up_has_the_pod_scheduled_again(
    own_world: World, scheduler: InProcessScheduler
) -> None:
    world = own_world
    made = await world.storage_class(None, "made", provisioner=NAME)
    await world.pod("app", {"data": claim_spec(made)}, **ours(world))
    await eventually(lambda: claim_of(world, "data"), selected, "a node is selected")
    gone = {"metadata": {"annotations": {SELECTED: None}}}
    await world.admin.patch("PersistentVolumeClaim", "data", gone, world.namespace)
    await eventually(lambda: claim_of(world, "data"), selected, "a node is selected again")
    async with provisioning(world, made):
        await world.all_run("app")
    assert scheduler.metrics.failures


async def test_answers_that_get_lost_are_looked_up_and_nothing_is_written_twice(
    account: Path, own_world: World
) -> None:
    world, deaf = own_world, LostAnswers()
    disks = await world.storage_class(None)
    await world.volumes(disks, world.volume("one", disks, zone="zone-a"))
    async with running_scheduler(account, world.namespace, world.prefix, through=deaf.through) as running:
        await world.pod("app", {"data": claim_spec(disks)}, **ours(world))
        await world.all_run("app")
    assert running.metrics.bound == 1
    assert [path.rpartition("/")[2] for path in deaf.paths] == [world.name("one"), "binding"]


async def live_and_die(world: World, account: Path, mortal: DiesAfterWrite) -> None:
    async with running_scheduler(account, world.namespace, world.prefix, through=mortal.through):
        await asyncio.wait_for(mortal.dead.wait(), 60)


@pytest.mark.parametrize("last", range(1, 5))
async def test_killed_after_any_write_the_next_one_finishes(account: Path, own_world: World, last: int) -> None:
    """Two volumes, a claim to provision, the assignment: four writes. Until the death Kubernetes does not help."""
    world, mortal = own_world, DiesAfterWrite(last)
    disks, made = await world.storage_class(None), await world.storage_class(None, "made", provisioner=NAME)
    await world.volumes(disks, *(world.volume(f"{zone}-{n}", disks, zone=zone) for zone in ZONES for n in range(2)))
    claims = {"one": claim_spec(disks), "two": claim_spec(disks), "new": claim_spec(made)}
    async with provisioning(world, made):
        async with AsyncExitStack() as kubernetes:
            if last < 4:
                await kubernetes.enter_async_context(world.pv_controller_paused())
            await world.pod("app", claims, **ours(world))
            with pytest.raises(LeadershipLost):
                await live_and_die(world, account, mortal)
            assert len(mortal.paths) == last
        async with running_scheduler(account, world.namespace, world.prefix):
            await world.all_run("app")
    zones = await world.zones()
    assert len({zones[volume] for volume in (await world.bound()).values()}) == 1
    assert sorted(map(len, (await world.held()).values())) == [1, 1, 1]
