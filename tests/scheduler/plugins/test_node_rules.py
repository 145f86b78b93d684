import pytest
from hypothesis import given, settings

from binder.matching.rejection import Reason
from kube.objects import model
from kube.objects.labels import NodeSelector, NodeSelectorTerm, Requirement
from kube.objects.model import Taint, Toleration
from scheduler.framework.plugin import Filter
from scheduler.framework.profile import AddedAffinity, Thresholds
from scheduler.plugins.node_rules import EnforcedNodeAffinity, NodeAffinity, TaintToleration
from tests import builders
from tests.scheduler import clusters
from tests.scheduler.plugin_results import allowed, reasons, view

GPU = Taint("gpu", "NoSchedule", "yes")
NOT_READY = Taint("node.kubernetes.io/not-ready", "NoSchedule")


@pytest.mark.parametrize(
    ("plugin", "node", "pod", "reason"),
    [
        pytest.param(
            TaintToleration(),
            builders.node(taints=[NOT_READY]),
            builders.pod(),
            Reason.TAINT_NOT_TOLERATED,
            id="not-ready",
        ),
        pytest.param(
            TaintToleration(),
            builders.node(taints=[NOT_READY]),
            builders.pod(tolerations=[Toleration(NOT_READY.key, "Exists", effect="NoSchedule")]),
            None,
            id="not-ready-and-tolerated",
        ),
        pytest.param(
            TaintToleration(), builders.node(taints=[GPU]), builders.pod(), Reason.TAINT_NOT_TOLERATED, id="taint"
        ),
        pytest.param(
            TaintToleration(),
            builders.node(taints=[GPU]),
            builders.pod(tolerations=[Toleration("gpu", "Exists")]),
            None,
            id="tolerated",
        ),
        pytest.param(
            TaintToleration(),
            builders.node(unschedulable=True),
            builders.pod(),
            Reason.NODE_UNSCHEDULABLE,
            id="cordon",
        ),
        pytest.param(
            TaintToleration(),
            builders.node(taints=[Taint("gpu", "PreferNoSchedule")]),
            builders.pod(),
            None,
            id="only-a-wish",
        ),
        pytest.param(
            NodeAffinity(),
            builders.node(zone="a"),
            builders.pod(node_selector={builders.ZONE: "b"}),
            Reason.NODE_SELECTOR_MISMATCH,
            id="selector",
        ),
        pytest.param(
            NodeAffinity(),
            builders.node(labels={"cores": "16"}),
            builders.pod(
                node_affinity=NodeSelector((NodeSelectorTerm((Requirement("cores", "Gt", ("8",)),)),)),
            ),
            None,
            id="affinity",
        ),
    ],
)
def test_a_rule(plugin: Filter, node: model.Node, pod: model.Pod, reason: Reason | None) -> None:
    assert reasons(plugin, pod, view(node)) == {"node-1": reason}


SSD = NodeSelector((NodeSelectorTerm((Requirement("disk", "In", ("ssd",)),)),))


def test_what_the_profile_requires_of_nodes_holds_for_every_pod() -> None:
    plugin = EnforcedNodeAffinity(Thresholds(added_affinity=AddedAffinity(required=SSD)))
    nodes = view(builders.node("n1", labels={"disk": "ssd"}), builders.node("n2", labels={"disk": "hdd"}))
    wants_other = builders.pod(node_selector={"disk": "hdd"})
    for pod in (builders.pod(), wants_other):
        assert reasons(plugin, pod, nodes) == {"n1": None, "n2": Reason.ENFORCED_NODE_AFFINITY}
    assert reasons(EnforcedNodeAffinity(Thresholds()), wants_other, nodes) == {"n1": None, "n2": None}


@settings(deadline=None, max_examples=60)
@given(clusters.nodes(), clusters.pods("new"))
@pytest.mark.parametrize(
    "plugin",
    [TaintToleration(), NodeAffinity(), EnforcedNodeAffinity(Thresholds(added_affinity=AddedAffinity(required=SSD)))],
    ids=lambda record: record.name,
)
def test_the_sets_agree_with_the_reasons(plugin: Filter, nodes: list[model.Node], pod: model.Pod) -> None:
    allowed(plugin, pod, view(*nodes))
