"""The queue, the cache and the decisions together: whatever happens in whatever order, no pod oversleeps."""

from random import Random

import pytest
from msgspec.structs import replace

from binder.model.view import PlanSettings
from binder.reservation.contract import Annotations
from kube.objects.model import Pod
from scheduler.binding.reserve_volumes import ReserveVolumes
from scheduler.cycle.cycle import Unschedulable, decide
from scheduler.cycle.diagnosis import diagnose
from scheduler.cycle.memoized_cycle import Decider
from scheduler.framework.plugin import ScheduleResult
from scheduler.plugins.registry import default_profile
from scheduler.queue.requeue import Changes, forgotten, wanted_by
from scheduler.queue.scheduling_queue import Attempt, SchedulingQueue
from scheduler.standalone.cache import SchedulerCache
from tests.builders import EPOCH
from tests.scheduler.worlds import VARIANTS, WAITING, WatchedStore

PROFILE = default_profile("ours")
HAPPENINGS = [(slot, record) for slot, variants in VARIANTS.items() for record in (*variants, None)]


class Story:
    """A cluster and pods that wait; what happens next is up to chance."""

    def __init__(self, chance: Random) -> None:
        self.chance, self.now = chance, 0.0
        self.watched = WatchedStore({})
        self.cache = SchedulerCache(self.watched.store, PlanSettings())
        for slot, variants in VARIANTS.items():
            self.watched.show(slot, chance.choice((variants[0], chance.choice(variants))))
        self.waiting = SchedulingQueue(PROFILE.queue_sort.key)
        self.changes = Changes(self.watched.store, lambda change: self.waiting.change(change, self.now), Annotations())
        self.undecided: list[Attempt] = []
        self.rejected: list[tuple[Attempt, Unschedulable]] = []
        self.binding: list[tuple[Attempt, ScheduleResult]] = []
        self.names = [f"waiting-{number}" for number in range(chance.randint(1, 6))]
        for name in self.names:
            self.waiting.upsert(replace(chance.choice(WAITING), name=name, uid=name), self.now)
        self.decider = Decider()

    def tell(self, steps: int) -> None:
        acts = (self.happen, self.happen, self.begin, self.decide, self.decide, self.reject, self.bind, self.take_back)
        with self.changes.following():
            for _ in range(steps):
                self.now += self.chance.choice((0.0, 0.1, 3.0))
                self.chance.choice(acts)()
            while self.binding:
                self.bind()

    def happen(self) -> None:
        self.watched.show(*self.chance.choice(HAPPENINGS))

    def begin(self) -> None:
        self.undecided += self.waiting.pop(self.now, 2)

    def decide(self) -> None:
        if not self.undecided:
            return
        attempt = self.undecided.pop()
        decision = self.decider.decide(attempt.pod, self.cache.view(EPOCH), PROFILE)
        if isinstance(decision, Unschedulable):
            self.rejected.append((attempt, decision))
        elif self.cache.assume(decision, (ReserveVolumes(),)) is None:
            self.binding.append((attempt, decision))
        else:
            self.waiting.retry(attempt, self.now)

    def reject(self) -> None:
        if self.rejected:
            attempt, decision = self.rejected.pop()
            self.waiting.failed(attempt, diagnose(decision).hints, self.now, wanted_by(decision))

    def bind(self) -> None:
        if self.binding:
            attempt, placement = self.binding.pop()
            self.cache.bound(attempt.pod.key, self.now)
            self.waiting.done(attempt)
            self.watched.show(attempt.pod.key, replace(placement.pod, node_name=placement.node))
            self.waiting.remove(attempt.pod.key)

    def take_back(self) -> None:
        if self.binding:
            attempt, placement = self.binding.pop()
            self.cache.forget(attempt.pod.key)
            self.waiting.retry(attempt, self.now)
            for change in forgotten(placement, self.cache.view(EPOCH).storage.snapshot):
                self.waiting.change(change, self.now)

    def asleep(self) -> list[Pod]:
        """The pods that are rejected and wait for a change: nothing would be tried for a while."""
        awake = {attempt.pod.name for attempt in self.undecided}
        awake.update(attempt.pod.name for attempt, _ in self.rejected)
        while attempts := self.waiting.pop(self.now + 10, 16):
            awake.update(attempt.pod.name for attempt in attempts)
        pods = (self.waiting.get(f"default/{name}") for name in self.names if name not in awake)
        return [pod for pod in pods if pod is not None]


@pytest.mark.parametrize("seed", range(60))
def test_no_pod_sleeps_while_a_node_would_have_it(seed: int) -> None:
    story = Story(Random(seed))
    story.tell(steps=40)
    view = story.cache.view(EPOCH)
    assert [pod for pod in story.asleep() if not isinstance(decide(pod, view, PROFILE), Unschedulable)] == []
