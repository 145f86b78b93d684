"""What changes between plan and write: nothing is committed on the strength of what was so a moment ago."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from binder.controllers.deference import COMMIT_AFTER
from binder.model.decision import Mode
from csi.health.verdict import HealthState, Verdict
from kube.client.transport import Request
from tests.binder.world import Doctor, World, bind, reservation
from tests.builders import ZONE
from tests.fake_clock import FakeClock
from tests.fakes.kube_api import failure
from tests.fakes.objects import claim_object, pod_object, volume_object

COMMITTING = [Mode.PREBIND, Mode.COMPLETE]
OTHER = {"kind": "PersistentVolumeClaim", "namespace": "elsewhere", "name": "thief", "uid": "uid-thief"}


def waiting(mode: Mode, *claims: str, **how: Any) -> World:
    """A pod with these claims that kube-scheduler could not serve, and a volume for each, smallest first: pv-1, ..."""
    world = World(mode, **how)
    world.put(*(claim_object(name) for name in claims), pod_object("web", claims, unschedulable=True))
    world.put(*(volume_object(f"pv-{number}", f"{10 + number}Gi") for number in range(1, len(claims) + 1)))
    return world


def at_write(world: World, ending: str, event: Any, times: int = 1) -> None:
    """Let something happen right before our next writes of a path that ends so."""
    left = [times]

    def hook(request: Request) -> None:
        if request.path.endswith(ending) and left[0]:
            left[0] -= 1
            event()

    world.server.before_write = hook


def untouched(world: World, name: str) -> bool:
    volume = world.volume(name)
    plain = "claimRef" not in volume["spec"] and "annotations" not in volume["metadata"]
    return plain and volume["status"]["phase"] == "Available"


def say(world: World, name: str, **words: str) -> None:
    annotations = {f"scheduler.cloud.example/{key.replace('_', '-')}": word for key, word in words.items()}
    world.server.change(
        "persistentvolumes",
        name,
        lambda document: document["metadata"].setdefault("annotations", {}).update(annotations),
    )


@pytest.mark.parametrize("mode", COMMITTING)
async def test_a_claim_that_was_bound_unseen_gets_no_volume(mode: Mode) -> None:
    world = waiting(mode, "data")
    world.put(volume_object("pv-9", "100Gi"))
    async with world.process() as process:
        world.server.lagging = True
        bind(world, "data", "pv-9")
        await process.run()
    assert untouched(world, "pv-1")
    assert world.server.writes == []


@pytest.mark.parametrize("mode", COMMITTING)
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda pod: pod["metadata"].update(deletionTimestamp="2026-01-01T12:00:00Z"), id="is ending"),
        pytest.param(lambda pod: pod["spec"].update(nodeName="node-b1"), id="got a node"),
        pytest.param(lambda pod: pod["spec"].pop("schedulingGates"), id="lost its gate"),
        pytest.param(lambda pod: pod["status"].update(phase="Failed"), id="has ended"),
        pytest.param(lambda pod: pod["spec"].update(nodeSelector={"disk": "ssd"}), id="selects other nodes"),
    ],
)
async def test_a_pod_that_changed_unseen_gets_no_volume(mode: Mode, change: Any) -> None:
    world = World(mode)
    world.put(claim_object("data"), pod_object("web", ["data"], gated=True), volume_object("pv-1"))
    async with world.process() as process:
        world.server.lagging = True
        world.server.change("pods", "default/web", change)
        await process.run(1)
    assert untouched(world, "pv-1")


@dataclass
class Onlooker(Doctor):
    """Something happens while the first volume is probed, after it was chosen and before it is written."""

    clock: FakeClock
    event: Callable[[], object]

    def __post_init__(self) -> None:
        super().__init__(self.clock)

    async def verdict(self, driver: str, handle: str, max_age: timedelta) -> Verdict:
        if not self.probed:
            self.event()
        return await super().verdict(driver, handle, max_age)


def _full(world: World, node: str) -> None:
    pod = pod_object(f"on-{node}", [], node=node)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "8"}}
    world.put(pod)


@pytest.mark.parametrize("mode", COMMITTING)
@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda world, node: world.server.remove("nodes", node), id="deleted"),
        pytest.param(
            lambda world, node: world.server.change("nodes", node, lambda it: it["spec"].update(unschedulable=True)),
            id="cordoned",
        ),
        pytest.param(
            lambda world, node: world.server.change("nodes", node, lambda it: it["metadata"]["labels"].pop(ZONE)),
            id="moved",
        ),
        pytest.param(_full, id="filled"),
    ],
)
async def test_no_volume_is_committed_for_a_node_that_does_not_fit_any_more(mode: Mode, happens: Any) -> None:
    world = World(mode)
    pod = pod_object("web", ["data"], gated=True)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    world.put(claim_object("data"), pod, volume_object("pv-a", zone="a"), volume_object("pv-b", "20Gi", zone="b"))
    world.doctor = Onlooker(world.clock, lambda: [happens(world, node) for node in ("node-a1", "node-a2")])
    async with world.process() as process:
        await process.run()
    assert untouched(world, "pv-a")
    assert world.volume("pv-b")["spec"]["claimRef"]["name"] == "data"


@pytest.mark.parametrize("mode", COMMITTING)
async def test_no_volume_is_committed_once_a_scheduler_may_serve_another_user_of_the_claim(mode: Mode) -> None:
    world = World(mode)
    world.put(claim_object("data"), volume_object("pv-1"), pod_object("web", ["data"], gated=True))
    world.doctor = Onlooker(world.clock, lambda: world.put(pod_object("free", ["data"])))
    async with world.process() as process:
        await process.run(1)
    assert world.doctor.probed
    assert "claimRef" not in world.volume("pv-1")["spec"]


@pytest.mark.parametrize("ending", ["pv-1", "pv-1/status", "data"])
async def test_a_claim_that_gets_another_volume_meanwhile_leaves_nothing_on_ours(ending: str) -> None:
    """Right before any of our writes: what was written is taken back, the phase as well."""
    world = waiting(Mode.COMPLETE, "data")
    world.put(volume_object("pv-9", "100Gi"))
    at_write(world, ending, lambda: bind(world, "data", "pv-9"))
    async with world.process() as process:
        await process.run()
    assert world.claim("data")["spec"]["volumeName"] == "pv-9"
    assert untouched(world, "pv-1")
    assert process.sink.reasons_of("PersistentVolumeClaim", "data") == ["ReservationLost"]
    assert world.violations() == []


@pytest.mark.parametrize("lagging", [False, True])
@pytest.mark.parametrize("ending", ["pv-1", "pv-1/status", "data"])
async def test_a_claim_of_a_gated_pod_that_gets_another_volume_leaves_nothing_on_ours(
    ending: str, lagging: bool
) -> None:
    """Only the PV controller and users can give it another volume; the rejected name has all taken back."""
    world = World(Mode.COMPLETE)
    world.put(claim_object("data"), pod_object("web", ["data"], gated=True))
    world.put(volume_object("pv-1", "11Gi"), volume_object("pv-9", "100Gi"))

    def event() -> None:
        world.server.lagging = lagging
        bind(world, "data", "pv-9")

    at_write(world, ending, event)
    async with world.process() as process:
        await process.run(1)
    assert world.claim("data")["spec"]["volumeName"] == "pv-9"
    assert untouched(world, "pv-1")
    assert world.violations() == []


async def test_a_volume_that_changes_unseen_during_the_rollback_is_read_again_and_taken_back() -> None:
    world = World(Mode.COMPLETE)
    world.put(claim_object("data"), pod_object("web", ["data"], gated=True))
    world.put(volume_object("pv-1", "11Gi"), volume_object("pv-9", "100Gi"))

    def labelled() -> None:
        world.server.change("persistentvolumes", "pv-1", lambda pv: pv["metadata"].update(labels={"note": "x"}))

    def lost() -> None:
        world.server.lagging = True
        bind(world, "data", "pv-9")
        at_write(world, "pv-1/status", labelled)

    at_write(world, "data", lost)
    async with world.process() as process:
        await process.run(1)
    assert world.volume("pv-1")["metadata"]["labels"] == {"note": "x"}
    assert untouched(world, "pv-1")
    assert world.violations() == []


async def test_a_claim_of_a_gated_pod_that_changed_is_read_again_before_a_phase_says_bound() -> None:
    world = World(Mode.COMPLETE)
    world.put(claim_object("data"), pod_object("web", ["data"], gated=True))
    world.put(volume_object("pv-1", "11Gi"), volume_object("pv-9", "100Gi"))
    at_write(world, "pv-1", lambda: bind(world, "data", "pv-9"))
    async with world.process() as process:
        await process.run(1)
    assert "persistentvolumes/status" not in [f"{write.plural}/{write.subresource}" for write in world.server.writes]
    assert process.sink.reasons_of("PersistentVolumeClaim", "data") == ["ReservationLost"]


async def test_a_claim_of_a_gated_pod_that_is_gone_unseen_gets_no_volume() -> None:
    """Nor does a recreated one of its name: no check rejects the claimRef, and a Released volume stays Released."""
    world = World(Mode.COMPLETE)
    world.put(claim_object("data"), pod_object("web", ["data"], gated=True), volume_object("pv-1"))
    async with world.process() as process:
        world.server.lagging = True
        world.server.remove("persistentvolumeclaims", "default/data")
        await process.run(1)
    assert untouched(world, "pv-1")


@pytest.mark.parametrize("writes", [1, 2, 3])
async def test_killed_during_the_rollback_the_pv_controller_can_do_the_rest(writes: int) -> None:
    """It unbinds a volume bound by a controller whose claim is bound elsewhere (syncVolume in pv_controller.go)."""
    world = waiting(Mode.COMPLETE, "data")
    world.put(volume_object("pv-9", "100Gi"))
    at_write(world, "data", lambda: bind(world, "data", "pv-9"))
    async with world.process(dies_after=writes) as process:
        await process.run()
        assert process.killed
    if world.claim("data")["spec"].get("volumeName") is None:
        bind(world, "data", "pv-9")
    before = world.volume("pv-1")
    assert before["spec"]["claimRef"]["uid"] == world.claim("data")["metadata"]["uid"]
    assert before["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    written = len(world.server.writes)
    async with world.process(transition=2) as process:
        await process.run(1000)
    assert len(world.server.writes) == written


async def test_a_claim_ref_of_kube_scheduler_is_not_rolled_back_with_ours() -> None:
    world = waiting(Mode.COMPLETE, "one", "two")
    theirs = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "one"}
    theirs["uid"] = world.claim("one")["metadata"]["uid"]

    def event() -> None:
        world.server.change("persistentvolumes", "pv-1", lambda document: document["spec"].update(claimRef=theirs))
        world.server.change("persistentvolumes", "pv-2", lambda document: document["spec"].update(claimRef=OTHER))

    at_write(world, "pv-1", event)
    async with world.process() as process:
        await process.run(COMMIT_AFTER + 0.5)
    assert world.volume("pv-1")["spec"]["claimRef"] == theirs


async def test_another_volume_that_names_the_claim_ends_the_attempt() -> None:
    world = waiting(Mode.COMPLETE, "data")
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
    reference["uid"] = world.claim("data")["metadata"]["uid"]
    at_write(world, "pv-1", lambda: world.put(volume_object("pv-9", "100Gi", claim=reference)))
    async with world.process() as process:
        await process.run(0.2)
    assert untouched(world, "pv-1")


async def test_a_volume_that_goes_to_another_while_its_phase_is_written_is_not_bound_to_ours() -> None:
    world = waiting(Mode.COMPLETE, "data")
    world.server.reject_next += [("persistentvolumes/pv-1/status", failure(409, "Conflict"))] * 3
    tries: list[int] = []

    def event() -> None:
        tries.append(1)
        if len(tries) == 3:
            world.server.change("persistentvolumes", "pv-1", lambda document: document["spec"].update(claimRef=OTHER))

    at_write(world, "pv-1/status", event, times=3)
    async with world.process() as process:
        await process.run()
    assert len(tries) == 3
    assert world.volume("pv-1")["spec"]["claimRef"] == OTHER
    assert "volumeName" not in world.claim("data")["spec"]


async def test_a_policy_that_rejects_the_phase_ends_the_attempt_and_leaves_nothing() -> None:
    world = waiting(Mode.COMPLETE, "data")
    world.server.reject_next += [("persistentvolumes/pv-1/status", failure(422, "Invalid"))] * 100
    async with world.process() as process:
        await process.run(0.5)
    assert untouched(world, "pv-1")
    assert "volumeName" not in world.claim("data")["spec"]
    assert "WriteRejected" in process.sink.reasons_of("Pod", "web")


@pytest.mark.parametrize("mode", [Mode.ANNOTATE, *COMMITTING])
async def test_the_health_change_that_makes_a_write_fail_is_read(mode: Mode) -> None:
    world = waiting(mode, "data", drivers=frozenset())
    at_write(world, "pv-1", lambda: say(world, "pv-1", health="Inaccessible", health_reason="Gone"))
    async with world.process() as process:
        await process.run(30)
    assert world.server.writes == []
    assert "claimRef" not in world.volume("pv-1")["spec"]
    assert process.sink.reasons_of("Pod", "web")[0] == "ReservationLost"


@pytest.mark.parametrize(("mode", "ending"), [(Mode.COMPLETE, "pv-1"), (Mode.COMPLETE, "pv-1/status")])
async def test_a_volume_that_becomes_unhealthy_between_two_writes_ends_the_bind(mode: Mode, ending: str) -> None:
    """By the driver itself, so that no write fails of it."""
    world = waiting(mode, "data")
    at_write(world, ending, lambda: world.observe(HealthState.INACCESSIBLE, "pv-1"))
    async with world.process() as process:
        await process.run(30)
    assert "volumeName" not in world.claim("data")["spec"]
    assert "claimRef" not in world.volume("pv-1")["spec"]
    assert world.volume("pv-1")["status"]["phase"] == "Available"


@pytest.mark.parametrize("mode", [Mode.ANNOTATE, *COMMITTING])
async def test_an_unhealthy_volume_keeps_the_pod_from_all_its_volumes(mode: Mode) -> None:
    world = waiting(mode, "one", "two")
    at_write(world, "pv-1", lambda: world.observe(HealthState.DATA_LOSS, "pv-2"))
    async with world.process() as process:
        await process.run(30)
    for name in ("pv-1", "pv-2"):
        assert "claimRef" not in world.volume(name)["spec"]
        assert "reserved-for" not in world.annotations("persistentvolumes", name)


async def test_a_volume_becomes_unhealthy_while_a_decision_waits_for_its_turn() -> None:
    """Ten write at a time. The eleventh was planned when its volume was well."""
    world = World(Mode.COMPLETE)
    for number in range(11):
        world.put(claim_object(f"data-{number:02}"), pod_object(f"web-{number:02}", [f"data-{number:02}"], gated=True))
        world.put(volume_object(f"pv-{number:02}", f"{10 + number}Gi"))
    waiting = {f"pv-{number:02}" for number in range(11)}

    def ten_have_begun(request: Request) -> None:
        waiting.discard(request.path.rpartition("/")[2])
        if len(waiting) == 1:
            world.server.before_write = None
            world.observe(HealthState.INACCESSIBLE, *waiting)

    world.server.before_write = ten_have_begun
    async with world.process() as process:
        await process.run(30)
    for number in range(11):
        volume = world.volume(f"pv-{number:02}")
        assert ("claimRef" in volume["spec"]) == (f"pv-{number:02}" not in waiting)
        assert volume["status"]["phase"] == ("Available" if f"pv-{number:02}" in waiting else "Bound")


async def test_a_begun_bind_of_a_volume_that_becomes_unhealthy_is_not_finished() -> None:
    world = waiting(Mode.COMPLETE, "data")
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"}
    reference["uid"] = world.claim("data")["metadata"]["uid"]
    world.server.change("persistentvolumes", "pv-1", lambda document: document["spec"].update(claimRef=reference))
    at_write(world, "pv-1/status", lambda: world.observe(HealthState.INACCESSIBLE, "pv-1"))
    async with world.process() as process:
        await process.run(30)
    assert "volumeName" not in world.claim("data")["spec"]
    assert process.sink.reasons_of("Pod", "web")[-1] == "Unhealthy"


@pytest.mark.parametrize("uid", ["", "uid-persistentvolumeclaims-default/data"])
async def test_a_claim_ref_that_a_user_wrote_beside_our_hint_stays_when_the_hint_ends(uid: str) -> None:
    world = World(Mode.ANNOTATE)
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data"} | (
        {"uid": uid} if uid else {}
    )
    world.put(claim_object("data"), volume_object("pv-1", annotations=reservation("data"), claim=reference))
    async with world.process() as process:
        await process.run()
    assert world.volume("pv-1")["spec"]["claimRef"] == reference
    assert world.annotations("persistentvolumes", "pv-1") == {}


@pytest.mark.parametrize("mode", COMMITTING)
async def test_a_claim_that_an_ungated_pod_uses_too_is_kube_schedulers(mode: Mode) -> None:
    world = World(mode)
    world.put(claim_object("data"), volume_object("pv-1"))
    world.put(pod_object("gated", ["data"], gated=True), pod_object("free", ["data"]))
    async with world.process() as process:
        await process.run(1)
    assert "claimRef" not in world.volume("pv-1")["spec"]
