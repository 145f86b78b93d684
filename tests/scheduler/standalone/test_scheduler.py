"""The loop: who is tried when, what is taken for granted, and how it goes on when something goes wrong."""

import asyncio
import dataclasses
from dataclasses import dataclass

import pytest

from binder.matching.rejection import Reason, Rejection
from kube.errors import LeadershipLost, Unavailable
from kube.objects.constraints import Constraints
from kube.objects.model import PodClaim, Toleration
from scheduler.binding.binding_cycle import AT_ONCE
from scheduler.framework.config import Configuration
from scheduler.framework.plugin import PreFilter, ScheduleResult
from scheduler.standalone.cache import PATIENCE
from scheduler.standalone.scheduler import POLL_SECONDS, QUEUED_IN_A_STEP
from scheduler.state.cluster import ClusterView
from scheduler.volumes.storage_cache import StepSizes
from scheduler.volumes.volume_binding import VolumeChoice
from scheduler.volumes.volumes import PodInfo
from tests import builders
from tests.fake_clock import settle
from tests.scheduler.scheduler_in_memory import NAME, Desk, assigned, pod

NODE = builders.node("n1", zone="a")
REJECTED = Rejection(Reason.KEPT_CHANGING, "default/web", "this", "that")
LOST_ANSWER = Unavailable("POST", "/", 0, "Timeout", "no answer")


async def test_a_pod_is_assigned_and_reported() -> None:
    desk = Desk(NODE)
    async with desk.running():
        desk.add(pod("web"))
        await settle()
    assert desk.binder.nodes == {"web": "n1"}
    assert desk.notes("Scheduled") == ["Successfully assigned default/web to n1"]
    assert desk.metrics.zones == {"a": 1}
    assert desk.waiting.sizes()["in_work"] == 0


async def test_pods_that_wait_already_are_scheduled() -> None:
    desk = Desk(NODE)
    desk.add(pod("web"))
    async with desk.running():
        await settle()
    assert desk.binder.nodes == {"web": "n1"}


async def test_others_run_while_the_cluster_is_read_for_the_first_decision() -> None:
    nodes, turns = [builders.node(f"n{number}") for number in range(20)], 0
    desk = Desk(*nodes)
    desk.store.pods.replace((builders.pod(f"p{number}", node=f"n{number % 20}") for number in range(2000)), "1")
    desk.add(pod("web"))

    async def take_turns() -> None:
        nonlocal turns
        while not desk.binder.order:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(take_turns())
    async with desk.running():
        await other
    assert turns >= 2000 // StepSizes().pods


async def test_others_run_while_the_waiting_pods_are_queued() -> None:
    desk, turns = Desk(NODE), 0
    desk.add(*(pod(f"p{number}", scheduling_gates=("wait",)) for number in range(4 * QUEUED_IN_A_STEP)))

    async def take_turns() -> None:
        nonlocal turns
        while desk.waiting.sizes()["gated"] < 4 * QUEUED_IN_A_STEP:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(take_turns())
    async with desk.running():
        await other
    assert turns >= 4


async def test_a_pod_that_goes_while_the_others_are_queued_is_not_queued() -> None:
    desk = Desk(NODE)
    desk.add(*(pod(f"p{number}", scheduling_gates=("wait",)) for number in range(4 * QUEUED_IN_A_STEP)))

    async def delete_all() -> None:
        for key in list(desk.pods.items):
            desk.pods.delete(key)

    other = asyncio.create_task(delete_all())
    async with desk.running():
        await other
        assert desk.waiting.sizes()["gated"] == 0


async def test_the_more_important_goes_first() -> None:
    desk = Desk(NODE)
    desk.add(pod("low"), pod("high", priority=10), pod("middle", priority=5))
    async with desk.running():
        await settle()
    assert desk.binder.order == ["high", "middle", "low"]


async def test_a_gated_pod_is_left_alone() -> None:
    desk = Desk(NODE)
    desk.add(pod("web", scheduling_gates=("wait",)))
    async with desk.running():
        await desk.clock.advance(600)
        assert (desk.binder.order, desk.status.queued) == ([], [])
        desk.add(pod("web", resource_version=2))
        await settle()
    assert desk.binder.order == ["web"]


async def test_a_decision_is_taken_for_granted_before_it_is_visible() -> None:
    desk = Desk(NODE)
    desk.shows = False
    desk.add(pod("one", "6"), pod("two", "6"))
    async with desk.running():
        await settle()
        assert desk.binder.nodes == {"one": "n1"}
        assert desk.status.last["default/two"].message.startswith("0/1 nodes are available: 1 Insufficient cpu.")


async def test_a_pod_that_fits_nowhere_waits_for_what_may_help() -> None:
    desk = Desk(NODE)
    desk.add(pod("large", "20"))
    async with desk.running():
        await desk.clock.advance(100)
        assert desk.metrics.failures == {Reason.INSUFFICIENT_RESOURCES: 1}
        (note,) = desk.notes("FailedScheduling")
        assert note == desk.status.last["default/large"].message
        desk.store.nodes.upsert(builders.node("n2", resource_version=5, allocatable={"cpu": "32"}))
        await settle()
    assert desk.binder.nodes == {"large": "n2"}


async def test_each_rejection_is_an_event_and_the_same_is_written_once_as_the_condition() -> None:
    desk = Desk(NODE)
    desk.add(pod("large", "20"))
    async with desk.running():
        await desk.clock.advance(3600)
        attempts = desk.metrics.failures[Reason.INSUFFICIENT_RESOURCES]
        assert attempts > 10
    # All of them are one series of one Event.
    assert len(desk.notes("FailedScheduling")) == attempts
    assert len(set(desk.events.drafts)) == len(desk.status.queued) == 1
    assert {draft.controller for draft in desk.events.drafts} == {NAME}


async def test_a_placement_that_is_rejected_is_rolled_back_and_retried() -> None:
    desk = Desk(NODE)
    desk.binder.answers = [REJECTED]
    async with desk.running():
        desk.add(pod("web"))
        await settle()
        assert desk.cluster.assumed() == {}
        assert desk.volumes.rolled_back == ["web"]
        assert desk.status.last["default/web"].reason == "SchedulerError"
        await desk.clock.advance(1)
    assert desk.binder.order == ["web", "web"]
    assert desk.binder.nodes == {"web": "n1"}


async def test_a_rolled_back_placement_wakes_pods_rejected_because_of_it() -> None:
    desk = Desk(NODE)
    desk.binder.held = asyncio.Event()
    desk.binder.answers = [REJECTED]
    desk.add(pod("one", "6"), pod("two", "6"))
    async with desk.running():
        assert desk.metrics.failures == {Reason.INSUFFICIENT_RESOURCES: 1}
        desk.binder.held.set()
        await settle()
    assert desk.binder.nodes == {"two": "n1"}


async def test_after_an_error_nothing_is_undone_because_the_pod_may_be_assigned() -> None:
    desk = Desk(NODE)
    desk.binder.answers = [LOST_ANSWER]
    async with desk.running():
        desk.add(pod("web"))
        await settle()
        assert (desk.volumes.rolled_back, desk.cluster.assumed()) == ([], {})
        await desk.clock.advance(1)
    assert desk.binder.nodes == {"web": "n1"}


async def test_volumes_that_cannot_be_had_are_rolled_back() -> None:
    desk = Desk(NODE)
    desk.volumes.answer = ValueError("broken")
    async with desk.running():
        desk.add(pod("web"))
        await settle()
        assert desk.volumes.rolled_back == ["web"]
        assert desk.metrics.failures == {Reason.SCHEDULER_ERROR: 1}
        desk.volumes.answer = None
        await desk.clock.advance(1)
    assert desk.binder.nodes == {"web": "n1"}


@pytest.mark.parametrize("reason", [Reason.POD_ENDED, Reason.ALREADY_ASSIGNED], ids=str)
async def test_a_faster_scheduler_is_not_reported_to_users(reason: Reason) -> None:
    desk = Desk(NODE)
    desk.binder.answers = [Rejection(reason, "default/web", "a pod", "none")]
    async with desk.running():
        desk.add(pod("web"))
        await settle()
        assert desk.status.queued == []
        assert desk.notes("FailedScheduling") == []


@dataclass
class Moody:
    """A Reserve plugin that fails for one pod."""

    name: str = "Moody"

    def reserve(self, placement: ScheduleResult, cluster: ClusterView) -> ClusterView | Rejection:
        if placement.pod.name == "bad":
            raise ZeroDivisionError("a bug")
        return cluster


async def test_one_pod_that_cannot_be_handled_delays_no_other() -> None:
    desk = Desk(NODE, reserves=(Moody(),))
    desk.add(pod("bad", priority=1), pod("good"))
    async with desk.running():
        await settle()
        assert desk.status.last["default/bad"].message == "ZeroDivisionError: a bug"
    assert desk.binder.nodes == {"good": "n1"}
    assert desk.metrics.failures[Reason.SCHEDULER_ERROR] == 1


async def test_an_invalid_pod_is_reported_and_not_tried() -> None:
    desk = Desk(NODE)
    async with desk.running():
        desk.add(pod("odd", tolerations=[Toleration("a", "Perhaps")]))
        await settle()
    assert desk.binder.order == []
    assert desk.metrics.failures == {Reason.POD_INVALID: 1}
    assert "spec.tolerations[0].operator" in desk.notes("FailedScheduling")[0]


async def test_a_malformed_pod_is_reported_and_not_tried() -> None:
    desk = Desk(NODE)
    async with desk.running():
        desk.add(pod("gpu", constraints=Constraints(unsupported=("spec.resourceClaims",))))
        await settle()
    assert desk.binder.order == []
    assert desk.metrics.failures == {Reason.POD_UNSUPPORTED: 1}
    assert "spec.resourceClaims, not supported" in desk.notes("FailedScheduling")[0]


async def test_only_so_many_are_assigned_at_once() -> None:
    desk = Desk(builders.node("n1", allocatable={"pods": "500"}))
    desk.binder.held = asyncio.Event()
    desk.add(*(pod(f"p{number:03}") for number in range(AT_ONCE + 50)))
    async with desk.running():
        await settle()
        assert desk.binder.under_way == len(desk.cluster.assumed()) == AT_ONCE
        desk.binder.held.set()
        await settle()
    assert desk.binder.most_under_way == AT_ONCE
    assert len(desk.binder.nodes) == AT_ONCE + 50


async def test_pods_that_wait_for_volumes_delay_no_others() -> None:
    desk = Desk(builders.node("n1", allocatable={"pods": "500"}), builders.node("n2", allocatable={"pods": "500"}))
    desk.store.classes.replace([builders.storage_class(provisioner="disk.csi.example")], "1")
    many = AT_ONCE + 10
    desk.store.claims.replace([builders.claim(f"data-{number}") for number in range(many)], "1")
    desk.add(*(pod(f"db-{number}", priority=1, claims=[PodClaim(f"data-{number}")]) for number in range(many)))
    desk.add(pod("web"))
    async with desk.running():
        await settle()
        assert desk.binder.order == ["web"]
        desk.volumes.ready.set()
        await settle()
    assert len(desk.binder.nodes) == many + 1


async def test_the_end_lets_assignments_end_and_waits_for_no_volumes() -> None:
    desk = Desk(NODE)
    desk.store.classes.replace([builders.storage_class(provisioner="disk.csi.example")], "1")
    desk.store.claims.replace([builders.claim()], "1")
    desk.binder.held = asyncio.Event()
    desk.add(pod("web"), pod("db", claims=[PodClaim("data")]))
    async with desk.running() as task:
        await settle()
        desk.scheduler.stop()
        desk.add(pod("late"))
        await settle()
        assert not task.done()
        desk.binder.held.set()
        await settle()
        assert task.done()
    assert desk.binder.order == ["web"]
    assert (desk.binder.nodes, desk.volumes.rolled_back) == ({"web": "n1"}, [])


async def test_a_lost_lease_ends_it() -> None:
    desk = Desk(NODE)
    desk.binder.answers = [LeadershipLost("gone")]
    async with desk.running() as task:
        desk.add(pod("web"))
        await settle()
        with pytest.raises(LeadershipLost):
            task.result()
    assert not desk.scheduler.takes_work


async def test_a_pod_deleted_on_its_way_is_dropped() -> None:
    desk = Desk(NODE)
    desk.binder.held = asyncio.Event()
    desk.binder.answers = [Rejection(Reason.POD_ENDED, "default/web", "a pod", "none")]
    desk.add(pod("web"))
    async with desk.running():
        desk.pods.delete("default/web")
        desk.binder.held.set()
        await desk.clock.advance(600)
        assert desk.binder.order == ["web"]
        assert desk.cluster.assumed() == {}
        assert set(desk.waiting.sizes().values()) == {0}


async def test_a_pod_on_its_way_out_is_not_tried() -> None:
    desk = Desk(NODE)
    desk.add(pod("web", deleting=True))
    async with desk.running():
        await settle()
    assert desk.binder.order == []


async def test_an_assignment_that_did_not_take_place_is_made_again() -> None:
    desk = Desk(NODE)
    desk.shows = False
    desk.add(pod("web"))
    async with desk.running():
        del desk.server.pods["default/web"]["spec"]["nodeName"]
        await desk.clock.advance(PATIENCE + POLL_SECONDS)
    assert desk.binder.order == ["web", "web"]


async def test_what_others_assigned_meanwhile_is_theirs() -> None:
    desk = Desk(NODE)
    web = pod("web")
    desk.store.pods.upsert(assigned(ScheduleResult(web, "n1", VolumeChoice())))
    desk.add(web)
    async with desk.running():
        await desk.clock.advance(5)
        assert desk.binder.order == []
        assert desk.status.queued == []


class Nowhere(PreFilter):
    """Leaves no node."""

    name = "Nowhere"

    def confine(self, _: PodInfo, cluster: ClusterView, /) -> int:
        return 0


async def test_a_new_configuration_holds_from_the_next_pod_on() -> None:
    desk = Desk(NODE)
    in_force = desk.configuration.current
    profile = in_force.profiles[NAME]
    confined = dataclasses.replace(profile, pre_filters=(Nowhere(), *profile.pre_filters))
    desk.configuration.current = Configuration({NAME: confined})
    desk.add(pod("web"))
    async with desk.running():
        assert desk.binder.order == []
        desk.configuration.current = in_force
        desk.scheduler.rules_changed()
        await desk.clock.advance(2)
        assert desk.binder.order == ["web"]


async def test_a_pod_that_waits_for_its_volumes_says_where_it_will_be() -> None:
    desk = Desk(NODE)
    desk.store.classes.upsert(builders.storage_class())
    desk.store.volumes.upsert(builders.volume())
    desk.store.claims.upsert(builders.claim())
    desk.add(pod("plain"), pod("needy", claims=["data"]))
    async with desk.running():
        assert desk.status.nominated == [("needy", "n1")]
        # What the watch shows of it then does not make it count twice.
        desk.pods.upsert(pod("needy", claims=["data"], nominated_node="n1", resource_version=2))
        assert desk.room.kept() == {}
        desk.volumes.answer = Rejection(Reason.BIND_TIMEOUT, "default/needy", "this", "that")
        desk.volumes.ready.set()
        await settle()
        assert desk.status.queued[-1][1].nominated == ""
