import msgspec

from kube.objects.model import Pod, Taint, Toleration
from scheduler.framework.cluster_event import ClusterEvent, Wanted
from scheduler.plugins.queue_sort import PrioritySort
from scheduler.queue.scheduling_queue import MAX_UNSCHEDULABLE_SECONDS, Attempt, SchedulingQueue, backoff
from tests import builders
from tests.scheduler.wakeups import hints_of

RESOURCES = hints_of("NodeResourcesFit")
TAINTS = hints_of("TaintToleration")
NEW_NODE = ClusterEvent(None, builders.node("new"))
GPU, NOT_READY = Taint("gpu", "NoSchedule"), Taint("node.kubernetes.io/not-ready", "NoSchedule")
HEARTBEAT = ClusterEvent(builders.node("n1", taints=[GPU]), builders.node("n1", taints=[NOT_READY]))


def queue(*pods: Pod) -> SchedulingQueue:
    waiting = SchedulingQueue(PrioritySort().key)
    for pod in pods:
        assert waiting.upsert(pod, 0.0) is None
    return waiting


def names(attempts: list[Attempt]) -> list[str]:
    return [attempt.pod.name for attempt in attempts]


def popped(waiting: SchedulingQueue, now: float = 0.0) -> Attempt:
    [attempt] = waiting.pop(now, 1)
    return attempt


def left(pod: Pod) -> ClusterEvent:
    return ClusterEvent(pod, None)


def where(waiting: SchedulingQueue) -> dict[str, int]:
    return {state: size for state, size in waiting.sizes().items() if size}


def test_the_best_come_first() -> None:
    waiting = queue(builders.pod("b"), builders.pod("urgent", priority=5), builders.pod("a"))
    assert waiting.due_in(0.0) == 0.0
    assert names(waiting.pop(0.0, 2)) == ["urgent", "a"]
    assert names(waiting.pop(0.0, 2)) == ["b"]
    assert waiting.pop(0.0, 2) == []
    assert where(waiting) == {"in_work": 3}
    assert waiting.due_in(0.0) is None


def test_a_rejected_pod_waits_for_what_may_help() -> None:
    waiting = queue(builders.pod("web"))
    waiting.failed(popped(waiting), RESOURCES, 0.0)
    waiting.change(HEARTBEAT, 50.0)
    assert where(waiting) == {"unschedulable": 1}
    assert waiting.pop(50.0, 1) == []
    waiting.change(NEW_NODE, 50.0)
    again = popped(waiting, 50.0)
    assert (again.number, again.since) == (2, 0.0)


def test_a_rejected_pod_is_retried_after_five_minutes() -> None:
    waiting = queue(builders.pod("web"))
    waiting.failed(popped(waiting), RESOURCES, 10.0)
    assert waiting.due_in(100.0) == 10.0 + MAX_UNSCHEDULABLE_SECONDS - 100.0
    assert waiting.pop(309.0, 1) == []
    assert names(waiting.pop(310.0, 1)) == ["web"]


def test_time_may_help_sooner() -> None:
    waiting = queue(builders.pod("web"))
    waiting.failed(popped(waiting), RESOURCES, 10.0, Wanted(again_in=7.5))
    assert waiting.due_in(10.0) == 7.5


def test_a_pod_woken_at_once_still_backs_off_while_others_wait() -> None:
    waiting = queue(builders.pod("web"))
    waiting.failed(popped(waiting), RESOURCES, 0.0)
    waiting.change(NEW_NODE, 0.1)
    waiting.upsert(builders.pod("other"), 0.2)
    assert where(waiting) == {"active": 1, "backoff": 1}
    assert names(waiting.pop(0.2, 5)) == ["other"]
    assert names(waiting.pop(1.0, 5)) == ["web"]


def test_without_another_pod_to_try_the_backoff_of_a_woken_pod_is_cut_short() -> None:
    waiting = queue(builders.pod("web"))
    waiting.failed(popped(waiting), RESOURCES, 0.0)
    waiting.change(NEW_NODE, 0.1)
    assert waiting.due_in(0.1) == 0.0
    assert names(waiting.pop(0.1, 5)) == ["web"]


def test_after_an_error_the_backoff_is_kept_and_doubles() -> None:
    waiting = queue(builders.pod("web"))
    now, waited = 0.0, []
    for _ in range(6):
        waiting.retry(popped(waiting, now), now)
        due = waiting.due_in(now)
        assert due is not None
        waited.append(due)
        now += due
    assert waited == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert [backoff(1), backoff(5), backoff(10_000)] == [1.0, 10.0, 10.0]


def test_a_change_while_a_pod_is_in_work_counts() -> None:
    waiting = queue(builders.pod("a"), builders.pod("b"))
    first, second = waiting.pop(0.0, 2)
    waiting.change(NEW_NODE, 0.1)
    waiting.failed(first, RESOURCES, 0.2)
    waiting.failed(second, TAINTS, 0.2)
    assert where(waiting) == {"backoff": 2}


def test_a_change_before_a_pod_was_in_work_or_that_cannot_help_it_does_not_count() -> None:
    waiting = queue(builders.pod("a"), builders.pod("b"))
    popped(waiting)
    waiting.change(NEW_NODE, 0.1)
    second = popped(waiting, 0.2)
    waiting.change(left(builders.pod("gone", node="n1")), 0.3)
    waiting.failed(second, TAINTS, 0.4)
    assert where(waiting) == {"in_work": 1, "unschedulable": 1}


def test_a_bound_pod_is_not_queued_again_by_late_events() -> None:
    waiting = queue(builders.pod("web"))
    waiting.done(popped(waiting))
    waiting.upsert(builders.pod("web", resource_version=2, labels={"late": "yes"}), 1.0)
    assert waiting.pop(1.0, 1) == []
    assert waiting.get("default/web") is None
    waiting.remove("default/web")
    waiting.upsert(builders.pod("web", uid="anew"), 2.0)
    assert popped(waiting, 2.0).number == 1


def test_a_gated_pod_enters_when_its_gates_are_gone() -> None:
    waiting = queue(builders.pod("web", scheduling_gates=["quota"]))
    assert where(waiting) == {"gated": 1}
    assert waiting.due_in(0.0) is None
    waiting.upsert(builders.pod("web", resource_version=2), 5.0)
    assert popped(waiting, 5.0).since == 0.0


def test_an_invalid_pod_is_reported_once_and_again_when_it_changes() -> None:
    waiting = SchedulingQueue(PrioritySort().key)
    wrong = [Toleration("gpu", "Likes")]
    rejection = waiting.upsert(builders.pod("web", tolerations=wrong), 0.0)
    assert rejection is not None
    assert "spec.tolerations[0].operator" in rejection.wanted
    assert where(waiting) == {"invalid": 1}
    assert waiting.upsert(builders.pod("web", resource_version=2, tolerations=wrong), 1.0) is None
    assert (
        waiting.upsert(builders.pod("web", resource_version=3, tolerations=wrong, labels={"a": "b"}), 1.0) == rejection
    )
    assert waiting.pop(1.0, 1) == []
    assert waiting.upsert(builders.pod("web", resource_version=4), 2.0) is None
    assert names(waiting.pop(2.0, 1)) == ["web"]


def test_a_change_of_status_wakes_no_pod_and_one_of_the_spec_does() -> None:
    waiting = queue(builders.pod("web"))
    waiting.failed(popped(waiting), TAINTS, 0.0)
    status = {"resource_version": 2, "phase": "Pending", "nominated_node": "n1", "evicted": True}
    waiting.upsert(msgspec.structs.replace(builders.pod("web"), **status), 5.0)
    assert where(waiting) == {"unschedulable": 1}
    pod = waiting.get("default/web")
    assert pod is not None
    assert pod.nominated_node == "n1"
    waiting.upsert(builders.pod("web", resource_version=3, tolerations=[Toleration(operator="Exists")]), 5.0)
    assert popped(waiting, 5.0).pod.tolerations


def test_a_pod_that_changes_while_in_progress_is_retried_if_rejected() -> None:
    waiting = queue(builders.pod("web"))
    attempt = popped(waiting)
    waiting.upsert(builders.pod("web", resource_version=2, labels={"app": "web"}), 0.1)
    waiting.failed(attempt, TAINTS, 0.2)
    assert where(waiting) == {"backoff": 1}
    assert popped(waiting, 1.2).pod.labels


def test_a_pod_deleted_while_in_work_is_dropped_when_its_attempt_ends() -> None:
    waiting = queue(builders.pod("web"))
    attempt = popped(waiting)
    waiting.remove("default/web")
    assert waiting.get("default/web") is None
    assert where(waiting) == {"in_work": 1}
    waiting.failed(attempt, TAINTS, 0.2)
    assert where(waiting) == {}


def test_a_pod_that_was_missing_for_a_moment_keeps_waiting() -> None:
    waiting = queue(builders.pod("web"))
    attempt = popped(waiting)
    waiting.remove("default/web")
    waiting.upsert(builders.pod("web", resource_version=2), 0.1)
    waiting.failed(attempt, TAINTS, 0.2)
    assert where(waiting) == {"unschedulable": 1}


def test_a_recreated_pod_is_new_once_the_old_attempt_has_ended() -> None:
    waiting = queue(builders.pod("web"))
    attempt = popped(waiting)
    waiting.upsert(builders.pod("web", uid="anew"), 3.0)
    assert waiting.pop(3.0, 1) == []
    waiting.retry(attempt, 4.0)
    fresh = popped(waiting, 4.0)
    assert (fresh.pod.uid, fresh.number, fresh.since) == ("anew", 1, 3.0)
    waiting.done(attempt)
    assert where(waiting) == {"in_work": 1}


def test_one_pod_can_be_taken_ahead_of_its_turn() -> None:
    waiting = queue(builders.pod("first", priority=9), builders.pod("web"), builders.pod("g", scheduling_gates=["x"]))
    taken = waiting.take("default/web")
    assert taken is not None
    assert taken.pod.name == "web"
    assert [waiting.take(key) for key in ("default/web", "default/g", "default/none")] == [None, None, None]
    waiting.done(taken)
    assert names(waiting.pop(0.0, 5)) == ["first"]


def test_when_the_rules_change_every_pod_is_retried() -> None:
    waiting = queue(builders.pod("a"), builders.pod("b"))
    rejected, working = waiting.pop(0.0, 2)
    waiting.failed(rejected, TAINTS, 0.0)
    waiting.wake_all(5.0)
    waiting.failed(working, TAINTS, 5.0)
    assert where(waiting) == {"active": 1, "backoff": 1}


def test_a_pod_with_a_node_or_one_being_deleted_does_not_wait() -> None:
    waiting = queue(builders.pod("a"), builders.pod("b"))
    waiting.upsert(builders.pod("a", resource_version=2, node="n1"), 1.0)
    waiting.upsert(builders.pod("b", resource_version=2, deleting=True), 1.0)
    assert where(waiting) == {}
