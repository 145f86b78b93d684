"""Binds that others began: mode complete finishes them with what is left of the four writes; all else is left alone."""

from collections.abc import Callable
from typing import Any

import pytest

from binder.controllers.deference import FINISH_AFTER, MAX_PODS_LEFT_TO_PV_CONTROLLER
from binder.controllers.pod_progress import REPORTED_AFTER
from binder.matching.rejection import Reason
from binder.model.decision import Mode
from csi.health.verdict import HealthState
from kube.client.transport import Request
from kube.objects.model import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE
from tests.binder.world import World, bind, reservation
from tests.fakes.objects import claim_object, pod_object, volume_object

CHOSEN = {BOUND_BY_CONTROLLER: "yes"}
FOUR = ["persistentvolumes", "persistentvolumes/status", "persistentvolumeclaims", "persistentvolumeclaims/status"]
UID = "uid-data"


def begun(mode: Mode = Mode.COMPLETE, *, uid: str = UID, size: str = "16Gi", **volume: Any) -> World:
    """A world in which kube-scheduler has just written the claimRef of a volume."""
    world = World(mode)
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
    volume.setdefault("annotations", CHOSEN)
    written = volume_object("pv-1", size, **volume)
    written["spec"]["claimRef"] = reference | ({"uid": uid} if uid else {})
    world.put(written, claim_object("data", uid=UID), pod_object("web", ["data"]))
    return world


def changed(world: World, plural: str, key: str, change: Callable[[dict[str, Any]], None]) -> World:
    world.server.change(plural, key, change)
    return world


def writes(world: World) -> list[str]:
    return [f"{write.plural}/{write.subresource}".rstrip("/") for write in world.server.writes]


def completed(document: dict[str, Any]) -> None:
    document["spec"]["volumeName"] = "pv-1"
    document["metadata"]["annotations"] = {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}


def after_the_third() -> World:
    return changed(begun(phase="Bound"), "persistentvolumeclaims", "default/data", completed)


@pytest.mark.parametrize(
    ("world", "left"),
    [
        pytest.param(begun(), FOUR[1:], id="kube-scheduler-committed"),
        pytest.param(begun(annotations={}), FOUR[1:], id="a-person-wrote-uid-and-all"),
        pytest.param(begun(uid="", annotations={}), FOUR, id="a-person-wrote-the-name"),
        pytest.param(begun(uid="", annotations=reservation("data", reserved_for_uid=UID)), FOUR, id="our-prebind"),
        pytest.param(begun(phase="Bound"), FOUR[2:], id="after-the-second-write"),
        pytest.param(after_the_third(), FOUR[3:], id="after-the-third-write"),
    ],
)
async def test_complete_does_what_is_left(world: World, left: list[str]) -> None:
    async with world.process() as process:
        await process.run()
    assert writes(world) == left
    volume, claim = world.volume("pv-1"), world.claim("data")
    assert (volume["spec"]["claimRef"]["uid"], volume["status"]["phase"]) == (UID, "Bound")
    assert (claim["spec"]["volumeName"], claim["status"]["phase"]) == ("pv-1", "Bound")
    assert claim["metadata"]["annotations"] == {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
    assert world.annotations("persistentvolumes", "pv-1") == {}
    assert process.metrics.counted["attempted", "fast", "WaitForFirstConsumer", "success"] == 1
    assert process.metrics.counted["bound", "fast", "WaitForFirstConsumer"] == 1
    assert process.sink.reasons_of("Pod", "web") == ["VolumeBound"]


def second_volume() -> World:
    world = begun()
    world.put(volume_object("pv-2", claim={"namespace": "default", "name": "data", "uid": UID}))
    return world


def provisioned() -> World:
    world = begun()
    world.server.change("storageclasses", "fast", lambda document: document.update(provisioner="disk.csi.example"))
    note = {SELECTED_NODE: "node-a1"}
    return changed(
        world, "persistentvolumeclaims", "default/data", lambda document: document["metadata"].update(annotations=note)
    )


def offering(**spec: Any) -> World:
    return changed(begun(), "persistentvolumes", "pv-1", lambda document: document["spec"].update(spec))


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(begun(Mode.PREBIND), id="prebind"),
        pytest.param(begun(Mode.ANNOTATE), id="annotate"),
        pytest.param(begun(Mode.OFF), id="off"),
        pytest.param(begun(uid="uid-former"), id="a-former-claim-of-that-name"),
        pytest.param(begun(reclaim_policy="Delete"), id="delete-policy"),
        pytest.param(begun(size="1Gi"), id="too-small"),
        pytest.param(begun(phase="Failed"), id="failed"),
        pytest.param(offering(volumeMode="Block"), id="other-volume-mode"),
        pytest.param(offering(accessModes=["ReadOnlyMany"]), id="other-access-modes"),
        pytest.param(offering(volumeAttributesClassName="gold"), id="other-attributes"),
        pytest.param(second_volume(), id="two-volumes-name-it"),
        pytest.param(provisioned(), id="being-provisioned"),
    ],
)
async def test_all_else_is_left_to_kubernetes(world: World) -> None:
    async with world.process() as process:
        await process.run()
    assert writes(world) == []


async def test_delete_policy_is_finished_when_allowed() -> None:
    world = begun(reclaim_policy="Delete")
    world.allow_delete_policy = True
    async with world.process() as process:
        await process.run()
    assert writes(world) == FOUR[1:]


@pytest.mark.parametrize(
    ("state", "reason"),
    [(HealthState.DATA_LOSS, Reason.UNHEALTHY), (HealthState.UNKNOWN, Reason.HEALTH_UNKNOWN)],
)
async def test_an_unhealthy_volume_is_probed_reported_and_left_to_kubernetes(
    state: HealthState, reason: Reason
) -> None:
    world = begun()
    world.doctor.states["handle-pv-1"] = state
    async with world.process() as process:
        await process.run(REPORTED_AFTER[Reason.HEALTH_UNKNOWN] + 5)
        assert writes(world) == []
        assert world.doctor.probed[0] == "handle-pv-1"
        for kind, name in (("Pod", "web"), ("PersistentVolumeClaim", "data")):
            assert process.sink.reasons_of(kind, name) == [reason]
        assert process.sink.events[0].note.startswith(f"Bind not finished: {reason}.")
        bind(world, "data", "pv-1")
        await process.run()
    assert process.metrics.counted["attempted", "fast", "WaitForFirstConsumer", "success"] == 0


@pytest.mark.parametrize("ending", ["pv-1", "pv-1/status", "data", "data/status"])
async def test_the_pv_controller_being_faster_is_success(ending: str) -> None:
    world = begun(uid="", annotations={})

    def hook(request: Request) -> None:
        if request.path.endswith(ending):
            world.server.before_write = None
            bind(world, "data", "pv-1")

    world.server.before_write = hook
    async with world.process() as process:
        await process.run()
    assert world.claim("data")["status"]["phase"] == "Bound"
    assert process.sink.reasons_of("Pod", "web") == ["VolumeBound"]
    assert world.violations() == []


async def test_nothing_is_rolled_back_when_the_claim_is_deleted_meanwhile() -> None:
    world = begun()

    def hook(_: object) -> None:
        world.server.before_write = None
        world.server.remove("persistentvolumeclaims", "default/data")

    world.server.before_write = hook
    async with world.process() as process:
        await process.run()
    assert world.volume("pv-1")["spec"]["claimRef"]["name"] == "data"


async def test_a_commitment_is_finished_when_the_pv_controller_had_its_head_start() -> None:
    """A hint of ours, and kube-scheduler commits the volume: nothing else wakes the pod."""
    world = World(Mode.COMPLETE)
    world.put(claim_object("data", uid=UID), pod_object("web", ["data"]))
    async with world.process() as process:
        await process.run()
        taken = volume_object("pv-1", annotations=CHOSEN)
        taken["spec"]["claimRef"] = {"namespace": "default", "name": "data", "uid": UID}
        world.put(taken)
        await process.run(FINISH_AFTER - 0.05)
        assert world.claim("data")["status"]["phase"] == "Pending"
        await process.run(0.1)
        assert world.claim("data")["status"]["phase"] == "Bound"


async def test_what_the_pv_controller_finishes_in_its_head_start_costs_no_write_and_no_event() -> None:
    world = begun()
    async with world.process() as process:
        await process.run(FINISH_AFTER / 2)
        bind(world, "data", "pv-1")
        written = len(world.server.writes)
        await process.run()
    assert len(world.server.writes) == written
    assert process.sink.events == []


async def test_the_binds_behind_those_left_to_the_pv_controller_are_finished_at_once() -> None:
    world = World(Mode.COMPLETE)
    names = [f"data-{number}" for number in range(MAX_PODS_LEFT_TO_PV_CONTROLLER + 3)]
    for number, name in enumerate(names):
        reference = {"namespace": "default", "name": name, "uid": name}
        volume = volume_object(f"pv-{number}", claim=reference)
        world.put(claim_object(name, uid=name), volume, pod_object(f"web-{number}", [name]))
    async with world.process() as process:
        await process.run(FINISH_AFTER / 2)
        bound = [name for name in names if world.claim(name)["status"]["phase"] == "Bound"]
        assert len(bound) == 3
        await process.run(FINISH_AFTER)
    assert {world.claim(name)["status"]["phase"] for name in names} == {"Bound"}


async def test_pods_that_share_the_claim_finish_it_once() -> None:
    world = begun()
    world.put(*(pod_object(f"web-{number}", ["data"]) for number in range(3)))
    async with world.process() as process:
        await process.run()
    assert writes(world) == FOUR[1:]
    assert process.connection.requests == 4
