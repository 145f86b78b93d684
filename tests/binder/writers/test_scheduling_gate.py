"""The scheduling gate: lifted when the volumes are held or nothing of ours is missing, else kept."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from binder.model.decision import Mode
from binder.reporting.announce import GATE_KEPT
from binder.reservation.contract import Annotations
from csi.health.verdict import HealthState
from kube.client.transport import Request
from tests.binder.world import World, bind, bind_committed
from tests.fakes.kube_api import failure
from tests.fakes.objects import claim_object, class_object, pod_object, volume_object

GATE = {"name": Annotations().gate}
FOREIGN = {"name": "quota.example/admission"}


def gated(*gates: dict[str, str], claim: str = "data") -> dict[str, Any]:
    pod = pod_object("web", [claim])
    pod["spec"]["schedulingGates"] = list(gates)
    return pod


def gates_of(world: World) -> list[dict[str, str]]:
    gates: list[dict[str, str]] = world.server.get("pods", "default/web")["spec"].get("schedulingGates", [])
    return gates


async def test_a_gate_does_not_wait_until_the_volumes_of_all_other_pods_are_written() -> None:
    world = World(Mode.COMPLETE)
    names = [f"web-{number}" for number in range(50)]
    world.put(*(volume_object(f"pv-{name}") for name in names), *(claim_object(name) for name in names))
    world.put(*(pod_object(name, [name], gated=True) for name in names))
    async with world.process() as process:
        await process.run()
    lifts = [number for number, write in enumerate(world.server.writes) if write.plural == "pods"]
    assert len(lifts) == len(names)
    assert lifts[len(names) // 2] < len(world.server.writes) * 2 / 3


async def test_the_gates_of_prebound_pods_are_removed_when_their_claims_are_bound() -> None:
    """The claims were read before they were committed: they are not read again."""
    world = World(Mode.PREBIND)
    names = [f"web-{number}" for number in range(50)]
    world.put(*(volume_object(f"pv-{name}") for name in names), *(claim_object(name) for name in names))
    world.put(*(pod_object(name, [name], gated=True) for name in names))
    async with world.process() as process:
        await process.run(30)
        assert [write.plural for write in world.server.writes] == ["persistentvolumes"] * 50
        requests = process.connection.requests
        bind_committed(world)
        await process.run(1)
    assert [write.plural for write in world.server.writes[50:]] == ["pods"] * 50
    assert process.connection.requests == requests + 50


async def test_a_pod_whose_volume_is_taken_before_it_is_bound_keeps_its_gate_until_it_has_another() -> None:
    world = World(Mode.PREBIND)
    names = [f"web-{number}" for number in range(50)]
    world.put(*(volume_object(f"pv-{name}") for name in names), *(claim_object(name) for name in names))
    world.put(*(pod_object(name, [name], gated=True) for name in names))
    thief = {"kind": "PersistentVolumeClaim", "namespace": "elsewhere", "name": "thief", "uid": "uid-thief"}
    async with world.process() as process:
        await process.run()
        robbed = world.volume("pv-web-7")["spec"]["claimRef"]["name"]
        world.server.change("persistentvolumes", "pv-web-7", lambda volume: volume["spec"].update(claimRef=thief))
        world.binds = True
        await process.run()
        waiting = {pod["metadata"]["name"] for pod in world.server.all("pods") if pod["spec"].get("schedulingGates")}
        assert waiting == {robbed}
        world.put(volume_object("pv-spare"))
        await process.run()
    assert not any(pod["spec"].get("schedulingGates") for pod in world.server.all("pods"))
    assert world.volume("pv-spare")["spec"]["claimRef"]["name"] == robbed


@pytest.mark.parametrize("mode", [Mode.ANNOTATE, Mode.PREBIND, Mode.COMPLETE])
async def test_a_burst_that_takes_longer_than_a_reservation_lasts_is_served(mode: Mode) -> None:
    world = World(mode, ttl=timedelta(seconds=10), qps=8, binds=True)
    names = [f"web-{number}" for number in range(60)]
    world.put(*(volume_object(f"pv-{name}") for name in names), *(claim_object(name) for name in names))
    world.put(*(pod_object(name, [name], gated=True) for name in names))
    async with world.process() as process:
        for _ in range(12):
            await process.run(10)
            late = "still reserved"  # Releases, too, are slow here.
            assert [violation for violation in world.violations() if late not in violation] == []
    assert not any(pod["spec"].get("schedulingGates") for pod in world.server.all("pods"))


@pytest.mark.parametrize("mode", [Mode.ANNOTATE, Mode.PREBIND, Mode.COMPLETE])
async def test_the_gate_is_lifted_after_the_last_write_for_the_volumes(mode: Mode) -> None:
    world = World(mode, binds=True)
    world.put(volume_object("pv-1"), claim_object("data"), gated(GATE))
    async with world.process() as process:
        await process.run()
    assert gates_of(world) == []
    assert [write.plural for write in world.server.writes][-1] == "pods"
    claims = set() if mode is Mode.PREBIND else {"persistentvolumeclaims"}
    assert {write.plural for write in world.server.writes[:-1]} == {"persistentvolumes"} | claims


async def test_a_rejected_pod_keeps_its_gate_until_a_volume_is_healthy() -> None:
    world = World(Mode.PREBIND, binds=True)
    world.doctor.states["handle-pv-1"] = HealthState.INACCESSIBLE
    world.put(volume_object("pv-1"), claim_object("data"), gated(GATE))
    async with world.process() as process:
        await process.run()
        assert gates_of(world) == [GATE]
        world.put(volume_object("pv-2"))
        await process.run()
    assert gates_of(world) == []
    assert "claimRef" not in world.volume("pv-1")["spec"]


async def test_other_gates_are_not_ours_and_hold_everything_back() -> None:
    world = World(Mode.PREBIND, binds=True)
    world.put(volume_object("pv-1"), claim_object("data"), gated(FOREIGN, GATE))
    async with world.process() as process:
        await process.run()
        assert not world.server.writes
        world.server.change("pods", "default/web", lambda pod: pod["spec"].update(schedulingGates=[GATE]))
        await process.run()
    assert gates_of(world) == []


@pytest.mark.parametrize(
    ("storage_class", "claim"),
    [
        pytest.param(class_object("other", mode="off"), claim_object("data", storage_class="other"), id="class is off"),
        pytest.param(
            class_object("other", binding_mode="Immediate"), claim_object("data", storage_class="other"), id="immediate"
        ),
    ],
)
async def test_a_gated_pod_without_anything_for_us_is_released(
    storage_class: dict[str, Any], claim: dict[str, Any]
) -> None:
    world = World(Mode.PREBIND, binds=True)
    world.put(storage_class, claim, gated(GATE))
    async with world.process() as process:
        await process.run()
    assert gates_of(world) == []
    assert [write.plural for write in world.server.writes] == ["pods"]


async def test_a_gated_pod_without_claims_is_released() -> None:
    world = World(Mode.PREBIND, binds=True)
    pod = pod_object("web", [])
    pod["spec"]["schedulingGates"] = [GATE]
    world.put(pod)
    async with world.process() as process:
        await process.run()
    assert gates_of(world) == []


async def test_claims_that_do_not_exist_yet_are_waited_for() -> None:
    """As those of generic ephemeral volumes, which are made after the pod."""
    world = World(Mode.PREBIND, binds=True)
    world.put(volume_object("pv-1"), gated(GATE))
    async with world.process() as process:
        await process.run()
        assert gates_of(world) == [GATE]
        world.put(claim_object("data"))
        await process.run()
    assert gates_of(world) == []
    assert world.volume("pv-1")["spec"]["claimRef"]["name"] == "data"


async def test_a_recreated_pod_that_is_seen_before_its_new_claim_keeps_its_gate() -> None:
    """The claim of its predecessor was bound, and the watch of claims is behind that of pods."""
    world = World(Mode.PREBIND, binds=True)
    world.put(volume_object("pv-1"), claim_object("data"))
    bind(world, "data", "pv-1")
    async with world.process() as process:
        world.server.lagging = True
        world.server.remove("persistentvolumeclaims", "default/data")
        world.put(claim_object("data", uid="uid-anew"))
        world.server.lagging = False
        world.put(gated(GATE))
        await process.run()
        assert gates_of(world) == [GATE]
        world.put(volume_object("pv-2"))
        await process.run(60)
    assert gates_of(world) == []
    assert world.volume("pv-2")["spec"]["claimRef"]["name"] == "data"


async def test_a_pod_whose_claim_is_being_deleted_keeps_its_gate_until_the_next_claim_is_served() -> None:
    world = World(Mode.PREBIND, binds=True)
    world.put(volume_object("pv-1"), claim_object("data"))
    bind(world, "data", "pv-1")
    ending = {"deletionTimestamp": "2026-01-01T12:00:00Z"}
    world.server.change("persistentvolumeclaims", "default/data", lambda claim: claim["metadata"].update(ending))
    world.put(gated(GATE))
    async with world.process() as process:
        await process.run()
        assert gates_of(world) == [GATE]
        world.server.remove("persistentvolumeclaims", "default/data")
        world.put(claim_object("data", uid="uid-anew"))
        await process.run(60)
        assert gates_of(world) == [GATE]
        world.put(volume_object("pv-2"))
        await process.run(60)
    assert gates_of(world) == []
    assert world.volume("pv-2")["spec"]["claimRef"]["name"] == "data"


async def test_an_immediate_claim_is_waited_for_beside_one_that_is_ours() -> None:
    world = World(Mode.PREBIND, binds=True)
    pod = pod_object("web", ["now", "data"])
    pod["spec"]["schedulingGates"] = [GATE]
    now = claim_object("now", storage_class="now")
    world.put(class_object("now", binding_mode="Immediate"), volume_object("pv-1"), now, claim_object("data"), pod)
    async with world.process() as process:
        await process.run()
        assert gates_of(world) == [GATE]
        assert not world.server.writes


async def test_without_the_right_to_patch_pods_users_are_notified_once() -> None:
    world = World(Mode.PREBIND, binds=True)
    world.put(volume_object("pv-1"), claim_object("data"), gated(GATE))

    world.server.reject_next += [("PATCH /api/v1/namespaces/default/pods/", failure(403, "Forbidden"))] * 3
    async with world.process() as process:
        await process.run(3)
        assert gates_of(world) == [GATE]
        assert process.sink.reasons_of("Pod", "web").count(GATE_KEPT) == 1
        await process.run(120)
    assert not world.server.reject_next
    assert process.sink.reasons_of("Pod", "web").count(GATE_KEPT) == 1
    assert gates_of(world) == []


async def test_a_gate_that_may_not_be_removed_from_a_bound_pod_is_retried_less_and_less_and_reported_once() -> None:
    world = World(Mode.PREBIND, binds=True)
    world.put(volume_object("pv-1"), claim_object("data"), gated(GATE))
    bind(world, "data", "pv-1")
    rejected = [("PATCH /api/v1/namespaces/default/pods/", failure(403, "Forbidden"))] * 20
    world.server.reject_next += rejected
    async with world.process() as process:
        await process.run(300)
        assert len(rejected) - len(world.server.reject_next) < len(rejected)
        assert process.sink.reasons_of("Pod", "web").count(GATE_KEPT) == 1
        world.server.reject_next.clear()
        await process.run(60)
    assert gates_of(world) == []


@pytest.mark.parametrize(("status", "reason"), [(401, "Unauthorized"), (422, "Invalid"), (400, "BadRequest")])
async def test_a_gate_is_lifted_once_what_stood_in_the_way_is_gone(status: int, reason: str) -> None:
    world = World(Mode.PREBIND, binds=True)
    world.put(volume_object("pv-1"), claim_object("data"), gated(GATE))
    world.server.reject_next += [("PATCH /api/v1/namespaces/default/pods/", failure(status, reason))] * 4
    async with world.process() as process:
        await process.run(60)
        await process.run(60)
    assert not world.server.reject_next
    assert gates_of(world) == []
    assert "WriteRejected" in process.sink.reasons_of("Pod", "web")


async def test_a_dry_run_lifts_nothing() -> None:
    world = World(Mode.PREBIND, binds=True)
    world.put(volume_object("pv-1"), claim_object("data"), gated(GATE))
    async with world.process(dry_run=True) as process:
        await process.run()
    assert gates_of(world) == [GATE]
    assert not world.server.writes


async def test_many_gates_are_lifted_few_at_a_time() -> None:
    world = World(Mode.PREBIND, binds=True)
    for number in range(300):
        world.put(pod_object(f"web-{number}", [], gated=True))
    async with world.process() as process:
        await process.run()
    assert process.connection.requests == 300
    assert process.connection.most_at_once == 10


@pytest.mark.parametrize("mode", [Mode.ANNOTATE, Mode.PREBIND, Mode.COMPLETE])
@pytest.mark.parametrize("later", [False, True])
async def test_a_gate_stays_while_the_volume_of_a_shared_claim_is_only_reserved_for_another_pod(
    mode: Mode, later: bool
) -> None:
    world = World(mode, binds=True)
    world.doctor.hang.add("handle-pv-1")
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("first", ["data"], gated=True))
    second = pod_object("second", ["data"], gated=True)
    if not later:
        world.put(second)
    async with world.process() as process:
        await process.run()
        if later:
            world.put(second)
            await process.run()
    for name in ("first", "second"):
        assert world.server.get("pods", f"default/{name}")["spec"]["schedulingGates"] == [GATE]


async def test_pods_that_share_a_claim_are_both_released_once_its_volume_is_held() -> None:
    world = World(Mode.COMPLETE)
    world.put(volume_object("pv-1"), claim_object("data"))
    world.put(*(pod_object(name, ["data"], gated=True) for name in ("first", "second")))
    async with world.process() as process:
        await process.run()
    assert world.claim("data")["spec"]["volumeName"] == "pv-1"
    for name in ("first", "second"):
        assert not world.server.get("pods", f"default/{name}")["spec"].get("schedulingGates")


@pytest.mark.parametrize("mode", [Mode.PREBIND, Mode.COMPLETE])
async def test_the_gate_stays_if_a_bound_claim_is_recreated_while_the_others_are_written(mode: Mode) -> None:
    world = World(mode, binds=True)
    world.put(volume_object("pv-1"), volume_object("pv-2"), claim_object("bound"), claim_object("open"))
    bind(world, "bound", "pv-1")
    world.put(pod_object("web", ["bound", "open"], gated=True))

    def made_anew(_: Request) -> None:
        world.server.before_write = None
        world.server.remove("persistentvolumeclaims", "default/bound")
        world.put(claim_object("bound", "500Gi", uid="uid-new"))

    world.server.before_write = made_anew
    async with world.process() as process:
        await process.run()
        assert gates_of(world) == [GATE]
        world.put(volume_object("pv-3", "500Gi"))
        await process.run(70)
    assert world.volume("pv-3")["spec"]["claimRef"]["name"] == "bound"
    assert gates_of(world) == []


async def test_a_gate_is_not_lifted_for_a_volume_that_was_released_unseen() -> None:
    """The answer to a rollback was lost with the API server, and the watch of volumes is behind the others."""
    world = World(Mode.ANNOTATE)
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("first", ["data"], gated=True))
    async with world.process() as process:
        await process.run()
        world.server.lagging = True
        world.server.change("persistentvolumes", "pv-1", released)
        world.server.lagging = False
        del world.server.writes[:]
        world.put(pod_object("second", ["data"], gated=True))
        await process.run(10)
    written = [write.plural for write in world.server.writes]
    assert "persistentvolumes" in written
    assert written[-1] == "pods"
    assert not world.server.get("pods", "default/second")["spec"].get("schedulingGates")


def released(volume: dict[str, Any]) -> None:
    volume["spec"].pop("claimRef", None)
    volume["metadata"]["annotations"].clear()


@pytest.mark.parametrize("mode", [Mode.PREBIND, Mode.COMPLETE])
async def test_a_volume_that_names_a_claim_and_is_too_small_for_it_is_not_counted_on(mode: Mode) -> None:
    world = World(mode)
    named = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
    world.put(volume_object("pv-small", "1Gi", claim=named), volume_object("pv-1"), volume_object("pv-2", zone="b"))
    world.put(claim_object("data"), claim_object("more", "5Gi"), pod_object("web", ["data", "more"], gated=True))
    async with world.process() as process:
        await process.run()
        assert gates_of(world) == [GATE]
        assert not any("claimRef" in world.volume(name)["spec"] for name in ("pv-1", "pv-2"))
        world.server.remove("persistentvolumes", "pv-small")
        world.put(volume_object("pv-3"))
        world.binds = True
        await process.run(70)
    assert gates_of(world) == []
    assert all("claimRef" in world.volume(name)["spec"] for name in ("pv-1", "pv-3"))


async def test_claims_are_noted_for_pods_that_carry_our_gate_only() -> None:
    world = World(Mode.PREBIND, binds=True)
    world.put(volume_object("pv-1"), claim_object("data"), gated(FOREIGN, GATE))
    async with world.process() as process:
        scheduling_gate, pod = process.reconciler.scheduling_gate, process.store.snapshot().pods["default/web"]
        assert set(scheduling_gate.known_claims(pod)) == {"default/data"}
        for others in ((), (FOREIGN["name"],)):
            assert scheduling_gate.known_claims(replace(pod, scheduling_gates=others)) == {}
