from collections import Counter

import msgspec
import pytest

from binder.matching.index import VolumeIndex
from binder.matching.rejection import Reason
from binder.model.view import View
from kube.objects.constraints import Constraints
from kube.objects.model import Pod, Record, Toleration
from kube.store.store import snapshot_of
from scheduler.plugins.registry import default_profile
from scheduler.simulator.simulated_cluster import Entry, SimulatedChange, SimulatedCluster
from scheduler.simulator.simulated_storage import ImpossibleChange
from scheduler.simulator.simulated_workload import START, Workload, workload
from scheduler.simulator.simulation import Simulation, SimulationOutcome
from scheduler.simulator.summary import Latency, summarise
from scheduler.simulator.what_if import drain, driver_fails, node_down, volume_fails, zone_down
from scheduler.state.cluster import view_of
from tests import builders as made

SMALL = Workload(nodes=6, pods=60, zones=2, volumes_per_node=3)


def cluster_of(records: list[Record]) -> tuple[SimulatedCluster, list[Pod]]:
    snapshot = snapshot_of(records)
    storage = View(snapshot, VolumeIndex.of(snapshot.volumes.values()))
    return SimulatedCluster(view_of(storage, START)), [pod for _, pod in sorted(snapshot.pods.items())]


def run(cluster: SimulatedCluster, pods: list[Pod], *, concurrent: int = 4, seed: int = 1) -> SimulationOutcome:
    return Simulation(cluster, default_profile("test"), concurrent, seed).run(pods)


def test_the_same_seed_gives_the_same_run() -> None:
    runs = []
    for _ in range(2):
        cluster, pods = cluster_of(workload(SMALL, 3))
        runs.append((run(cluster, pods), cluster.log))
    assert runs[0] == runs[1]
    assert workload(SMALL, 3) != workload(SMALL, 4)


@pytest.mark.parametrize("seed", range(5))
def test_no_volume_is_given_twice_and_no_node_overfull(seed: int) -> None:
    cluster, pods = cluster_of(workload(SMALL, seed))
    outcome = run(cluster, pods, concurrent=8)
    assert len(outcome.latencies) + len(outcome.failed) == len(pods)
    given = Counter(name for entry in cluster.log for _, name in entry.volumes)
    assert given
    assert set(given.values()) == {1}
    assert all(left >= 0 for state in cluster.state.view.nodes for left in state.free.values())


def test_pods_without_a_place_are_counted_by_the_commonest_reason() -> None:
    huge = [made.pod(f"huge-{number}", requests={"cpu": "64"}) for number in range(3)]
    cluster, pods = cluster_of([made.node(), made.node("node-2"), *huge, made.pod("lost", claims=["gone"])])
    outcome = run(cluster, pods)
    assert outcome.failures == {Reason.INSUFFICIENT_RESOURCES: 3, Reason.CLAIM_NOT_FOUND: 1}


def test_workers_that_want_the_same_place_think_again() -> None:
    large = [made.pod(f"p-{number}", requests={"cpu": "5"}) for number in range(4)]
    cluster, pods = cluster_of([made.node(), made.node("node-2"), *large])
    outcome = run(cluster, pods, concurrent=4)
    assert (len(outcome.latencies), len(outcome.failed)) == (2, 2)
    assert outcome.conflicts > 0


def test_a_drained_nodes_pods_go_elsewhere() -> None:
    cluster, pods = cluster_of([made.node(), made.node("node-2"), *(made.pod(f"p-{number}") for number in range(4))])
    run(cluster, pods)
    moved = drain(cluster, "node-1")
    assert moved
    run(cluster, moved)
    assert set(cluster.state.placed.values()) == {"node-2"}


def test_what_a_lost_zone_held_stays_lost() -> None:
    records: list[Record] = [
        made.node(),
        made.node("node-2", zone="b"),
        made.storage_class(),
        made.claim(),
        made.volume(zone="a"),
    ]
    cluster, pods = cluster_of([*records, made.pod(claims=["data"])])
    run(cluster, pods)
    moved = zone_down(cluster, "a")
    assert [pod.name for pod in moved] == ["web"]
    assert run(cluster, moved).failures == {Reason.VOLUME_UNREACHABLE: 1}


@pytest.mark.parametrize("change", [drain, zone_down])
def test_what_does_not_exist_cannot_go(change: object) -> None:
    cluster, _ = cluster_of([made.node()])
    assert callable(change)
    with pytest.raises(ImpossibleChange, match="there is no nowhere"):
        change(cluster, "nowhere")


def test_the_summary_adds_up() -> None:
    cluster, _ = cluster_of(
        [made.node(), made.node("node-2", zone="b"), made.pod(node="node-1", requests={"cpu": "4"})]
    )
    outcome = SimulationOutcome(latencies=[1000 * number for number in range(1, 101)], duration=2_000_000)
    summary = summarise(outcome, 100, cluster.state.view)
    assert summary.latency_milliseconds == Latency(50.0, 90.0, 99.0)
    assert summary.pods_per_second == 50.0
    assert (summary.pods_by_zone, summary.zone_skew) == ({"a": 1, "b": 0}, 1)
    cpu = summary.utilisation["cpu"]
    assert (cpu.mean, cpu.least, cpu.most) == (0.25, 0.0, 0.5)


@pytest.mark.parametrize("pods", [1, 3, 30])
def test_a_few_pods_request_no_more_than_a_node_has(pods: int) -> None:
    cluster, made_up = cluster_of(workload(Workload(pods=pods, volumes_per_node=0), seed=1))
    assert run(cluster, made_up).failures == {}


def test_what_the_scheduler_would_not_queue_is_not_placed() -> None:
    invalid = msgspec.structs.replace(made.pod("invalid"), tolerations=(Toleration("a", "Sometimes"),))
    gated = msgspec.structs.replace(made.pod("gated"), scheduling_gates=("example.com/gate",))
    unknown = made.pod("unknown", constraints=Constraints(unsupported=("spec.resourceClaims",)))
    cluster, pods = cluster_of([made.node(), made.pod("fine"), invalid, gated, unknown])
    through: list[None] = []
    outcome = Simulation(cluster, default_profile("test"), 1, 1).run(pods, lambda: through.append(None))
    assert outcome.failed == {
        "default/invalid": Reason.POD_INVALID,
        "default/gated": Reason.POD_GATED,
        "default/unknown": Reason.POD_UNSUPPORTED,
    }
    assert (len(outcome.latencies), len(through)) == (1, 4)


def test_what_belongs_to_a_node_stays_when_it_is_drained_and_goes_when_it_is_gone() -> None:
    agent = made.pod("agent", node="node-1", per_node=True)
    cluster, pods = cluster_of([made.node(), made.node("node-2", unschedulable=True), agent, made.pod("web")])
    run(cluster, [pod for pod in pods if not pod.node_name])
    assert [pod.name for pod in drain(cluster, "node-1")] == ["web"]
    assert cluster.state.placed["default/agent"] == "node-1"
    assert node_down(cluster, "node-1") == []
    assert dict(cluster.state.placed) == {}


STORED: list[Record] = [
    made.node(),
    made.storage_class(),
    made.claim("data"),
    made.claim("logs"),
    made.volume("pv-1", size="10Gi"),
    made.volume("pv-2", size="20Gi"),
    made.volume("pv-3", size="30Gi"),
]


def test_pods_on_a_volume_that_fails_start_over_with_another() -> None:
    cluster, pods = cluster_of([*STORED, made.pod("db", claims=["data", "logs"]), made.pod("web")])
    run(cluster, pods)
    before = cluster.state.view.storage.snapshot.claims
    assert before["default/data"].volume_name == "pv-1"
    hit = volume_fails(cluster, "pv-1")
    assert [pod.name for pod in hit] == ["db"]
    assert run(cluster, hit).failed == {}
    after = cluster.state.view.storage.snapshot.claims
    assert after["default/data"].volume_name == "pv-3"
    assert after["default/logs"].volume_name == before["default/logs"].volume_name == "pv-2"


def test_a_driver_that_fails_offers_no_volume_and_provisions_none() -> None:
    dynamic = made.storage_class("made", provisioner="disk.csi.example")
    more = made.pod("more", claims=["new"])
    records = [*STORED, dynamic, made.claim("new", storage_class="made"), made.pod("db", claims=["data"]), more]
    cluster, pods = cluster_of(records)
    run(cluster, pods)
    hit = driver_fails(cluster, "disk.csi.example")
    assert sorted(pod.name for pod in hit) == ["db", "more"]
    outcome = run(cluster, hit)
    assert outcome.failed == {"default/db": Reason.NO_VOLUME_FITS, "default/more": Reason.STORAGE_UNREACHABLE}


@pytest.mark.parametrize("change", [volume_fails, driver_fails, node_down])
def test_what_is_not_there_cannot_fail(change: object) -> None:
    cluster, _ = cluster_of(STORED)
    assert callable(change)
    with pytest.raises(ImpossibleChange, match="there is no nowhere"):
        change(cluster, "nowhere")


def test_failures_and_new_nodes_replay() -> None:
    cluster, pods = cluster_of([*STORED, made.pod("db", claims=["data"])])
    run(cluster, pods)
    run(cluster, volume_fails(cluster, "pv-1"))
    driver_fails(cluster, "disk.csi.example")
    cluster.apply(Entry(0, SimulatedChange.ADD_NODE, "new", like="node-1"))
    again, _ = cluster_of([*STORED, made.pod("db", claims=["data"])])
    for entry in cluster.log:
        again.apply(msgspec.json.decode(msgspec.json.encode(entry), type=Entry))
    assert again.state.placed == cluster.state.placed
    assert again.state.view.nodes == cluster.state.view.nodes
    assert again.state.view.storage.snapshot == cluster.state.view.storage.snapshot
    with pytest.raises(ImpossibleChange, match='node "new" already exists'):
        cluster.apply(Entry(0, SimulatedChange.ADD_NODE, "new", like="node-1"))
