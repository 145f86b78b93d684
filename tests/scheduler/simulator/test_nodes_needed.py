"""How many nodes more: enough for all that a node can help, of the kind that helps most, and no more."""

import pytest

from binder.matching.index import VolumeIndex
from binder.matching.rejection import Reason
from binder.model.view import View
from csi.health.sources import STORAGE_UNREACHABLE
from kube.objects.model import Pod, Record
from kube.objects.reports import StorageCondition
from kube.store.store import snapshot_of
from scheduler.plugins.registry import default_profile
from scheduler.simulator.nodes_needed import NodesNeeded, nodes_needed
from scheduler.simulator.simulated_cluster import SimulatedCluster
from scheduler.simulator.simulated_nodes import node_kinds
from scheduler.simulator.simulated_workload import START
from scheduler.state.cluster import view_of
from tests import builders as made

PROFILE = default_profile("test")


def fill(records: list[Record], pods: list[Pod]) -> tuple[NodesNeeded, SimulatedCluster]:
    snapshot = snapshot_of([*records, *pods])
    cluster = SimulatedCluster(view_of(View(snapshot, VolumeIndex.of(snapshot.volumes.values())), START))
    return nodes_needed(cluster, pods, node_kinds(cluster.state.view.nodes), PROFILE, 1), cluster


def waiting(count: int, cpu: str = "4", **more: object) -> list[Pod]:
    return [made.pod(f"p{number}", requests={"cpu": cpu}, **more) for number in range(count)]  # type: ignore[arg-type]


FULL = made.pod("full", node="node-1", requests={"cpu": "8"})


def test_one_node_is_filled_after_the_other() -> None:
    result, cluster = fill([made.node(), FULL], waiting(5))
    assert (result.added, result.placed, result.failed) == ({"node-1": 3}, 5, {})
    assert sorted(state.name for state in cluster.state.view.nodes) == [
        "node-1",
        "node-1-more-1",
        "node-1-more-2",
        "node-1-more-3",
    ]


def test_what_no_new_node_helps_is_left_with_its_reason() -> None:
    stuck = made.pod("stuck", requests={"cpu": "9"})
    result, cluster = fill([made.node(), FULL], [*waiting(1), stuck])
    assert (result.added, result.placed) == ({"node-1": 1}, 1)
    assert result.failed == {"default/stuck": Reason.INSUFFICIENT_RESOURCES}
    assert len(cluster.state.view.nodes) == 2


def test_the_kind_that_helps_most_is_taken() -> None:
    large = made.node("large", allocatable={"cpu": "32"})
    other = made.pod("other", node="large", requests={"cpu": "32"})
    assert fill([made.node(), FULL, large, other], waiting(8))[0].added == {"large": 1}


def test_pods_of_a_daemon_set_take_their_part_of_a_new_node() -> None:
    agent = made.pod("agent", node="node-1", requests={"cpu": "1"}, per_node=True)
    rest = made.pod("rest", node="node-1", requests={"cpu": "7"})
    assert fill([made.node(), agent, rest], waiting(2))[0].added == {"node-1": 2}


def test_a_new_node_has_the_limits_of_its_drivers_and_no_cordon() -> None:
    records: list[Record] = [
        made.node(unschedulable=True),
        made.csi_node("node-1", limits={"disk.csi.example": 1}),
        made.storage_class("made", provisioner="disk.csi.example"),
    ]
    claims = [made.claim(f"c{number}", storage_class="made") for number in range(2)]
    pods = [made.pod(f"p{number}", claims=[f"c{number}"]) for number in range(2)]
    result, cluster = fill([*records, *claims], pods)
    assert result.added == {"node-1": 2}
    assert dict(cluster.state.view.nodes[1].labels)[made.HOSTNAME] == "node-1-more-1"


def test_a_volume_made_for_an_in_tree_class_counts_towards_the_limit_of_its_csi_driver() -> None:
    records: list[Record] = [
        made.node(),
        made.csi_node("node-1", limits={"ebs.csi.aws.com": 1}),
        made.storage_class("gp2", provisioner="kubernetes.io/aws-ebs"),
    ]
    claims = [made.claim(f"c{number}", storage_class="gp2") for number in range(3)]
    pods = [made.pod(f"p{number}", claims=[f"c{number}"]) for number in range(3)]
    assert fill([*records, *claims], pods)[0].added == {"node-1": 2}


@pytest.mark.parametrize(
    "poor",
    [
        pytest.param(
            made.csi_node("node-1", reports=[StorageCondition("disk.csi.example", STORAGE_UNREACHABLE)]), id="cut-off"
        ),
        pytest.param(made.csi_node("node-1", limits={"disk.csi.example": 0}), id="limit"),
    ],
)
def test_a_node_that_can_attach_nothing_is_not_the_one_to_copy(poor: Record) -> None:
    records: list[Record] = [
        made.node("node-1"),
        made.node("node-2"),
        poor,
        made.csi_node("node-2"),
        made.storage_class("made", provisioner="disk.csi.example"),
        made.claim("data", storage_class="made"),
        *(made.pod(f"full-{number}", node=f"node-{number}", requests={"cpu": "8"}) for number in (1, 2)),
    ]
    assert fill(records, waiting(1, claims=["data"]))[0].added == {"node-2": 1}


def test_without_pods_none_is_needed() -> None:
    assert fill([made.node()], [])[0] == NodesNeeded({}, 0, {})
