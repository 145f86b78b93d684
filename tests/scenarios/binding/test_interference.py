"""People and other controllers change what a reservation stands on: each time it ends in a right and clean state.

Mode annotate, unless a story says otherwise, and pods of a scheduler that does not exist: reservations stay as they
are, because no scheduler binds. The pods are reported as unschedulable, so that the controller does not wait for their
scheduler; stories with binds come last, because after a bind it waits for other binds of the schedulers.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from devcluster.control_plane.nodes import NodeSpec
from tests.scenarios.environment.documents import ZONES, claim, claim_spec
from tests.scenarios.environment.final_state import clean, traces
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World

UNSCHEDULED = {"schedulerName": "nobody"}


async def reserved_pod(world: World, *volumes: str) -> tuple[str, str]:
    """Make a class with these volumes and a pod with one claim; return the class and the volume that is reserved."""
    disks = await world.storage_class("annotate")
    await world.volumes(disks, *(world.volume(word, disks, zone="zone-a") for word in volumes))
    await world.pod("app", {"data": claim_spec(disks)}, extra=UNSCHEDULED)
    await report_unschedulable(world)
    return disks, await reserved(world)


async def report_unschedulable(world: World) -> None:
    """Write what a scheduler writes on a pod that it found no node for."""
    no_node = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    await world.admin.patch("Pod", "app", {"status": {"conditions": [no_node]}}, world.namespace, "status")


async def reserved(world: World, *besides: str) -> str:
    """Wait until both sides say that the claim has one volume, other than those, and return its name."""
    await eventually(
        lambda: agreement(world), lambda volume: volume and volume not in besides, f"reserved, and not {besides}"
    )
    volume = await agreement(world)
    assert volume is not None
    return volume


async def agreement(world: World) -> str | None:
    """Return the volume that claim and volume agree on, the claim's uid included; None as long as they do not."""
    claims, volumes = await world.claims(), await world.own_volumes()
    reserved = (await world.reserved()).get("data")
    if reserved not in volumes or (await world.held()).get("data") != [reserved]:
        return None
    annotations = volumes[reserved]["metadata"].get("annotations", {})
    return reserved if annotations.get(f"{world.prefix}reserved-for-uid") == claims["data"]["metadata"]["uid"] else None


async def test_the_claim_is_deleted(world: World) -> None:
    await reserved_pod(world, "one")
    await world.admin.delete("PersistentVolumeClaim", "data", world.namespace)
    await eventually(world.claims, lambda claims: not claims, "the claim is gone")
    await clean(world)


async def test_the_claim_is_deleted_and_created_again(world: World) -> None:
    disks, volume = await reserved_pod(world, "one")
    before = (await world.claims())["data"]["metadata"]["uid"]
    await world.admin.delete("PersistentVolumeClaim", "data", world.namespace)
    await eventually(world.claims, lambda claims: not claims, "the claim is gone")
    await world.admin.create(claim(world.namespace, "data", claim_spec(disks)))
    assert (await world.claims())["data"]["metadata"]["uid"] != before
    assert await reserved(world) == volume


async def test_the_pod_is_deleted(world: World) -> None:
    await reserved_pod(world, "one")
    await world.admin.delete("Pod", "app", world.namespace)
    await clean(world)


async def test_the_node_of_a_local_volume_is_deleted(world: World) -> None:
    node = world.name("node")
    await world.cluster.add_nodes([NodeSpec(node, "zone-a")])
    disks = await world.storage_class("annotate")
    await world.volumes(disks, world.volume("local", disks, node=node))
    await world.pod("app", {"data": claim_spec(disks)}, extra=UNSCHEDULED)
    await report_unschedulable(world)
    await reserved(world)
    await world.admin.delete("Node", node)
    await clean(world)


async def test_the_volume_is_deleted(world: World) -> None:
    _, first = await reserved_pod(world, "one", "two")
    await world.admin.delete("PersistentVolume", first)
    assert await reserved(world, first) in {world.name("one"), world.name("two")}
    assert first not in await world.own_volumes()


async def test_the_only_volume_is_deleted(world: World) -> None:
    _, only = await reserved_pod(world, "one")
    await world.admin.delete("PersistentVolume", only)
    await clean(world)
    await world.event("StaticOnlyNoMatch", about="data")


async def test_the_volume_is_taken_by_another_claim(world: World) -> None:
    """His claimRef stays exactly as he wrote it."""
    _, first = await reserved_pod(world, "one", "two")
    his = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "elsewhere", "name": "his"}
    await world.admin.patch("PersistentVolume", first, {"spec": {"claimRef": his}})
    second = await reserved(world, first)
    taken = (await world.own_volumes())[first]
    assert taken["spec"]["claimRef"] == his
    assert world.prefix not in str(taken["metadata"].get("annotations", {}))
    assert second != first


GARBAGE: dict[str, tuple[str, dict[str, str | None]]] = {
    "no-time": ("PersistentVolume", {"expires-at": "soon"}),
    "no-zone-in-time": ("PersistentVolume", {"expires-at": "2026-11-21T10:00:00"}),
    "no-expiry": ("PersistentVolume", {"expires-at": None}),
    "no-claim": ("PersistentVolume", {"reserved-for": "//"}),
    "another-claim": ("PersistentVolume", {"reserved-for": "elsewhere/other"}),
    "another-uid": ("PersistentVolume", {"reserved-for-uid": "no-uid"}),
    "no-holder": ("PersistentVolume", {"reserved-by": "?"}),
    "control-characters": ("PersistentVolume", {"reserved-for": "\x00\x1b[2J\n"}),
    "very-long": ("PersistentVolume", {"reserved-for": "x" * 200_000}),
    "long-ago": ("PersistentVolume", {"expires-at": "1970-01-01T00:00:00Z"}),
    "claim-no-volume": ("PersistentVolumeClaim", {"reserved-volume": ""}),
    "claim-another-volume": ("PersistentVolumeClaim", {"reserved-volume": "no-such-volume"}),
    "claim-no-time": ("PersistentVolumeClaim", {"bound-at": "yesterday", "expires-at": "never"}),
    "claim-nothing-left": ("PersistentVolumeClaim", {"reserved-volume": None, "expires-at": None}),
}


@pytest.mark.parametrize("case", GARBAGE)
async def test_a_user_edits_our_annotations_into_garbage(world: World, case: str) -> None:
    """It ends reserved again, as both sides say it, once and with a readable end; and clean when the pod goes."""
    kind, changes = GARBAGE[case]
    _, volume = await reserved_pod(world, "one", "two")
    about: Any = (volume, "") if kind == "PersistentVolume" else ("data", world.namespace)
    edited = {f"{world.prefix}{key}": value for key, value in changes.items()}
    patched = await world.admin.patch(kind, about[0], {"metadata": {"annotations": edited}}, about[1])
    version = patched["metadata"]["resourceVersion"]
    await eventually(
        lambda: version_of(world, kind, about[0]), lambda current: current != version, "we did something about it"
    )
    await reserved(world)
    assert await world.violations() == []
    await world.admin.delete("Pod", "app", world.namespace)
    await clean(world)


async def version_of(world: World, kind: str, name: str) -> str:
    objects = await (world.own_volumes() if kind == "PersistentVolume" else world.claims())
    version: str = objects[name]["metadata"]["resourceVersion"]
    return version


async def test_a_user_writes_our_annotations_where_nothing_is_reserved(world: World) -> None:
    """On volumes of every zone, and on a claim that no pod uses."""
    disks = await world.storage_class("annotate")
    await world.volumes(disks, *(world.volume(zone, disks, zone=zone) for zone in ZONES))
    await world.admin.create(claim(world.namespace, "data", claim_spec(disks)))
    lies = [
        {"reserved-for": f"{world.namespace}/data"},
        {"expires-at": "2999-01-01T00:00:00Z"},
        {"reserved-by": "me/1"},
    ]
    for zone, lie in zip(ZONES, lies, strict=True):
        body = {"metadata": {"annotations": {f"{world.prefix}{key}": value for key, value in lie.items()}}}
        await world.admin.patch("PersistentVolume", world.name(zone), body)
    body = {"metadata": {"annotations": {f"{world.prefix}reserved-volume": world.name("zone-a")}}}
    await world.admin.patch("PersistentVolumeClaim", "data", body, world.namespace)
    await clean(world)
    assert await traces(world) == []


@pytest.mark.parametrize("mode", ["prebind", "complete"])
async def test_all_is_deleted_after_the_bind(world: World, mode: str) -> None:
    """What was bound is Kubernetes' to release: the volume stays Released, with its claimRef."""
    disks = await world.storage_class(mode)
    (volume,) = await world.volumes(disks, world.volume("one", disks, zone="zone-a"))
    await world.pod("app", {"data": claim_spec(disks)}, gated=True, extra=UNSCHEDULED)
    await eventually(world.bound, lambda bound: bound == {"data": volume}, "bound")
    await world.admin.delete("Pod", "app", world.namespace)
    await world.admin.delete("PersistentVolumeClaim", "data", world.namespace)
    await eventually(world.volume_phases, lambda phases: phases == {volume: "Released"}, "released by Kubernetes")
    await clean(world)


@asynccontextmanager
async def committed(world: World) -> AsyncIterator[str]:
    """While inside the PV controller sleeps, and a pod's claim has a volume in mode prebind: the claimRef is ours.

    The volume is committed at once because of the scheduling gate, and again because the pod is unschedulable.
    """
    disks = await world.storage_class("prebind")
    (name,) = await world.volumes(disks, world.volume("one", disks, zone="zone-a"))
    async with world.pv_controller_paused():
        await world.pod("app", {"data": claim_spec(disks)}, gated=True, extra=UNSCHEDULED)
        await reserved(world)
        await report_unschedulable(world)
        yield name


async def test_the_pod_is_deleted_before_the_pv_controller_saw_the_claim_ref(world: World) -> None:
    async with committed(world) as name:
        await world.admin.delete("Pod", "app", world.namespace)
        await clean(world)
        assert await world.volume_phases() == {name: "Available"}


@pytest.mark.parametrize("key", ["reserved-for", "reserved-for-uid", "expires-at", "bound-at"])
async def test_garbage_beside_our_claim_ref(world: World, key: str) -> None:
    """The record proves that the claimRef is ours: it is taken back, made again, and then used as ever."""
    async with committed(world) as name:
        garbage = {"metadata": {"annotations": {f"{world.prefix}{key}": "???"}}}
        patched = await world.admin.patch("PersistentVolume", name, garbage)
        version = patched["metadata"]["resourceVersion"]
        await eventually(
            lambda: version_of(world, "PersistentVolume", name), lambda current: current != version, "something is done"
        )
        await reserved(world)
    await eventually(world.bound, lambda bound: bound == {"data": name}, "bound")
    await clean(world)


async def test_a_user_binds_the_claim_to_another_volume(world: World) -> None:
    _, first = await reserved_pod(world, "one")
    manual = world.volume("manual", "", zone="zone-b")
    manual["spec"]["storageClassName"] = world.name("disks")
    manual["spec"]["claimRef"] = {"namespace": world.namespace, "name": "data"}
    await world.admin.create(manual)
    await eventually(world.bound, lambda bound: bound == {"data": world.name("manual")}, "bound elsewhere", 60)
    await clean(world)
    assert (await world.volume_phases())[first] == "Available"
