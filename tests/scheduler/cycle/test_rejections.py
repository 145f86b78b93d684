"""What is found out about the nodes that reject a pod."""

from scheduler.cycle.cycle import Unschedulable, judge
from scheduler.cycle.rejections import Alike, rejected_by, rejections
from scheduler.framework.plugin import NodeRule
from scheduler.plugins.registry import default_profile
from scheduler.plugins.reservation import ReservedVolume
from scheduler.state.node_info import NodeInfo
from tests import builders
from tests.scheduler.plugin_results import view


def test_a_filter_is_not_called_for_nodes_that_another_filter_rejects() -> None:
    names: list[str] = []

    def why(state: NodeInfo) -> None:
        names.append(state.name)

    nodes = [builders.node("a1", zone="a"), builders.node("b1", zone="b")]
    cluster = view(*nodes, builders.storage_class(), builders.claim())
    judgement = judge(builders.pod("new", claims=["data"]), cluster, default_profile("p"))
    alike, rule = Alike(Unschedulable(judgement, cluster)), NodeRule(why, by_choice=True)
    left = 1 << cluster.nodes[1].number
    assert rejected_by(rule, left, alike) == 0
    assert list(rejections(ReservedVolume(), rule, left, alike)) == []
    assert names == [cluster.nodes[1].name] * 2
