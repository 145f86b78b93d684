"""Random small clusters: a small vocabulary, so that selectors, taints and domains match."""

from hypothesis import strategies as st

from kube.objects import model
from kube.objects.constraints import (
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    Constraints,
    PodTerm,
    PreferredNodes,
    SpreadConstraint,
    WeightedPodTerm,
)
from kube.objects.labels import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from kube.objects.model import Taint, Toleration
from tests import builders

KEYS = ("zone", "disk", "rank")
VALUES = ("a", "b", "1", "2", "")
NAMESPACES = ("default", "other")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")

keys, values = st.sampled_from(KEYS), st.sampled_from(VALUES)
labels = st.dictionaries(keys, values, max_size=3)
taints = st.builds(Taint, keys, st.sampled_from(EFFECTS), values)
tolerations = st.builds(
    Toleration,
    st.sampled_from((*KEYS, "")),
    st.sampled_from(("Exists", "Equal", "Gt")),
    values,
    st.sampled_from((*EFFECTS, "")),
)
operators = st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near"))
requirements = st.builds(Requirement, keys, operators, st.lists(values, max_size=2).map(tuple))
fields = st.builds(
    Requirement,
    st.sampled_from(("metadata.name", "spec.nodeName")),
    st.sampled_from(("In", "NotIn", "Exists")),
    st.lists(st.sampled_from(("n0", "n1", "")), min_size=1, max_size=2).map(tuple),
)
terms = st.builds(
    NodeSelectorTerm, st.lists(requirements, max_size=2).map(tuple), st.lists(fields, max_size=1).map(tuple)
)
node_selectors = st.builds(NodeSelector, st.lists(terms, max_size=2).map(tuple))
apps = st.dictionaries(st.just("app"), st.sampled_from(("web", "db")), max_size=1)
selectors = st.one_of(
    st.none(),
    st.builds(LabelSelector, apps.map(builders.pairs)),
    st.just(LabelSelector((), (Requirement("app", "NotIn", ("web",)),))),
)
pod_terms = st.builds(
    PodTerm,
    st.sampled_from(("zone", "disk", builders.HOSTNAME)),
    selectors,
    st.lists(st.sampled_from(NAMESPACES), max_size=1).map(tuple),
    st.one_of(st.none(), st.none(), st.just(LabelSelector())),
)
weighted = st.builds(WeightedPodTerm, st.integers(1, 100), pod_terms)
spreads = st.builds(
    SpreadConstraint,
    st.integers(1, 2),
    st.sampled_from(("zone", "disk", builders.HOSTNAME)),
    st.sampled_from((DO_NOT_SCHEDULE, SCHEDULE_ANYWAY)),
    selectors,
    st.integers(1, 3),
    st.sampled_from(("Honor", "Ignore")),
    st.sampled_from(("Honor", "Ignore")),
    st.sampled_from(((), ("app",))),
)


def some(strategy: st.SearchStrategy[object], most: int = 2) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(strategy, max_size=most).map(tuple)


constraints = st.builds(
    Constraints,
    preferred_nodes=some(st.builds(PreferredNodes, st.integers(1, 100), terms)),
    affinity=some(pod_terms),
    anti_affinity=some(pod_terms),
    preferred_affinity=some(weighted),
    preferred_anti_affinity=some(weighted),
    spread=some(spreads),
)


@st.composite
def nodes(draw: st.DrawFn, most: int = 6) -> list[model.Node]:
    count = draw(st.integers(1, most))
    return [
        builders.node(
            f"n{number}",
            zone=None,
            labels=draw(labels),
            taints=draw(st.lists(taints, max_size=2)),
            unschedulable=draw(st.sampled_from((False, False, True))),
        )
        for number in range(count)
    ]


@st.composite
def pods(draw: st.DrawFn, name: str, node: str = "") -> model.Pod:
    return builders.pod(
        name,
        namespace=draw(st.sampled_from(NAMESPACES)),
        node=node,
        labels=draw(apps),
        deleting=draw(st.sampled_from((False, False, True))),
        node_selector=draw(st.sampled_from(({}, {}, {"zone": "a"}))),
        node_affinity=draw(st.one_of(st.none(), node_selectors)),
        tolerations=draw(st.lists(tolerations, max_size=2)),
        constraints=draw(st.one_of(st.none(), constraints)),
    )


@st.composite
def clusters(draw: st.DrawFn) -> list[model.Node | model.Pod]:
    """Nodes and pods on them."""
    drawn = draw(nodes())
    placed = [
        draw(pods(f"p{number}", draw(st.sampled_from([node.name for node in drawn]))))
        for number in range(draw(st.integers(0, 8)))
    ]
    return [*drawn, *placed]
