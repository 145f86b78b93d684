"""The loop over pods: what wakes one, what a rejection and a dry run do, and that one odd object stops no other pod."""

from copy import deepcopy

import pytest

from binder.controllers.deference import COMMIT_AFTER, COMMIT_AT_LATEST, HINT_AFTER, HINT_AT_LATEST
from binder.matching.rejection import Reason
from binder.model.decision import Mode
from csi.health.verdict import HealthState
from tests.binder.world import World, bind
from tests.fakes.kube_api import failure
from tests.fakes.objects import Object, claim_object, class_object, node_object, pod_object, volume_object


async def test_two_pods_racing_for_the_last_volume() -> None:
    world = World()
    world.put(volume_object("pv-1"), claim_object("red"), claim_object("blue"))
    world.put(pod_object("red", ["red"]), pod_object("blue", ["blue"]))
    async with world.process() as process:
        await process.run()
    held = {name for name in ("red", "blue") if world.reserved(name)}
    assert len(held) == 1
    (loser,) = {"red", "blue"} - held
    assert process.sink.reasons_of("Pod", loser) == ["StaticOnlyNoMatch"]
    assert process.metrics.counted["failed", "fast", Reason.NO_VOLUME_FITS] >= 1


async def test_a_pod_that_kube_scheduler_may_be_serving_gets_a_hint_and_that_later() -> None:
    world = World(Mode.PREBIND)
    world.put(volume_object("pv-1"), volume_object("pv-2"), claim_object("data"), claim_object("log"))
    world.put(pod_object("web", ["data", "log"]))
    async with world.process() as process:
        await process.run(HINT_AFTER - 0.1)
        assert (world.reserved("data"), world.reserved("log")) == (None, None)
        await process.run(0.3)
        assert {world.reserved("data"), world.reserved("log")} == {"pv-1", "pv-2"}
        assert "claimRef" not in world.volume("pv-1")["spec"]


async def test_no_hint_comes_between_the_writes_of_kube_scheduler() -> None:
    """It has committed a volume to one claim and is about to write the other."""
    world = World(Mode.COMPLETE)
    world.put(volume_object("pv-1"), volume_object("pv-2"), claim_object("data"), claim_object("log"))
    world.put(pod_object("web", ["data", "log"]))
    async with world.process() as process:
        await process.run(HINT_AFTER - 0.1)
        reference = {"namespace": "default", "name": "data", "uid": world.claim("data")["metadata"]["uid"]}
        world.server.change("persistentvolumes", "pv-1", lambda document: document["spec"].update(claimRef=reference))
        await process.run(60)
    assert world.server.writes == []


async def test_hints_wait_while_kube_scheduler_binds_others_but_not_for_ever() -> None:
    world = World(Mode.COMPLETE)
    world.put(volume_object("pv-0"), claim_object("data"), pod_object("web", ["data"]))
    async with world.process() as process:
        for number in range(1, int(HINT_AT_LATEST / 3) + 1):
            assert world.reserved("data") is None
            name = f"other-{number}"
            world.put(claim_object(name), pod_object(name, [name]))
            reference = {"namespace": "default", "name": name, "uid": world.claim(name)["metadata"]["uid"]}
            world.put(volume_object(f"pv-{number}", claim=reference))
            await process.run(3)
        await process.run(1)
    assert world.reserved("data") is not None


@pytest.mark.parametrize("mode", [Mode.PREBIND, Mode.COMPLETE])
async def test_a_hint_becomes_more_once_kube_scheduler_has_given_up(mode: Mode) -> None:
    world = World(mode)
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("web", ["data"]))
    async with world.process() as process:
        await process.run()
        assert "claimRef" not in world.volume("pv-1")["spec"]
        world.put(pod_object("web", ["data"], unschedulable=True))
        await process.run(1)
    assert world.volume("pv-1")["spec"]["claimRef"]["name"] == "data"
    assert world.claim("data")["status"]["phase"] == ("Bound" if mode is Mode.COMPLETE else "Pending")


@pytest.mark.parametrize("mode", [Mode.PREBIND, Mode.COMPLETE])
async def test_several_claims_that_become_servable_are_left_to_kube_scheduler_for_a_while(mode: Mode) -> None:
    """The volumes that woke us have woken kube-scheduler as well."""
    world = World(mode)
    world.put(claim_object("data"), claim_object("log"), pod_object("web", ["data", "log"], unschedulable=True))
    async with world.process() as process:
        await process.run(200)
        world.put(volume_object("pv-1"), volume_object("pv-2"))
        await process.run(COMMIT_AFTER - 0.1)
        assert world.server.writes == []
        await process.run(0.3)
    assert {world.volume(name)["spec"]["claimRef"]["name"] for name in ("pv-1", "pv-2")} == {"data", "log"}


def begin(world: World, volume: str, claim: str) -> None:
    """The write of kube-scheduler that begins a bind."""
    reference = {"namespace": "default", "name": claim, "uid": world.claim(claim)["metadata"]["uid"]}
    world.server.change("persistentvolumes", volume, lambda document: document["spec"].update(claimRef=reference))


async def test_a_retry_of_kube_scheduler_is_not_disturbed() -> None:
    """It binds the first claim two seconds after the volumes appeared, and the other a second later."""
    world = World(Mode.PREBIND)
    world.put(claim_object("data"), claim_object("log"), pod_object("web", ["data", "log"], unschedulable=True))
    async with world.process() as process:
        await process.run(200)
        world.put(volume_object("pv-1"), volume_object("pv-2"))
        for volume, claim in (("pv-1", "data"), ("pv-2", "log")):
            await process.run(2)
            begin(world, volume, claim)
        await process.run(60)
    assert world.server.writes == []


async def test_volumes_are_not_committed_while_kube_scheduler_binds_other_pods_but_not_for_ever() -> None:
    """It has chosen volumes for pods that it retries, and a volume of ours could be among them."""
    world = World(Mode.PREBIND)
    async with world.process() as process:
        for number in range(int(COMMIT_AT_LATEST / 3) + 2):
            name = f"other-{number}"
            world.put(claim_object(name), pod_object(name, [name], unschedulable=True))
            reference = {"namespace": "default", "name": name, "uid": world.claim(name)["metadata"]["uid"]}
            world.put(volume_object(f"pv-{number}", claim=reference))
            await process.run(3)
            if number == 0:
                world.put(volume_object("free"), claim_object("data"), pod_object("web", ["data"], unschedulable=True))
            elif number < COMMIT_AT_LATEST / 3:
                assert "claimRef" not in world.volume("free")["spec"]
    assert world.volume("free")["spec"]["claimRef"]["name"] == "data"


APPEARING: dict[str, tuple[list[Object], Object]] = {
    "volume": ([claim_object("data")], volume_object("pv-1")),
    "node": ([volume_object("pv-1", zone="c"), claim_object("data")], node_object("node-c1", "c")),
    "class": (
        [volume_object("pv-1", storage_class="new"), claim_object("data", storage_class="new")],
        class_object("new"),
    ),
    "claim": ([volume_object("pv-1")], claim_object("data")),
}
"""What was missing when the pod was rejected, and what was there."""


@pytest.mark.parametrize("missing", APPEARING)
async def test_a_rejected_pod_is_woken_by_a_new(missing: str) -> None:
    there, appearing = deepcopy(APPEARING[missing])
    world = World()
    world.put(*there, pod_object("web", ["data"], unschedulable=True))
    async with world.process() as process:
        await process.run(200)
        assert world.server.writes == []
        world.put(appearing)
        await process.run(0.2)
    assert world.reserved("data") == "pv-1"


async def test_a_released_volume_wakes_the_pod_that_was_rejected() -> None:
    world = World()
    world.put(volume_object("pv-1"), claim_object("first"), pod_object("first", ["first"]))
    async with world.process() as process:
        await process.run()
        world.put(claim_object("second"), pod_object("second", ["second"], unschedulable=True))
        await process.run(200)
        world.server.remove("pods", "default/first")
        await process.run(0.2)
    assert world.reserved("second") == "pv-1"


async def test_the_same_rejection_is_reported_once() -> None:
    world = World()
    world.put(volume_object("pv-1", "1Gi"), claim_object("data"), pod_object("web", ["data"]))
    async with world.process() as process:
        await process.run(3600)
    assert process.sink.reasons_of("Pod", "web") == ["StaticOnlyNoMatch"]
    assert process.sink.reasons_of("PersistentVolumeClaim", "data") == ["StaticOnlyNoMatch"]
    assert world.server.writes == []
    assert process.connection.requests == 0


async def test_immediate_claims_and_classes_in_mode_off_are_not_touched() -> None:
    world = World()
    world.put(class_object("now", binding_mode="Immediate"), class_object("off", mode="off"))
    for name in ("now", "off"):
        world.put(volume_object(f"pv-{name}", storage_class=name), claim_object(name, storage_class=name))
        world.put(pod_object(name, [name]))
    async with world.process() as process:
        await process.run(100)
    assert process.connection.requests == 0
    assert process.sink.events == []


async def test_a_class_names_its_own_mode() -> None:
    world = World(Mode.ANNOTATE)
    world.put(class_object("hard", mode="prebind"), volume_object("pv-1", storage_class="hard"))
    world.put(claim_object("data", storage_class="hard"), pod_object("web", ["data"], unschedulable=True))
    async with world.process() as process:
        await process.run()
    assert world.volume("pv-1")["spec"]["claimRef"]["name"] == "data"


async def test_a_dry_run_counts_what_it_would_reserve_and_reserves_no_volume_twice() -> None:
    world = World()
    world.put(*(volume_object(name) for name in ("pv-1", "pv-2")), *map(claim_object, ("red", "blue")))
    world.put(pod_object("red", ["red"]), pod_object("blue", ["blue"]))
    async with world.process(dry_run=True) as process:
        await process.run(100)
    assert world.server.writes == []
    assert process.metrics.counted["attempted", "fast", "WaitForFirstConsumer", "success"] == 2
    assert process.metrics.counted["reserved after", "fast", "WaitForFirstConsumer"] == 2
    assert process.metrics.counted["attempted", "fast", "WaitForFirstConsumer", "failure"] == 0


async def test_what_the_api_server_forbids_is_tried_ever_more_slowly_until_it_is_allowed() -> None:
    world = World()
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("web", ["data"]))
    world.server.reject_next += [("PATCH", failure(403, "Forbidden"))] * 1000
    async with world.process() as process:
        await process.run(600)
        assert process.connection.requests < 25
        world.server.reject_next.clear()
        await process.run(60)
    assert world.reserved("data") == "pv-1"


async def test_writes_that_the_server_rejects_are_retried_ever_more_slowly() -> None:
    world = World()
    world.put(volume_object("pv-1"), claim_object("data"), pod_object("web", ["data"]))
    world.server.reject_next += [("PATCH", failure(422, "Invalid"))] * 1000
    async with world.process() as process:
        await process.run(300)
        assert process.connection.requests < 50
    assert world.reserved("data") is None
    rejected = [event for event in process.sink.events if event.reason == "WriteRejected"]
    assert [event.regarding.kind for event in rejected] == ["Pod"]
    assert rejected[0].note.endswith(": Invalid")


@pytest.mark.parametrize("unhealthy", [HealthState.INACCESSIBLE, HealthState.DATA_LOSS, HealthState.UNKNOWN])
async def test_an_unhealthy_volume_is_passed_over_for_a_larger_one(unhealthy: HealthState) -> None:
    world = World()
    world.put(volume_object("pv-1"), volume_object("pv-2", "20Gi"), claim_object("data"), pod_object("web", ["data"]))
    world.doctor.states["handle-pv-1"] = unhealthy
    async with world.process() as process:
        await process.run()
    assert world.reserved("data") == "pv-2"
    assert world.doctor.probed == ["handle-pv-1", "handle-pv-2"]


async def test_a_driver_that_hangs_delays_only_its_own_pods() -> None:
    world = World()
    world.put(*(volume_object(name) for name in ("pv-1", "pv-2")), *map(claim_object, ("red", "blue")))
    world.put(pod_object("red", ["red"]), pod_object("blue", ["blue"]))
    world.doctor.hang.add("handle-pv-1")
    async with world.process() as process:
        await process.run()
        world.put(volume_object("pv-3"), claim_object("green"), pod_object("green", ["green"]))
        await process.run()
    assert sorted(filter(None, map(world.reserved, ("red", "blue", "green")))) == ["pv-2", "pv-3"]


async def test_pending_claims_are_reported_with_what_they_wait_for() -> None:
    world = World()
    world.put(volume_object("pv-1"), claim_object("red"), claim_object("blue", "99Gi"))
    world.put(pod_object("red", ["red"]), pod_object("blue", ["blue"]))
    async with world.process() as process:
        await process.run()
        pending = {claim.name: reason for claim, reason in process.reconciler.pending()}
        assert pending == {"red": Reason.ALREADY_RESERVED, "blue": Reason.NO_VOLUME_FITS}
        bind(world, "red", "pv-1")
        await process.run()
        assert [claim.name for claim, _ in process.reconciler.pending()] == ["blue"]


@pytest.mark.parametrize(
    ("gated", "reasons"), [pytest.param(True, ["ClaimLost"], id="gated"), pytest.param(False, [], id="ungated")]
)
async def test_a_gated_pod_whose_bound_claim_is_lost_is_reported_and_kept_until_the_volume_is_back(
    *, gated: bool, reasons: list[str]
) -> None:
    """Without a gate kube-scheduler tells the pod."""
    world = World(Mode.COMPLETE)
    world.put(volume_object("pv-1"), volume_object("pv-2"), claim_object("data"), claim_object("log"))
    bind(world, "data", "pv-1")
    bind(world, "log", "pv-2")
    world.server.change(
        "persistentvolumeclaims", "default/data", lambda document: document["status"].update(phase="Lost")
    )
    world.put(pod_object("web", ["log", "data"], gated=gated))
    async with world.process() as process:
        await process.run(120)
        assert process.sink.reasons_of("Pod", "web") == reasons
        assert ("schedulingGates" in world.server.get("pods", "default/web")["spec"]) == gated
        back = {"phase": "Bound"}
        world.server.change("persistentvolumeclaims", "default/data", lambda document: document["status"].update(back))
        await process.run(1)
    assert not world.server.get("pods", "default/web")["spec"].get("schedulingGates")
    assert process.sink.reasons_of("Pod", "web") == reasons


async def test_a_claim_that_is_lost_before_the_watch_shows_it_is_reported_too() -> None:
    world = World(Mode.COMPLETE)
    world.put(volume_object("pv-1"), claim_object("data"))
    bind(world, "data", "pv-1")
    async with world.process() as process:
        world.server.lagging = True
        lost = {"phase": "Lost"}
        world.server.change("persistentvolumeclaims", "default/data", lambda document: document["status"].update(lost))
        world.server.lagging = False
        world.put(pod_object("web", ["data"], gated=True))
        await process.run(10)
    assert process.sink.reasons_of("Pod", "web") == ["ClaimLost"]
    assert world.server.get("pods", "default/web")["spec"]["schedulingGates"]
