"""Nominations, bindings and evictions shown by two watches in any order: each pod is woken by what may help it.

The server is a table of pods. Each of its changes is an event on the watch of waiting pods, on that of assigned pods,
or on both, and each watch delivers its own events in their order, whenever the story says so.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from binder.matching.rejection import Reason, Rejection
from kube.errors import Unavailable
from kube.objects.model import Pod
from kube.store.collection import Collection
from scheduler.cycle.cycle import Unschedulable
from scheduler.framework.plugin import ScheduleResult
from scheduler.preemption.budgets import Budgets
from scheduler.preemption.preemption import Preemption
from scheduler.standalone.pod_status import SchedulingStatus
from tests import builders
from tests.fake_clock import settle
from tests.scheduler.scheduler_in_memory import NAME, Desk, Status, pod

NODES = tuple(builders.node(name) for name in ("n1", "n2"))
PODS = tuple(
    pod(f"{cpu}-{priority}-{number}", str(cpu), priority=priority)
    for cpu in (3, 6)
    for priority in (0, 5, 9)
    for number in range(2)
)

Event = tuple[str, Pod | None]
"""The key of a pod, and the pod; None when it is not in the watch any more."""


@dataclass
class Watch:
    """What one watch has yet to deliver."""

    held: Collection[Pod]
    events: deque[Event] = field(default_factory=deque)

    def deliver(self, most: int = 1) -> None:
        for _ in range(min(most, len(self.events))):
            key, pod = self.events.popleft()
            if pod is None:
                self.held.delete(key)
            else:
                self.held.upsert(pod)


class Truth(Status):
    """The API server and its two watches. Statuses are written at once; `late` are those that are written later."""

    def __init__(self) -> None:
        super().__init__()
        self.pods: dict[str, Pod] = {}
        self.waiting, self.assigned = Watch(Collection()), Watch(Collection())
        self.late: deque[tuple[Pod, str]] = deque()
        self.version = 1
        self.evicted_waiting: list[str] = []
        self.rejected: set[str] = set()

    def change(self, key: str, after: Pod | None) -> None:
        before = self.pods.pop(key, None)
        self.version += 1
        if after is not None:
            self.pods[key] = after = replace(after, resource_version=self.version)
        for watch, of_node in ((self.waiting, False), (self.assigned, True)):
            was = before is not None and bool(before.node_name) is of_node
            now = after is not None and bool(after.node_name) is of_node
            if was or now:
                watch.events.append((key, after if now else None))

    def bind(self, placement: ScheduleResult) -> Rejection | None:
        here = self.pods.get(placement.pod.key)
        if here is None or here.uid != placement.pod.uid:
            return Rejection(Reason.POD_ENDED, placement.pod.key, "the pod", "deleted")
        if here.node_name:
            return Rejection(Reason.ALREADY_ASSIGNED, here.key, "an unassigned pod", "it is on a node")
        self.change(here.key, replace(here, node_name=placement.node, nominated_node=""))
        return None

    def queue(self, pod: Pod, status: SchedulingStatus) -> bool:
        if status.nominated is not None:
            self.late.append((pod, status.nominated))
        return super().queue(pod, status)

    def nominate(self, pod: Pod, node: str) -> None:
        self.late.append((pod, node))

    def write_status(self) -> None:
        if self.late:
            pod, nominated = self.late.popleft()
            here = self.pods.get(pod.key)
            if here is not None and here.uid == pod.uid and not here.node_name and here.nominated_node != nominated:
                self.change(here.key, replace(here, nominated_node=nominated))

    def leaving(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.deleting]

    def going(self) -> frozenset[str]:
        shown = self.assigned.held.items.values()
        gone = (pod for pod in shown if self.pods.get(pod.key, pod).uid != pod.uid or pod.key not in self.pods)
        return frozenset(pod.uid for pod in (*self.leaving(), *gone))

    async def evict(self, preemption: Preemption, preemptor: Pod, budgets: Budgets) -> str:
        for victim in preemption.victims:
            here = self.pods.get(victim.key)
            if here is None or here.uid != victim.uid:
                continue
            if not here.node_name:
                self.evicted_waiting.append(here.name)
            if here.name.endswith("-1") and here.uid not in self.rejected:
                self.rejected.add(here.uid)
                return "a budget forbids it"
            self.change(here.key, replace(here, deleting=True, evicted=True))
        return ""


class Story:
    """A scheduler, and the steps that the world takes beside it."""

    def __init__(self) -> None:
        self.truth = Truth()
        self.desk = Desk(*NODES, status=self.truth, evictor=self.truth)
        self.truth.waiting.held, self.truth.assigned.held = self.desk.pods, self.desk.store.pods
        self.desk.shows, self.desk.binder.bound = False, self.truth.bind
        self.desk.server.truth = self.truth.pods.get
        for node in NODES:
            full = pod(f"full-{node.name}", "6", priority=0)
            self.truth.change(full.key, replace(full, node_name=node.name))
        self.truth.assigned.deliver(2)

    async def step(self, name: str, number: int) -> None:
        truth, named = self.truth, PODS[number % len(PODS)]
        here = truth.pods.get(named.key)
        if name == "create" and here is None:
            truth.change(named.key, replace(named, uid=f"{named.name}-{truth.version}"))
        elif name == "delete" and here is not None:
            truth.change(named.key, None)
        elif name == "somebody binds" and here is not None and not here.node_name and not here.deleting:
            truth.change(named.key, replace(here, node_name=NODES[number % 2].name, nominated_node=""))
        elif name == "pod ends" and truth.leaving():
            leaving = truth.leaving()
            truth.change(leaving[number % len(leaving)].key, None)
        elif name == "binding fails":
            failure = Unavailable("POST", "/", 0, "Timeout", "no answer")
            self.desk.binder.answers.append(failure)
        elif name == "show waiting":
            truth.waiting.deliver(1 + number % 3)
        elif name == "show assigned":
            truth.assigned.deliver(1 + number % 3)
        elif name == "write status":
            truth.write_status()
        elif name == "time passes":
            await self.desk.clock.advance(1 + number % 4)
        await settle()

    async def come_to_rest(self) -> None:
        """Deliver everything, until nothing comes of it any more. No pod waits out its five minutes meanwhile."""
        self.desk.binder.answers.clear()
        quiet = 0
        for _ in range(60):
            for leaving in self.truth.leaving():
                self.truth.change(leaving.key, None)
            moved = bool(self.truth.late or self.truth.waiting.events or self.truth.assigned.events)
            while self.truth.late:
                self.truth.write_status()
            self.truth.waiting.deliver(1_000)
            self.truth.assigned.deliver(1_000)
            await self.desk.clock.advance(11 if quiet else 0.5)
            quiet = 0 if moved else quiet + 1
            if quiet == 3:
                return
        raise AssertionError("the scheduler does not come to rest")

    def check(self) -> None:
        desk, truth = self.desk, self.truth
        waiting = {key for key, pod in truth.pods.items() if not pod.node_name}
        assert {key for key in truth.pods if desk.waiting.get(key) is not None} == waiting
        assert dict(desk.cluster.assumed()) == {}
        view = desk.cluster.view(desk.clock.now())
        placed = {pod.key: state.name for state in view.nodes for pod in state.pods}
        assert placed == {key: pod.node_name for key, pod in truth.pods.items() if pod.node_name}
        assert truth.evicted_waiting == []
        profile = desk.configuration.current.profiles[NAME]
        for key in sorted(waiting):
            pod = truth.pods[key]
            decision = desk.room.decide(pod, view, profile, desk.decider, desk.room.moment(pod))
            assert isinstance(decision, Unschedulable), f"{key} sleeps, and would fit {decision.node}"
        assert [pod.key for pod in truth.pods.values() if pod.nominated_node] == []


STALE_NOMINATION = [
    *(("create", 3), ("pod ends", 15), ("pod ends", 3), ("show assigned", 16), ("show waiting", 10)),
    *(("write status", 18), ("show assigned", 16), ("create", 18), ("show assigned", 17), ("pod ends", 15)),
    *(("pod ends", 16), ("create", 13), ("time passes", 0), ("show assigned", 0), ("show waiting", 20)),
    *(("write status", 22), ("show waiting", 23), ("show waiting", 14)),
]
"""The watch of waiting pods shows a nomination of a pod that is bound by then, and shows the end of it first."""

STEPS = (
    *("create", "show waiting", "show waiting", "show assigned", "write status", "pod ends"),
    *("create", "show waiting", "time passes", "delete", "somebody binds", "binding fails"),
)


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 23)), max_size=60))
@example(steps=STALE_NOMINATION)
def test_in_any_order_of_the_watches_no_pod_is_left_waiting(steps: Sequence[tuple[str, int]]) -> None:
    asyncio.run(_play(steps))


async def _play(steps: Sequence[tuple[str, int]]) -> None:
    story = Story()
    async with story.desk.running():
        for name, number in steps:
            await story.step(name, number)
        await story.come_to_rest()
        story.check()
