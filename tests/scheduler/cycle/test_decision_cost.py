"""What a namespace user writes decides whether a decision is made on the event loop."""

import pytest

from kube.objects.constraints import Constraints, PodTerm
from kube.objects.labels import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from kube.objects.model import Pod, Toleration
from scheduler.cycle.decision_cost import MAX_CONSTRAINING_GROUPS, is_short
from tests import builders
from tests.scheduler.plugin_results import view

HOST = "kubernetes.io/hostname"
NODES = [builders.node(f"n{number}") for number in range(100)]
PLACED = [builders.pod(f"p{number}", node="n1", labels={"app": f"app-{number}"}) for number in range(2000)]


def term(values: int = 1) -> PodTerm:
    selector = LabelSelector((), (Requirement("app", "NotIn", tuple(f"app-{number}" for number in range(values))),))
    return PodTerm(topology_key=HOST, selector=selector)


def on_nodes(terms: int) -> NodeSelector:
    return NodeSelector(
        tuple(NodeSelectorTerm((Requirement("disk", "NotIn", (f"v{number}",)),)) for number in range(terms))
    )


@pytest.mark.parametrize(
    ("pod", "short"),
    [
        pytest.param(builders.pod("web", labels={"app": "web"}), True, id="plain"),
        pytest.param(builders.pod("web", node_affinity=on_nodes(3)), True, id="some-node-affinity"),
        pytest.param(builders.pod("web", constraints=Constraints(anti_affinity=(term(),))), True, id="one-term"),
        pytest.param(builders.pod("web", claims=["data"]), False, id="claims"),
        pytest.param(builders.pod("web", constraints=Constraints(anti_affinity=(term(),) * 64)), False, id="64-terms"),
        pytest.param(builders.pod("web", constraints=Constraints(affinity=(term(1000),))), False, id="1000-values"),
        pytest.param(builders.pod("web", node_affinity=on_nodes(2000)), False, id="2000-terms-about-nodes"),
        pytest.param(
            builders.pod("web", tolerations=[Toleration(f"k{number}", "Exists", "", "") for number in range(5000)]),
            False,
            id="5000-tolerations",
        ),
        pytest.param(
            builders.pod("web", requests={f"example.com/r{number}": "1" for number in range(2000)}),
            False,
            id="2000-resources",
        ),
    ],
)
def test_large_pods_are_not_short(pod: Pod, short: bool) -> None:
    assert is_short(pod, view(*NODES, *PLACED)) is short


def test_how_much_running_pods_demand_of_newcomers_counts() -> None:
    keeping = [
        builders.pod(f"p{number}", node="n1", constraints=Constraints(anti_affinity=(term(1 + number),) * 20))
        for number in range(100)
    ]
    assert is_short(builders.pod("web"), view(*NODES, *keeping[:20]))
    assert not is_short(builders.pod("web"), view(*NODES, *keeping))


def test_what_running_pods_demand_of_newcomers_counts() -> None:
    keeping = [
        builders.pod(
            f"p{number}",
            node="n1",
            constraints=Constraints(anti_affinity=(PodTerm(HOST, LabelSelector((("app", f"{number}"),))),)),
        )
        for number in range(MAX_CONSTRAINING_GROUPS + 1)
    ]
    assert is_short(builders.pod("web"), view(*NODES, *keeping[1:]))
    assert not is_short(builders.pod("web"), view(*NODES, *keeping))
