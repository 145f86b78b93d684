import pytest

from binder.matching.index import VolumeIndex
from binder.model.view import View
from kube.objects.model import Record
from kube.store.store import snapshot_of
from scheduler.cycle.cycle import decide
from scheduler.framework.plugin import ScheduleResult
from scheduler.plugins.registry import default_profile
from scheduler.simulator.simulated_cluster import Entry, SimulatedChange, SimulatedCluster
from scheduler.simulator.simulated_storage import ImpossibleChange
from scheduler.simulator.simulated_workload import START
from scheduler.state.cluster import ClusterView, view_of
from tests import builders as made

PROFILE = default_profile("test")
DYNAMIC = made.storage_class("made", provisioner="disk.csi.example")
RECORDS: list[Record] = [
    made.node("node-1"),
    made.node("node-2", zone="b"),
    made.storage_class(),
    DYNAMIC,
    made.volume("pv-1", zone="a"),
    made.claim("one"),
    made.claim("two"),
    made.claim("three", storage_class="made"),
    made.pod("first", claims=["one"]),
    made.pod("second", claims=["two"]),
    made.pod("third", claims=["three"]),
    made.pod("plain"),
]


def beginning() -> ClusterView:
    snapshot = snapshot_of(RECORDS)
    return view_of(View(snapshot, VolumeIndex.of(snapshot.volumes.values())), START)


def decided(cluster: SimulatedCluster, pod: str) -> ScheduleResult:
    view = cluster.state.view
    decision = decide(view.storage.snapshot.pods[f"default/{pod}"], view, PROFILE)
    assert isinstance(decision, ScheduleResult)
    return decision


def unchanged(placement: ScheduleResult, _: ClusterView) -> ScheduleResult | None:
    return placement


def never(_: ScheduleResult, __: ClusterView) -> ScheduleResult | None:
    return None


def must_not_be_asked(_: ScheduleResult, __: ClusterView) -> ScheduleResult | None:
    raise AssertionError("nothing has changed")


def test_a_placement_binds_its_volumes() -> None:
    cluster = SimulatedCluster(beginning())
    assert cluster.place(decided(cluster, "first"), cluster.state, must_not_be_asked, 7)
    snapshot = cluster.state.view.storage.snapshot
    assert snapshot.claims["default/one"].volume_name == "pv-1"
    assert snapshot.volumes["pv-1"].phase == "Bound"
    assert cluster.state.view.storage.index.smallest(made.claim("two")) is None
    assert cluster.log == [Entry(7, SimulatedChange.PLACE, "node-1", "default/first", (("default/one", "pv-1"),))]


def test_a_volume_is_made_in_the_zone_of_the_node() -> None:
    cluster = SimulatedCluster(beginning())
    placement = decided(cluster, "third")
    assert cluster.place(placement, cluster.state, must_not_be_asked, 0)
    snapshot = cluster.state.view.storage.snapshot
    volume = snapshot.volumes[snapshot.claims["default/three"].volume_name]
    zone = cluster.state.view.nodes[cluster.state.view.numbers[placement.node]].zone
    assert volume.node_affinity == made.node_selector({made.ZONE: zone})
    assert (volume.capacity, volume.driver) == (snapshot.claims["default/three"].request, "disk.csi.example")


def test_of_two_that_saw_one_free_volume_the_later_has_to_think_again() -> None:
    cluster = SimulatedCluster(beginning())
    seen, first, second = cluster.state, decided(cluster, "first"), decided(cluster, "second")
    assert cluster.place(first, seen, must_not_be_asked, 0)
    assert not cluster.place(second, seen, never, 0)
    assert list(cluster.state.placed) == ["default/first"]


def test_a_revised_placement_counts() -> None:
    cluster = SimulatedCluster(beginning())
    seen, first, plain = cluster.state, decided(cluster, "first"), decided(cluster, "plain")
    cluster.place(first, seen, must_not_be_asked, 0)
    crowded = ScheduleResult(plain.pod, first.node, plain.volumes)
    assert cluster.place(crowded, seen, unchanged, 0)
    assert not cluster.place(crowded, cluster.state, unchanged, 0), "a pod is placed once"


def test_going_back_undoes_all_of_it() -> None:
    cluster = SimulatedCluster(beginning())
    cluster.place(decided(cluster, "plain"), cluster.state, unchanged, 0)
    checkpoint = cluster.state
    cluster.place(decided(cluster, "first"), cluster.state, unchanged, 0)
    cluster.apply(Entry(0, SimulatedChange.REMOVE_NODE, "node-2"))
    cluster.rollback(checkpoint)
    assert (len(cluster.log), cluster.state.version) == (1, 1)
    assert len(cluster.state.view.nodes) == 2
    assert cluster.place(decided(cluster, "first"), cluster.state, must_not_be_asked, 0)


def test_a_replayed_log_leads_to_the_same_end() -> None:
    cluster = SimulatedCluster(beginning())
    for pod in ("first", "third", "plain"):
        cluster.place(decided(cluster, pod), cluster.state, unchanged, 0)
    cluster.apply(Entry(3, SimulatedChange.CORDON, "node-2"))
    cluster.apply(Entry(4, SimulatedChange.TAKE_AWAY, cluster.state.placed["default/plain"], "default/plain"))
    again = SimulatedCluster(beginning())
    for entry in cluster.log:
        again.apply(entry)
    assert again.log == cluster.log
    assert again.state.placed == cluster.state.placed
    assert again.state.view.storage.snapshot == cluster.state.view.storage.snapshot
    assert again.state.view.nodes == cluster.state.view.nodes


def test_a_log_of_another_beginning_is_rejected() -> None:
    with pytest.raises(ImpossibleChange, match="there is no node-9"):
        SimulatedCluster(beginning()).apply(Entry(0, SimulatedChange.CORDON, "node-9"))


PLACED = Entry(0, SimulatedChange.PLACE, "node-1", "default/first", (("default/one", "pv-1"),))


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        pytest.param(PLACED, "default/first is already on node-1", id="a pod twice"),
        pytest.param(
            Entry(0, SimulatedChange.PLACE, "node-1", "default/second", (("default/two", "pv-1"),)),
            "pv-1 already has claim default/one",
            id="a volume twice",
        ),
        pytest.param(
            Entry(0, SimulatedChange.PLACE, "node-1", "default/plain", made=("default/one",)),
            "claim default/one already has volume pv-1",
            id="a claim twice",
        ),
        pytest.param(
            Entry(0, SimulatedChange.TAKE_AWAY, "node-2", "default/first"), "not on node-2", id="from another node"
        ),
        pytest.param(
            Entry(0, SimulatedChange.TAKE_AWAY, "node-1", "default/plain"), "not on node-1", id="a pod not placed"
        ),
        pytest.param(
            Entry(0, SimulatedChange.PLACE, "node-1", "default/none"), "there is no default/none", id="no such pod"
        ),
    ],
)
def test_what_cannot_be_is_rejected_and_changes_nothing(entry: Entry, why: str) -> None:
    cluster = SimulatedCluster(beginning())
    cluster.apply(PLACED)
    before = cluster.state
    with pytest.raises(ImpossibleChange, match=why):
        cluster.apply(entry)
    assert cluster.state == before
    assert cluster.log == [PLACED]
