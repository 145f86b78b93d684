"""What is provisioned for a pod fits together into what is left of the driver's storage, or the node is rejected."""

from collections.abc import Iterable
from datetime import timedelta

import pytest

from binder.matching.index import VolumeIndex
from binder.matching.rejection import Reason
from binder.model.view import PlanSettings, View
from binder.provisioning.tracking import ledger_of
from kube.objects.model import Pod, Record
from kube.store.store import Store, snapshot_of, store_of
from scheduler.binding.reserve_volumes import ReserveVolumes
from scheduler.cycle.cycle import Unschedulable, decide
from scheduler.cycle.memoized_cycle import Decider
from scheduler.framework.plugin import ScheduleResult
from scheduler.plugins.registry import default_profile
from scheduler.simulator.nodes_needed import nodes_needed
from scheduler.simulator.simulated_cluster import SimulatedCluster
from scheduler.simulator.simulated_nodes import node_kinds
from scheduler.simulator.simulation import Simulation
from scheduler.standalone.cache import SchedulerCache
from scheduler.state.cluster import ClusterView, view_of
from tests.binder.provisioning.clusters import OURS, local_class, made, place, report, selected
from tests.builders import EPOCH, claim, csi_driver, node, pod

PROFILE = default_profile("test")


def base(*nodes: str) -> tuple[Record, ...]:
    return csi_driver(storage_capacity=True), local_class(), *(record for name in nodes for record in place(name))


def user(name: str, *sizes: str) -> tuple[Record, ...]:
    """A pod with claims of these sizes."""
    names = [f"{name}-{number}" for number in range(len(sizes))]
    return pod(name, claims=names), *(claim(each, size=size) for each, size in zip(names, sizes, strict=True))


def view(*records: Record) -> ClusterView:
    snapshot = snapshot_of(records)
    pools = ledger_of(snapshot, OURS, EPOCH)
    return view_of(View(snapshot, VolumeIndex.of(snapshot.volumes.values()), pools=pools), EPOCH)


def chosen(cluster: ClusterView, name: str) -> str:
    decision = decide(cluster.storage.snapshot.pods[f"default/{name}"], cluster, PROFILE)
    return decision.node if isinstance(decision, ScheduleResult) else ""


@pytest.mark.parametrize(
    ("beside", "sizes", "node_chosen"),
    [
        ((), ("60Gi", "40Gi"), "n1"),
        ((), ("60Gi", "41Gi"), ""),
        ((selected("other", "30Gi"),), ("40Gi", "30Gi"), "n1"),
        ((selected("other", "30Gi", ours=False),), ("40Gi", "31Gi"), ""),
        ((made("other", "30Gi"),), ("40Gi", "31Gi"), ""),
        ((selected("other", "30Gi"),), ("71Gi",), ""),
    ],
    ids=["all that is left", "each fits, not both", "beside", "another pod's claim", "unreported", "a single claim"],
)
def test_a_node_takes_all_volumes_of_a_pod_or_is_rejected(
    beside: Iterable[Record], sizes: tuple[str, ...], node_chosen: str
) -> None:
    cluster = view(*base("n1"), report("100Gi"), *user("db", *sizes), *beside)

    assert chosen(cluster, "db") == node_chosen


def test_the_rejection_says_what_is_left_and_kube_scheduler_compares_each_claim_alone() -> None:
    cluster = view(*base("n1"), report("100Gi"), *user("db", "100Gi", "100Gi"))
    decision = decide(cluster.storage.snapshot.pods["default/db"], cluster, PROFILE)
    assert isinstance(decision, Unschedulable)

    choice = decision.judgement.info.choice(cluster.nodes[0])

    (rejection,) = choice.own.rejections
    assert rejection.reason is Reason.INSUFFICIENT_STORAGE
    assert rejection.wanted == "200Gi of class fast for default/db-0, default/db-1 together"
    assert rejection.offered == "100Gi left of 100Gi"
    assert choice.upstream.rejections == ()


def test_a_pod_goes_where_the_sum_fits() -> None:
    cluster = view(*base("n1", "n2"), report("100Gi"), report("90Gi", "n2"), *user("db", "45Gi", "45Gi"))

    assert chosen(cluster, "db") in {"n1", "n2"}
    assert (
        chosen(view(*base("n1", "n2"), report("80Gi"), report("90Gi", "n2"), *user("db", "45Gi", "45Gi")), "db") == "n2"
    )


class Deciding:
    """The standalone scheduler's decisions, one pod after another, before any write is shown."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.cache = SchedulerCache(store, PlanSettings())
        self._decider = Decider()

    def place(self, name: str) -> str:
        decision = self._decider.decide(self._pod(name), self.cache.view(EPOCH), PROFILE)
        if isinstance(decision, Unschedulable):
            return ""
        assert self.cache.assume(decision, [ReserveVolumes()]) is None
        return decision.node

    def _pod(self, name: str) -> Pod:
        return self.store.pods.items[f"default/{name}"]


def test_a_pod_scheduled_a_moment_ago_has_taken_its_storage() -> None:
    pods = [record for name in ("a", "b", "c") for record in user(name, "30Gi", "30Gi")]
    scheduling = Deciding(store_of((*base("n1", "n2"), report("100Gi"), report("100Gi", "n2"), *pods)))

    assert {scheduling.place("a"), scheduling.place("b")} == {"n1", "n2"}
    assert scheduling.place("c") == ""
    scheduling.cache.forget("default/a")
    assert scheduling.place("c") != ""


def test_a_pod_that_is_tried_again_is_not_in_its_own_way() -> None:
    scheduling = Deciding(store_of((*base("n1"), report("100Gi"), *user("a", "60Gi", "40Gi"))))
    assert scheduling.place("a") == "n1"
    scheduling.store.claims.upsert(selected("a-0", "60Gi"))

    scheduling.cache.forget("default/a")

    assert scheduling.place("a") == "n1"


def test_a_simulation_counts_what_it_provisions() -> None:
    pods = [record for name in "abcdef" for record in user(name, "100Gi", "100Gi")]
    cluster = SimulatedCluster(view(*base("n1"), report("450Gi"), *pods))

    outcome = Simulation(cluster, PROFILE, 2, 1).run([record for record in pods if isinstance(record, Pod)])

    assert len(outcome.latencies) == 2
    assert set(outcome.failures) == {Reason.INSUFFICIENT_STORAGE}


def test_two_workers_do_not_take_the_same_pool_from_two_nodes() -> None:
    rack = {"topology.disk.csi.example/node": "rack"}
    shared = csi_driver(storage_capacity=True), local_class(), report("100Gi", "rack")
    nodes = node("n1", labels=rack), node("n2", labels=rack)
    pods = [record for name in "ab" for record in user(name, "60Gi")]
    cluster = SimulatedCluster(view(*shared, *nodes, *pods))

    outcome = Simulation(cluster, PROFILE, 2, 1).run([record for record in pods if isinstance(record, Pod)])

    assert len(outcome.latencies) == 1


def test_a_node_that_is_added_brings_storage_like_that_of_the_node_it_copies() -> None:
    bound = claim("old", size="40Gi", volume_name="pvc-old", phase="Bound")
    running = pod("old", node="n1", claims=["old"])
    pods = [record for name in "abc" for record in user(name, "50Gi", "50Gi")]
    cluster = SimulatedCluster(
        view(
            *base("n1"), report("60Gi"), bound, running, made("old", "40Gi", created=EPOCH - timedelta(hours=1)), *pods
        )
    )
    wanted = [record for record in pods if isinstance(record, Pod)]

    needed = nodes_needed(cluster, wanted, node_kinds(cluster.state.view.nodes), PROFILE, 1)

    assert (needed.added, needed.failed) == ({"n1": 3}, {})
