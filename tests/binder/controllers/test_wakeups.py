"""When a change makes a rejected pod worth another look, and when it has to wait for its backoff."""

from collections.abc import Iterator
from random import Random

import pytest
from msgspec.structs import replace

from binder.controllers.wakeups import MAX_BACKOFF_SECONDS, Wakeups
from kube.objects.constraints import Constraints, HostPort
from kube.objects.model import Pod
from kube.store.store import Store
from kube.workqueue import WorkQueue
from tests.binder.counts import Counts
from tests.builders import node, pod, volume
from tests.fake_clock import FakeClock

POD = "default/web"


class Waiting:
    """A rejected pod that waits for class `fast`; `looks` is how many keys are ready to be looked at."""

    def __init__(self) -> None:
        self.clock, self.store = FakeClock(), Store()
        self.queue: WorkQueue[str] = WorkQueue(self.clock, Random(1), Counts().queues.of("pods"))
        self.wakeups = Wakeups(self.store, self.queue, self.clock)

    @property
    def looks(self) -> int:
        return len(self.queue)


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    made = Waiting()
    with made.wakeups.following():
        yield made


def test_a_node_does_not_wake_a_pod_within_its_backoff(waiting: Waiting) -> None:
    waiting.wakeups.rejected(POD, ["fast"], 4.0)
    waiting.store.nodes.upsert(node())
    assert waiting.looks == 0
    waiting.clock.jump(4.0)
    waiting.store.nodes.upsert(node("another"))
    assert waiting.looks == 1


def test_a_backoff_that_has_grown_longer_keeps_nodes_waiting_only_so_long(waiting: Waiting) -> None:
    waiting.wakeups.rejected(POD, ["fast"], 60.0)
    waiting.clock.jump(MAX_BACKOFF_SECONDS)
    waiting.store.nodes.upsert(node())
    assert waiting.looks == 1


def test_a_volume_of_the_class_wakes_it_at_once_even_after_a_node_came_too_early(waiting: Waiting) -> None:
    waiting.wakeups.rejected(POD, ["fast", "slow"], 4.0)
    waiting.store.nodes.upsert(node())
    waiting.store.volumes.upsert(volume("pv"))
    assert waiting.looks == 1


def test_a_pod_that_waits_for_several_classes_is_woken_once(waiting: Waiting) -> None:
    waiting.wakeups.rejected(POD, ["fast", "slow"], 0.0)
    waiting.store.nodes.upsert(node())
    waiting.wakeups.room_in("slow")
    assert waiting.looks == 1


@pytest.mark.parametrize(("constraints", "looks"), [(None, 0), (Constraints(ports=(HostPort(80),)), 1)])
def test_a_pod_that_requires_something_of_others_is_woken_when_another_comes_to_its_node(
    waiting: Waiting, constraints: Constraints | None, looks: int
) -> None:
    waiting.store.pods.upsert(pod("web", constraints=constraints))
    waiting.store.pods.upsert(pod("other"))
    waiting.wakeups.rejected(POD, ["fast"], 4.0)
    waiting.clock.jump(4.0)
    waiting.store.pods.upsert(pod("other", node="n1", resource_version=2))
    assert waiting.looks == looks


@pytest.mark.parametrize(
    ("new", "looks"),
    [
        pytest.param(pod("nominee"), 1, id="no-longer-nominated"),
        pytest.param(pod("nominee", nominated_node="n2"), 1, id="nominated-for-another-node"),
        pytest.param(pod("nominee", nominated_node="n1", deleting=True), 1, id="being-deleted"),
        pytest.param(None, 1, id="deleted"),
        pytest.param(pod("nominee", nominated_node="n1", node="n1"), 0, id="assigned"),
    ],
)
def test_a_pod_that_keeps_no_room_any_more_wakes_it(waiting: Waiting, new: Pod | None, looks: int) -> None:
    nominee = pod("nominee", nominated_node="n1")
    waiting.store.pods.upsert(nominee)
    waiting.wakeups.rejected(POD, ["fast"], 0.0)
    if new is None:
        waiting.store.pods.delete(nominee.key)
    else:
        waiting.store.pods.upsert(replace(new, resource_version=2))
    assert waiting.looks == looks
