"""Whatever the order in which things are heard of, the view is what a view made from nothing would be."""

import asyncio
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace as with_fields

from binder.matching.index import VolumeIndex
from binder.matching.rejection import Rejection
from binder.model.ledger import Hold, Ledger
from binder.model.view import PlanSettings, View
from kube.objects.constraints import Constraints, HostPort
from kube.objects.model import Namespace, Pod
from kube.objects.reports import StorageCondition
from kube.store.store import Store
from scheduler.framework.plugin import ScheduleResult
from scheduler.standalone.cache import MAX_CHANGES, PATIENCE, SchedulerCache
from scheduler.state.cluster import ClusterView, view_of
from scheduler.volumes.storage_cache import StepSizes
from scheduler.volumes.volume_binding import VolumeChoice
from tests import builders
from tests.fake_clock import FakeClock

NOW = builders.EPOCH
NODES, PODS, CLAIMS = ("n0", "n1", "n2"), ("p0", "p1", "p2"), ("c0", "c1")
DRIVER = "disk.csi.example"


class PromiseOne:
    """Reserves a volume named after the pod."""

    name = "PromiseOne"

    def reserve(self, placement: ScheduleResult, cluster: ClusterView) -> ClusterView | Rejection:
        ledger = cluster.storage.ledger.with_holds([hold_of(placement)])
        return replace(cluster, storage=replace(cluster.storage, ledger=ledger))


def hold_of(placement: ScheduleResult) -> Hold:
    return Hold(f"v-{placement.pod.name}", "default/c0", "", placement.pod.key, placement.node)


def facts(cluster: ClusterView) -> object:
    """What a view says, whatever the order of its nodes."""
    names = {state.number: state.name for state in cluster.nodes}

    def named(bits: int) -> frozenset[str]:
        return frozenset(name for number, name in names.items() if bits >> number & 1)

    index, crowd = cluster.index, cluster.pod_groups
    return (
        {
            state.name: (
                state.node,
                state.zone,
                state.taints,
                {pod.key: pod for pod in state.pods},
                {name: left for name, left in state.free.items() if left},
                state.scored,
                state.ports,
                state.attach,
                state.cut_off,
            )
            for state in cluster.nodes
        },
        dict(cluster.numbers) == {name: number for number, name in names.items()},
        (named(index.everything), {name: named(bits) for name, bits in index.names.items()}),
        {(key, value): named(bits) for key, known in index.values.items() for value, bits in known.items()},
        {taint: named(bits) for taint, bits in (*index.taints.items(), *index.wishes.items())},
        {
            group: {names[at]: count for at, count in places.items()}
            for known in crowd.groups.values()
            for group, places in known.items()
        },
        {group: {names[at]: count for at, count in places.items()} for group, places in crowd.outspoken.items()},
        {key: dict(users) for key, users in cluster.claim_users.items()},
        replace(cluster.storage, index=VolumeIndex()),
        free_volumes(cluster.storage.index),
        dict(cluster.namespaces),
    )


def free_volumes(index: VolumeIndex) -> object:
    return [
        (shape, modes, list(group.everywhere.at_least(0)))
        for shape, shelf in sorted(index.shelves.items())
        for modes, group in sorted(shelf.items(), key=str)
    ]


class Everything(RuleBasedStateMachine):
    """A cluster that changes at random, what the cache view makes of it, and a view made from nothing."""

    steps = StepSizes()

    def __init__(self) -> None:
        super().__init__()
        self.store, self.version = Store(), 0
        self.cache = SchedulerCache(self.store, PlanSettings(), self.steps)
        self.expected: dict[str, ScheduleResult] = {}
        self.bound: dict[str, float] = {}
        self.looked = False

    def next_version(self) -> int:
        self.version += 1
        return self.version

    def pod(self, name: str, uid: int, node: str, data: st.DataObject) -> Pod:
        made = builders.pod(
            name,
            node=node,
            claims=data.draw(st.sampled_from(((), ("c0",), CLAIMS))),
            requests={"cpu": "1"},
            labels={"app": data.draw(st.sampled_from(("web", "db")))},
            constraints=data.draw(st.sampled_from((None, Constraints(ports=(HostPort(80),))))),
        )
        return with_fields(made, uid=f"{name}-{uid}", resource_version=self.next_version())

    @rule(name=st.sampled_from(NODES), zone=st.sampled_from(("a", "b")), cordoned=st.booleans())
    def node_shown(self, name: str, zone: str, cordoned: bool) -> None:
        made = builders.node(name, zone=zone, unschedulable=cordoned)
        self.store.nodes.upsert(with_fields(made, uid=name + str(self.version), resource_version=self.next_version()))

    @rule(name=st.sampled_from(NODES))
    def node_gone(self, name: str) -> None:
        self.store.nodes.delete(name)

    @rule(
        name=st.sampled_from(PODS),
        uid=st.integers(0, 1),
        node=st.sampled_from(("", *NODES)),
        phase=st.sampled_from(("Pending", "Running", "Succeeded")),
        data=st.data(),
    )
    def pod_shown(self, name: str, uid: int, node: str, phase: str, data: st.DataObject) -> None:
        shown = with_fields(self.pod(name, uid, node, data), phase=phase)
        self.store.pods.upsert(shown)
        placement = self.expected.get(shown.key)
        if placement is not None and (placement.pod.uid != shown.uid or node or shown.finished):
            self.drop(shown.key)

    @rule(name=st.sampled_from(PODS))
    def pod_gone(self, name: str) -> None:
        before = self.store.pods.items.get(f"default/{name}")
        self.store.pods.delete(f"default/{name}")
        placement = self.expected.get(f"default/{name}")
        if before is not None and placement is not None and before.uid == placement.pod.uid:
            self.drop(before.key)

    def drop(self, key: str) -> None:
        self.expected.pop(key, None)
        self.bound.pop(key, None)

    @precondition(lambda self: self.looked)
    @rule(name=st.sampled_from(PODS), uid=st.integers(0, 1), node=st.sampled_from(NODES), data=st.data())
    def assume(self, name: str, uid: int, node: str, data: st.DataObject) -> None:
        pod = self.pod(name, uid, "", data)
        shown = self.store.pods.items.get(pod.key)
        placement = ScheduleResult(pod, node, VolumeChoice())
        rejected = self.cache.assume(placement, [PromiseOne()])
        taken = shown is not None and shown.uid == pod.uid and bool(shown.node_name or shown.finished)
        assert (rejected is not None) == taken
        if not taken:
            self.expected[pod.key] = placement
            self.bound.pop(pod.key, None)

    @rule(name=st.sampled_from(PODS), at=st.floats(0, 100))
    def bind(self, name: str, at: float) -> None:
        self.cache.bound(f"default/{name}", at)
        if f"default/{name}" in self.expected:
            self.bound[f"default/{name}"] = at

    @rule(name=st.sampled_from(PODS))
    def forget(self, name: str) -> None:
        self.cache.forget(f"default/{name}")
        self.drop(f"default/{name}")

    @rule(at=st.floats(0, 200))
    def overdue(self, at: float) -> None:
        late = {key for key, since in self.bound.items() if at - since >= PATIENCE}
        assert {placement.pod.key for placement in self.cache.overdue(at)} == late

    @rule(name=st.sampled_from(CLAIMS), volume=st.sampled_from(("", "v0", "v1")))
    def claim_shown(self, name: str, volume: str) -> None:
        made = builders.claim(name, volume_name=volume)
        self.store.claims.upsert(with_fields(made, resource_version=self.next_version()))

    @rule(name=st.sampled_from(("v0", "v1")), handle=st.sampled_from(("h0", "h1")), free=st.booleans())
    def volume_shown(self, name: str, handle: str, free: bool) -> None:
        made = builders.volume(name, driver=DRIVER, phase="Available" if free else "Released")
        self.store.volumes.upsert(with_fields(made, handle=handle, resource_version=self.next_version()))

    @rule(name=st.sampled_from(("v0", "v1")), claim=st.sampled_from(CLAIMS), of_claim=st.booleans())
    def storage_gone(self, name: str, claim: str, of_claim: bool) -> None:
        if of_claim:
            self.store.claims.delete(f"default/{claim}")
        else:
            self.store.volumes.delete(name)

    @rule(provisioner=st.sampled_from((DRIVER, "other.csi.example")))
    def class_shown(self, provisioner: str) -> None:
        made = builders.storage_class(provisioner=provisioner)
        self.store.classes.upsert(with_fields(made, resource_version=self.next_version()))

    @rule(node=st.sampled_from(NODES), volume=st.sampled_from(("v0", "v1")), gone=st.booleans())
    def attachment_shown(self, node: str, volume: str, gone: bool) -> None:
        made = builders.attachment(volume, node, attacher=DRIVER)
        if gone:
            self.store.attachments.delete(made.name)
        else:
            self.store.attachments.upsert(with_fields(made, resource_version=self.next_version()))

    @rule(node=st.sampled_from(NODES), limit=st.integers(1, 3), cut_off=st.booleans())
    def csi_node_shown(self, node: str, limit: int, cut_off: bool) -> None:
        reports = [StorageCondition(DRIVER, "StorageUnreachable")] if cut_off else []
        made = builders.csi_node(node, limits={DRIVER: limit}, reports=reports)
        self.store.csi_nodes.upsert(with_fields(made, resource_version=self.next_version()))

    @rule(demanding=st.booleans(), gone=st.booleans())
    def csi_driver_shown(self, demanding: bool, gone: bool) -> None:
        if gone:
            self.store.csi_drivers.delete(DRIVER)
            return
        made = builders.csi_driver(DRIVER, prevent_pod_scheduling_if_missing=demanding)
        self.store.csi_drivers.upsert(with_fields(made, resource_version=self.next_version()))

    @rule(name=st.sampled_from(("default", "other")), team=st.sampled_from(("", "a", "b")))
    def namespace_shown(self, name: str, team: str) -> None:
        if not team:
            self.store.namespaces.delete(name)
            return
        labels = builders.pairs({"team": team})
        self.store.namespaces.upsert(Namespace(name, name, self.next_version(), labels))

    @rule()
    def step(self) -> None:
        """What changes between two steps is neither lost nor counted twice."""
        self.cache.step(NOW)

    @invariant()
    def nothing_is_lost_or_counted_twice(self) -> None:
        if self.version % 3 == 0:  # Several changes between two looks are as good as one.
            return
        self.looked = True
        assert dict(self.cache.assumed()) == self.expected
        assert facts(self.cache.view(NOW)) == facts(self.from_nothing())

    def from_nothing(self) -> ClusterView:
        snapshot = self.store.snapshot()
        ledger = Ledger().with_holds(map(hold_of, self.expected.values()))
        storage = View(snapshot, VolumeIndex.of(snapshot.volumes.values()), ledger, settings=PlanSettings())
        labels = {name: namespace.labels for name, namespace in self.store.namespaces.items.items()}
        cluster = view_of(storage, NOW, labels)
        for key, placement in self.expected.items():
            shown = snapshot.pods.get(key)
            if shown is not None:
                cluster = cluster.without_pod(key, shown.node_name)
            cluster = cluster.with_pod(placement.pod, placement.node)
        return cluster


class InSmallSteps(Everything):
    """The same, where each change takes a step of its own."""

    steps = StepSizes(volumes=1, pods=1, moves=1, counted_nodes=1)


TestEverything = Everything.TestCase
TestEverything.settings = settings(deadline=None, max_examples=60, stateful_step_count=40)
TestInSmallSteps = InSmallSteps.TestCase
TestInSmallSteps.settings = TestEverything.settings


async def test_others_run_while_a_large_cluster_is_read() -> None:
    store, clock, turns = Store(), FakeClock(), 0
    cache = SchedulerCache(store, PlanSettings(), StepSizes(volumes=10, pods=11, moves=10, counted_nodes=10))
    store.nodes.replace((builders.node(f"n{number}") for number in range(20)), "1")
    store.pods.replace((builders.pod(f"p{number}", node=f"n{number % 20}") for number in range(200)), "2")
    store.volumes.replace((builders.volume(f"v{number}") for number in range(50)), "3")

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(take_turns())
    view = await cache.current(clock)
    assert turns >= 50 // 10 + 20 - 2
    assert sum(len(state.pods) for state in view.nodes) == 200
    # A relist that changes everything is no different.
    store.pods.replace((builders.pod(f"q{number}", node=f"n{number % 20}") for number in range(200)), "4")
    turns = 0
    view = await cache.current(clock)
    assert turns >= 400 // 10 - 2
    assert {pod.name[0] for state in view.nodes for pod in state.pods} == {"q"}
    other.cancel()


def test_a_replica_that_waits_does_not_note_changes_for_ever() -> None:
    store = Store()
    cache = SchedulerCache(store, PlanSettings())
    store.nodes.replace([builders.node("n0"), builders.node("n1")], "1")
    cache.view(NOW)
    assumed = builders.pod("assumed", requests={"cpu": "1"})
    assert cache.assume(ScheduleResult(assumed, "n1", VolumeChoice()), [PromiseOne()]) is None
    plain = builders.pod("web")
    store.pods.replace((with_fields(plain, name=f"p{number}") for number in range(MAX_CHANGES + 1)), "2")
    store.pods.replace([builders.pod("late", node="n0", resource_version=3)], "3")
    cluster = cache.view(NOW)
    assert [[pod.name for pod in state.pods] for state in cluster.nodes] == [["late"], ["assumed"]]
    assert list(cluster.storage.ledger.holds) == ["v-assumed"]


def test_a_pod_assumed_elsewhere_is_counted_once_when_the_node_of_its_predecessor_arrives() -> None:
    store = Store()
    cache = SchedulerCache(store, PlanSettings())
    store.nodes.upsert(builders.node("n1", resource_version=1))
    before = with_fields(builders.pod("web", node="n0", requests={"cpu": "1"}), uid="web-1", resource_version=2)
    store.pods.upsert(before)
    cache.view(NOW)
    later = with_fields(before, uid="web-2", resource_version=3, node_name="")
    assert cache.assume(ScheduleResult(later, "n1", VolumeChoice()), [PromiseOne()]) is None
    cache.view(NOW)
    store.nodes.upsert(builders.node("n0", resource_version=4))
    cluster = cache.view(NOW)
    assert {state.name: [pod.uid for pod in state.pods] for state in cluster.nodes} == {"n0": [], "n1": ["web-2"]}


def test_many_volumes_at_once() -> None:
    store = Store()
    cache = SchedulerCache(store, PlanSettings())
    cache.view(NOW)
    store.volumes.replace([builders.volume(f"v{number}") for number in range(150)], "1")
    store.volumes.delete("v0")
    cluster = cache.view(NOW)
    assert free_volumes(cluster.storage.index) == free_volumes(VolumeIndex.of(store.volumes.items.values()))
