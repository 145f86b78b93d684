"""The bind in mode complete: the PV controller's four writes, and what becomes of them when it races with us."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from binder.model.decision import Mode
from binder.reporting.metrics import ConflictKind
from binder.writers.attempt import AT_ONCE
from kube.client.transport import Request
from tests.binder.world import World, bind
from tests.fakes.kube_api import failure
from tests.fakes.objects import claim_object, pod_object, volume_object

FOUR = ["persistentvolumes", "persistentvolumes/status", "persistentvolumeclaims", "persistentvolumeclaims/status"]
OTHER = {"kind": "PersistentVolumeClaim", "namespace": "elsewhere", "name": "thief", "uid": "uid-thief"}


def one_claim(**volume: Any) -> World:
    world = World(Mode.COMPLETE)
    world.put(
        volume_object("pv-1", "16Gi", **volume), claim_object("data"), pod_object("web", ["data"], unschedulable=True)
    )
    return world


def writes(world: World) -> list[str]:
    return [f"{write.plural}/{write.subresource}".rstrip("/") for write in world.server.writes]


def before(world: World, ending: str, event: Callable[[], None]) -> None:
    """Let something happen right before our write of a path that ends so."""

    def hook(request: Request) -> None:
        if request.path.endswith(ending):
            world.server.before_write = None
            event()

    world.server.before_write = hook


async def test_the_objects_end_up_as_the_pv_controller_leaves_them() -> None:
    world = one_claim()
    claim_version = world.claim("data")["metadata"]["resourceVersion"]
    volume, claim = copy.deepcopy(world.volume("pv-1")), copy.deepcopy(world.claim("data"))
    async with world.process() as process:
        await process.run()
    volume["metadata"]["annotations"] = {"pv.kubernetes.io/bound-by-controller": "yes"}
    volume["spec"]["claimRef"] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "data",
        "uid": claim["metadata"]["uid"],
        "resourceVersion": claim_version,
    }
    volume["status"] = {"phase": "Bound"}
    claim["metadata"]["annotations"] = {
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
    }
    claim["spec"]["volumeName"] = "pv-1"
    claim["status"] = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "16Gi"}}
    for wanted, actual in ((volume, world.volume("pv-1")), (claim, world.claim("data"))):
        wanted["metadata"]["resourceVersion"] = actual["metadata"]["resourceVersion"]
        assert actual == wanted
    assert writes(world) == FOUR
    # The pod once, and the claim before its volume is committed and before a phase says Bound.
    assert process.connection.requests == 4 + 3
    assert process.sink.reasons_of("Pod", "web") == ["VolumeBound"]
    assert process.metrics.counted["bound", "fast", "WaitForFirstConsumer"] == 1


async def test_the_claim_gets_what_the_volume_offers_to_the_letter() -> None:
    world = World(Mode.COMPLETE)
    volume = volume_object("pv-1", annotations={"volume.alpha.kubernetes.io/pre-resize-capacity": "11Gi"})
    volume["spec"] |= {"volumeAttributesClassName": "gold", "accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}
    claim = claim_object("data")
    claim["spec"]["volumeAttributesClassName"] = "gold"
    world.put(volume, claim, pod_object("web", ["data"], unschedulable=True))
    async with world.process() as process:
        await process.run()
    assert world.claim("data")["status"] == {
        "phase": "Bound",
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "capacity": {"storage": "11Gi"},
        "currentVolumeAttributesClassName": "gold",
    }


async def test_what_the_watch_shows_to_be_written_is_not_written_again() -> None:
    """A write based on an older version would be answered 409."""
    world = one_claim()

    def written() -> None:
        def by_the_pv_controller(document: dict[str, Any]) -> None:
            document["spec"]["volumeName"] = "pv-1"
            document["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"

        world.server.change("persistentvolumeclaims", "default/data", by_the_pv_controller)

    before(world, "pv-1/status", written)
    async with world.process() as process:
        await process.run()
    assert writes(world) == [write for write in FOUR if write != "persistentvolumeclaims"]
    assert world.claim("data")["status"]["phase"] == "Bound"
    assert not [counted for counted in process.metrics.counted if counted[0] == "conflicted"]


@pytest.mark.parametrize("ending", ["pv-1", "pv-1/status", "data", "data/status"])
async def test_the_pv_controller_doing_all_of_it_first_is_success(ending: str) -> None:
    world = one_claim()
    before(world, ending, lambda: bind(world, "data", "pv-1"))
    async with world.process() as process:
        await process.run()
    assert world.claim("data")["spec"]["volumeName"] == "pv-1"
    assert world.claim("data")["status"]["phase"] == "Bound"
    assert process.sink.reasons_of("Pod", "web") == ["VolumeBound"]
    assert world.violations() == []


@pytest.mark.parametrize("ending", ["pv-1/status", "data", "data/status"])
async def test_a_change_that_does_not_concern_us_is_read_and_passed_over(ending: str) -> None:
    world = one_claim()
    name = ending.removesuffix("/status")
    plural, key = ("persistentvolumes", name) if name == "pv-1" else ("persistentvolumeclaims", "default/data")
    note = {"somebody.example/note": "hello"}
    before(
        world,
        ending,
        lambda: world.server.change(
            plural, key, lambda document: document["metadata"].setdefault("annotations", {}).update(note)
        ),
    )
    async with world.process() as process:
        await process.run()
    assert writes(world) == FOUR
    assert world.server.get(plural, key)["metadata"]["annotations"]["somebody.example/note"] == "hello"
    assert world.claim("data")["status"]["phase"] == "Bound"


async def test_a_name_that_is_immutable_already_is_a_loss() -> None:
    world = one_claim()
    world.put(volume_object("pv-9", "100Gi"))
    before(world, "data", lambda: bind(world, "data", "pv-9"))
    async with world.process() as process:
        await process.run()
    assert world.claim("data")["spec"]["volumeName"] == "pv-9"
    assert process.sink.reasons_of("PersistentVolumeClaim", "data") == ["ReservationLost"]
    assert process.metrics.counted["conflicted", "persistentvolumeclaims", ConflictKind.ALREADY_CLAIMED] == 1


async def test_422_is_read_again_as_409_is() -> None:
    world = one_claim()
    world.server.reject_next.append(("persistentvolumeclaims/data", failure(422, "Invalid")))
    async with world.process() as process:
        await process.run()
    assert world.claim("data")["status"]["phase"] == "Bound"


async def test_losing_one_volume_uncommits_the_others() -> None:
    world = World(Mode.COMPLETE)
    names = ("one", "two", "three")
    world.put(*(volume_object(f"pv-{number}") for number in (1, 2, 3)), *map(claim_object, names))
    world.put(pod_object("web", names, unschedulable=True))
    before(
        world,
        "pv-3",
        lambda: world.server.change(
            "persistentvolumes", "pv-3", lambda document: document["spec"].update(claimRef=OTHER)
        ),
    )
    async with world.process() as process:
        await process.run()
    for name in ("pv-1", "pv-2"):
        volume = world.volume(name)
        assert "claimRef" not in volume["spec"]
        assert "annotations" not in volume["metadata"]
        assert volume["status"]["phase"] == "Available"
    assert all("volumeName" not in world.claim(name)["spec"] for name in names)


async def test_a_claim_that_the_pv_controller_binds_during_the_rollback_keeps_its_volume() -> None:
    """Between our last look at the claim and the removal of the claimRef: nothing makes these two one step."""
    world = World(Mode.COMPLETE)
    world.put(*(volume_object(f"pv-{number}") for number in (1, 2)), *map(claim_object, ("one", "two")))
    world.put(pod_object("web", ("one", "two"), unschedulable=True))

    def hook(request: Request) -> None:
        if request.path.endswith("pv-2"):
            world.server.change(
                "persistentvolumes", "pv-2", lambda document: document["spec"].update(claimRef=copy.deepcopy(OTHER))
            )
        elif b'"claimRef":null' in (request.body or b"").replace(b" ", b""):
            world.server.before_write = None
            world.server.change("persistentvolumeclaims", "default/one", bound_by_the_pv_controller)

    world.server.before_write = hook
    async with world.process() as process:
        await process.run()
    claim, volume = world.claim("one"), world.volume("pv-1")
    assert claim["spec"]["volumeName"] == "pv-1"
    assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
    assert world.annotations("persistentvolumes", "pv-1") == {}


def bound_by_the_pv_controller(claim: dict[str, Any]) -> None:
    claim["spec"]["volumeName"] = "pv-1"
    claim["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"


async def test_a_deleted_claim_gives_its_volume_back() -> None:
    world = one_claim()
    before(world, "pv-1/status", lambda: world.server.remove("persistentvolumeclaims", "default/data"))
    async with world.process() as process:
        await process.run()
    # The phase says Bound by our second write, so it is the PV controller's to release; nothing of ours is there.
    assert world.volume("pv-1")["status"]["phase"] == "Bound"
    assert world.annotations("persistentvolumes", "pv-1") == {}


async def test_several_claims_are_committed_first_and_then_finished_side_by_side() -> None:
    world = World(Mode.COMPLETE)
    world.put(*(volume_object(name) for name in ("pv-1", "pv-2")), *map(claim_object, ("one", "two")))
    world.put(pod_object("web", ["one", "two"], gated=True))
    async with world.process() as process:
        await process.run()
    assert writes(world)[:2] == ["persistentvolumes"] * 2
    assert sorted(writes(world)[:-1]) == sorted(FOUR * 2)
    assert writes(world)[-1] == "pods"
    # The pod and each claim once: the watch shows that the claims of a gated pod are still as they were read.
    assert process.connection.requests == 9 + 3


async def test_the_claims_of_one_pod_are_bound_few_at_a_time() -> None:
    names = [f"data-{number}" for number in range(3 * AT_ONCE)]
    world = World(Mode.COMPLETE)
    world.put(*(volume_object(f"pv-{name}") for name in names), *map(claim_object, names))
    world.put(pod_object("web", names, gated=True))
    async with world.process() as process:
        await process.run()
    assert len(world.server.writes) == 4 * len(names) + 1
    assert process.connection.most_at_once == AT_ONCE


@pytest.mark.parametrize(("allowed", "phase"), [(False, "Available"), (True, "Bound")])
async def test_volumes_that_go_with_their_claim_are_completed_only_when_allowed(allowed: bool, phase: str) -> None:
    world = World(Mode.COMPLETE, allow_delete_policy=allowed)
    world.put(
        volume_object("pv-1", reclaim_policy="Delete"),
        claim_object("data"),
        pod_object("web", ["data"], unschedulable=True),
    )
    async with world.process() as process:
        await process.run()
    assert world.volume("pv-1")["status"]["phase"] == phase
    assert world.volume("pv-1")["spec"]["claimRef"]["name"] == "data"


async def test_annotations_of_an_earlier_mode_do_not_stay() -> None:
    world = World(Mode.ANNOTATE)
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("web", ["data"], unschedulable=True))
    async with world.process() as process:
        await process.run()
    world.mode = Mode.COMPLETE
    await world.clock.advance(600)
    async with world.process() as process:
        await process.run()
    assert world.claim("data")["status"]["phase"] == "Bound"
    assert world.annotations("persistentvolumes", "pv-1") == {}
    assert world.annotations("persistentvolumeclaims", "default/data") == {}
