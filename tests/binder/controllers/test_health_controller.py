"""What is done when volumes become unhealthy and get well, against an API server in memory."""

from collections.abc import Callable

import pytest

from binder.model.decision import Mode
from binder.reservation.release import Cause
from csi.health.verdict import HealthState
from kube.client.transport import Request
from tests.binder.world import World, bind, reservation
from tests.fakes.kube_api import failure
from tests.fakes.objects import claim_object, pod_object, volume_object

PV = "persistentvolumes"
UNHEALTHY, LOST, DEGRADED, WELL = (
    HealthState.INACCESSIBLE,
    HealthState.DATA_LOSS,
    HealthState.DEGRADED,
    HealthState.HEALTHY,
)


def ward(volumes: int = 4, *, quarantine: bool = True, **how: float) -> World:
    world = World(Mode.PREBIND, quarantine=quarantine, **how)  # type: ignore[arg-type]
    for number in range(1, volumes + 1):
        world.put(volume_object(f"pv-{number}"))
    return world


def quarantined(world: World) -> list[str]:
    return [
        document["metadata"]["name"]
        for document in world.server.all(PV)
        if "quarantine" in world.annotations(PV, document["metadata"]["name"])
        and document["spec"]["claimRef"]["namespace"] == "pvc-prebinder-system"
    ]


async def test_an_unhealthy_available_volume_is_quarantined_in_one_write_and_released_in_one() -> None:
    world = ward()
    async with world.process() as process:
        world.observe(LOST, "pv-1", reason="Gone")
        await process.run()
        assert quarantined(world) == ["pv-1"]
        assert world.annotations(PV, "pv-1") == {
            "health": "DataLoss",
            "health-reason": "Gone",
            "health-since": "2026-01-01T12:00:00Z",
            "health-source": "ControllerGetVolume",
            "quarantine": "DataLoss: Gone",
            "quarantined-at": "2026-01-01T12:00:00Z",
        }
        assert len(world.server.writes) == 1
        world.observe(WELL, "pv-1")
        await process.run()
        assert "claimRef" not in world.volume("pv-1")["spec"]
        assert set(world.annotations(PV, "pv-1")) == {
            "health",
            "health-reason",
            "health-since",
            "health-source",
        }
        assert world.annotations(PV, "pv-1")["health"] == "Healthy"
    assert len(world.server.writes) == 2
    expected = ["VolumeConditionAbnormal", "Quarantined", "VolumeConditionNormal", "QuarantineReleased"]
    assert process.sink.reasons_of("PersistentVolume", "pv-1") == expected


async def test_nothing_is_written_while_nothing_changes() -> None:
    world = ward()
    async with world.process() as process:
        world.observe(WELL, "pv-1", "pv-2", "pv-3")
        await process.run(600)
        assert world.server.writes == []
        world.observe(LOST, "pv-1")
        await process.run(600)
        for _ in range(10):
            world.observe(LOST, "pv-1")
            world.observe(HealthState.UNKNOWN, "pv-1", "pv-2")
            await process.run(60)
        assert len(world.server.writes) == 1
        assert len(process.sink.events) == 2


async def test_without_the_option_an_unhealthy_volume_is_only_marked() -> None:
    world = ward(quarantine=False)
    async with world.process() as process:
        world.observe(LOST, "pv-1")
        await process.run()
    assert quarantined(world) == []
    assert world.annotations(PV, "pv-1")["health"] == "DataLoss"


async def test_what_a_dead_process_quarantined_is_kept_and_released_even_without_the_option() -> None:
    world = ward()
    async with world.process() as first:
        world.observe(LOST, "pv-1")
        await first.run()
    world.quarantine = False
    async with world.process(transition=2) as second:
        await second.run()
        assert quarantined(world) == ["pv-1"]
        assert second.sink.events == []
        world.observe(WELL, "pv-1")
        await second.run()
        assert quarantined(world) == []
        assert "claimRef" not in world.volume("pv-1")["spec"]


async def test_a_restart_quarantines_what_became_unhealthy_meanwhile() -> None:
    world = ward()
    world.observe(UNHEALTHY, "pv-2")
    async with world.process() as process:
        await process.run()
    assert quarantined(world) == ["pv-2"]


async def test_the_cap_holds_some_back_until_there_is_room() -> None:
    world = ward(10)
    async with world.process() as process:
        world.observe(LOST, *(f"pv-{number}" for number in range(1, 11)))
        await process.run()
        assert len(quarantined(world)) == 3
        assert process.term.health_controller.counts() == {"fast": (3, 7)}
        assert all(world.annotations(PV, f"pv-{number}")["health"] == "DataLoss" for number in range(1, 11))
        world.observe(WELL, quarantined(world)[0])
        await process.run(60)
        assert len(quarantined(world)) == 3
        assert process.term.health_controller.counts() == {"fast": (3, 6)}
        for number in range(1, 11):
            world.observe(WELL, f"pv-{number}")
        await process.run(60)
        assert process.term.health_controller.counts() == {"fast": (0, 0)}


async def test_a_mass_of_unhealthy_volumes_is_written_at_the_stated_rate() -> None:
    world = ward(500, max_share=1.0)
    async with world.process() as process:
        world.observe(LOST, *(f"pv-{number}" for number in range(1, 501)))
        await process.run(0)
        assert len(world.server.writes) <= 51
        await process.run(5)
        assert len(world.server.writes) <= 301
        await process.run(5)
        assert len(world.server.writes) == len(quarantined(world)) == 500


def take(world: World) -> None:
    world.put(claim_object("data"))
    bind(world, "data", "pv-1")


def delete(world: World) -> None:
    world.server.remove(PV, "pv-1")


@pytest.mark.parametrize("meddle", [pytest.param(take, id="bound"), pytest.param(delete, id="deleted")])
async def test_another_writer_that_is_faster_wins(meddle: Callable[[World], None]) -> None:
    world = ward()

    def before(request: Request) -> None:
        world.server.before_write = None
        meddle(world)

    world.server.before_write = before
    async with world.process() as process:
        world.observe(LOST, "pv-1")
        await process.run()
    assert quarantined(world) == []
    if meddle is take:
        assert world.volume("pv-1")["spec"]["claimRef"]["name"] == "data"
        assert process.sink.reasons_of("PersistentVolumeClaim", "data") == ["VolumeConditionAbnormal"]


async def test_a_claim_ref_that_replaced_ours_is_left_alone() -> None:
    world = ward()
    async with world.process() as process:
        world.observe(LOST, "pv-1")
        await process.run()
        theirs = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "theirs"}
        world.server.change(PV, "pv-1", lambda document: document["spec"].update(claimRef=theirs))
        await process.run()
        world.observe(WELL, "pv-1")
        await process.run()
    assert world.volume("pv-1")["spec"]["claimRef"] == theirs
    assert "quarantine" not in world.annotations(PV, "pv-1")


async def test_removing_the_claim_ref_does_not_release_an_unhealthy_volume() -> None:
    world = ward()
    async with world.process() as process:
        world.observe(LOST, "pv-1")
        await process.run()
        world.server.change(PV, "pv-1", lambda document: document["spec"].pop("claimRef"))
        await process.run()
    assert quarantined(world) == ["pv-1"]


async def test_users_of_a_bound_volume_get_one_event() -> None:
    world = ward()
    world.put(claim_object("data"), pod_object("web", ["data"], node="node-a1"))
    bind(world, "data", "pv-1")
    async with world.process() as process:
        world.observe(DEGRADED, "pv-1")
        await process.run(300)
        world.observe(DEGRADED, "pv-1")
        await process.run(300)
    for kind, name in (("PersistentVolume", "pv-1"), ("PersistentVolumeClaim", "data"), ("Pod", "web")):
        assert process.sink.reasons_of(kind, name) == ["VolumeConditionAbnormal"]
    assert len(world.server.writes) == 1


@pytest.mark.parametrize("mode", [Mode.ANNOTATE, Mode.PREBIND])
@pytest.mark.parametrize("state", [DEGRADED, UNHEALTHY, LOST])
async def test_a_reserved_volume_that_becomes_unhealthy_is_given_up_for_another(mode: Mode, state: HealthState) -> None:
    world = ward()
    world.mode = mode
    world.put(claim_object("data"), pod_object("web", ["data"]))
    async with world.process() as process:
        await process.run()
        assert world.reserved("data") == "pv-1"
        world.observe(state, "pv-1")
        await process.run()
        assert world.reserved("data") == "pv-2"
        assert not any(key.startswith("reserved") for key in world.annotations(PV, "pv-1"))
        assert quarantined(world) == ([] if state is DEGRADED else ["pv-1"])
    assert process.metrics.counted["released", Cause.UNHEALTHY] == 1
    assert process.sink.reasons_of("Pod", "web") == ["VolumeReserved", "ReservationLost", "VolumeReserved"]
    assert world.violations() == []


async def test_a_volume_that_is_being_bound_is_not_given_up() -> None:
    world = ward()
    world.put(claim_object("data"), pod_object("web", ["data"], unschedulable=True))
    async with world.process() as process:
        await process.run()
        world.server.change(
            "persistentvolumeclaims", "default/data", lambda document: document["spec"].update(volumeName="pv-1")
        )
        world.observe(LOST, "pv-1")
        await process.run()
    assert world.volume("pv-1")["spec"]["claimRef"]["name"] == "data"
    assert process.metrics.counted["released", Cause.UNHEALTHY] == 0


async def test_a_reservation_of_a_volume_known_to_be_unhealthy_does_not_last() -> None:
    """As one that was written while its volume became unhealthy."""
    world = ward()
    world.put(claim_object("data"), pod_object("web", ["data"]))
    async with world.process() as process:
        world.observe(DEGRADED, "pv-1")
        await process.run()
        world.put(volume_object("pv-1", annotations=reservation("data")))
        await process.run()
    assert world.reserved("data") == "pv-2"
    assert not any(key.startswith("reserved") for key in world.annotations(PV, "pv-1"))


@pytest.mark.parametrize("before", [DEGRADED, HealthState.UNKNOWN], ids=["recovers", "has a driver that answers again"])
async def test_a_rejected_pod_gets_the_volume_that(before: HealthState) -> None:
    world = ward(1)
    world.observe(before, "pv-1")
    world.put(claim_object("data"), pod_object("web", ["data"]))
    async with world.process() as process:
        await process.run(200)
        assert world.reserved("data") is None
        world.observe(WELL, "pv-1")
        await process.run()
        assert world.reserved("data") == "pv-1"


async def test_a_dry_run_writes_nothing() -> None:
    world = ward()
    async with world.process(dry_run=True) as process:
        world.observe(LOST, "pv-1")
        await process.run()
    assert world.server.writes == []
    assert process.sink.reasons_of("PersistentVolume", "pv-1") == ["VolumeConditionAbnormal", "Quarantined"]


@pytest.mark.parametrize(
    ("status", "reason"), [(401, "Unauthorized"), (403, "Forbidden"), (422, "Invalid"), (400, "BadRequest")]
)
async def test_what_the_api_server_does_not_accept_is_reported_and_retried_ever_more_slowly(
    status: int, reason: str
) -> None:
    world = ward()
    world.server.reject_next += [("PATCH", failure(status, reason))] * 1000
    async with world.process() as process:
        world.observe(LOST, "pv-1")
        await process.run(6)
        tries = 1000 - len(world.server.reject_next)
        assert 3 < tries < 10
        rejected = [event for event in process.sink.events if event.reason == "WriteRejected"]
        assert {event.regarding.name for event in rejected} == {"pv-1"}
        assert rejected[0].note.endswith(f": {reason}")
        world.server.reject_next.clear()
        await process.run(60)
        assert quarantined(world) == ["pv-1"]


async def test_a_volume_that_changes_all_the_time_is_not_patched_all_the_time() -> None:
    world = ward()
    world.server.reject_next += [("PATCH", failure(409, "Conflict"))] * 1000
    async with world.process() as process:
        world.observe(LOST, "pv-1")
        await process.run(60)
        assert 1000 - len(world.server.reject_next) < 15
