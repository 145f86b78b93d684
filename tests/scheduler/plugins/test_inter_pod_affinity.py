"""Cases one by one, and a slow count over all pods that must come to the same."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings

from binder.matching.rejection import Reason
from kube.objects import model
from kube.objects.constraints import NO_CONSTRAINTS, Constraints, PodTerm
from kube.objects.labels import LabelSelector
from kube.objects.model import Record
from kube.rules.selectors import matches_labels
from scheduler.plugins.inter_pod_affinity import InterPodAffinity
from tests import builders
from tests.scheduler import clusters
from tests.scheduler.plugin_results import allowed, reasons, view

WEB = LabelSelector((("app", "web"),))
NEAR = PodTerm(builders.ZONE, WEB)
NODES = [builders.node("a1", zone="a"), builders.node("a2", zone="a"), builders.node("b1", zone="b")]
HOMELESS = builders.node("x1", zone=None)
THERE = builders.pod("there", node="a1", labels={"app": "web"})
NEAR_ALL = Constraints(affinity=(NEAR,))
APART = Constraints(anti_affinity=(NEAR,))
BOTH = Constraints(affinity=(NEAR,), anti_affinity=(NEAR,))
LONELY = builders.pod("lonely", node="a1", constraints=APART)


@pytest.mark.parametrize(
    ("namespace", "constraints"),
    [
        pytest.param("elsewhere", BOTH, id="namespace"),
        pytest.param("default", APART, id="near-less"),
        pytest.param("default", NEAR_ALL, id="apart-less"),
    ],
)
def test_a_change_is_judged_once_for_pods_that_it_helps_alike_only(namespace: str, constraints: Constraints) -> None:
    hint = InterPodAffinity.queueing_hint
    pod, twin = (builders.pod(name, constraints=BOTH) for name in ("p", "q"))
    other = builders.pod("p", namespace=namespace, constraints=constraints)
    assert hint.shape_of(pod, None) == hint.shape_of(twin, None) != hint.shape_of(other, None)


@pytest.mark.parametrize(
    ("constraints", "labels", "there", "expected"),
    [
        pytest.param(NEAR_ALL, {}, [THERE], {"a1": None, "a2": None, "b1": "near", "x1": "near"}, id="near"),
        pytest.param(NEAR_ALL, {}, [], {"a1": "near", "a2": "near", "b1": "near", "x1": "near"}, id="near-no-pod"),
        pytest.param(
            NEAR_ALL, {"app": "web"}, [], {"a1": None, "a2": None, "b1": None, "x1": "near"}, id="first-of-a-series"
        ),
        pytest.param(
            NEAR_ALL, {"app": "web"}, [THERE], {"a1": None, "a2": None, "b1": "near", "x1": "near"}, id="not-the-first"
        ),
        pytest.param(APART, {}, [THERE], {"a1": "apart", "a2": "apart", "b1": None, "x1": None}, id="apart"),
        pytest.param(
            None, {"app": "web"}, [LONELY], {"a1": "kept", "a2": "kept", "b1": None, "x1": None}, id="kept-away"
        ),
        pytest.param(None, {}, [LONELY], {"a1": None, "a2": None, "b1": None, "x1": None}, id="not-meant"),
        pytest.param(
            Constraints(anti_affinity=(PodTerm(builders.ZONE),)),
            {},
            [THERE],
            {"a1": None, "a2": None, "b1": None, "x1": None},
            id="no-selector-means-no-pod",
        ),
        pytest.param(
            Constraints(anti_affinity=(PodTerm(builders.ZONE, WEB, ("elsewhere",)),)),
            {},
            [THERE],
            {"a1": None, "a2": None, "b1": None, "x1": None},
            id="other-namespace",
        ),
        pytest.param(
            Constraints(
                anti_affinity=(
                    PodTerm(
                        builders.ZONE,
                        WEB,
                        namespace_selector=LabelSelector((("kubernetes.io/metadata.name", "default"),)),
                    ),
                )
            ),
            {},
            [THERE],
            {"a1": "apart", "a2": "apart", "b1": None, "x1": None},
            id="namespace-by-its-name",
        ),
    ],
)
def test_a_case(
    constraints: Constraints | None, labels: dict[str, str], there: Sequence[Record], expected: dict[str, str | None]
) -> None:
    words = {
        "near": Reason.POD_AFFINITY_MISMATCH,
        "apart": Reason.POD_ANTI_AFFINITY,
        "kept": Reason.EXISTING_POD_ANTI_AFFINITY,
        None: None,
    }
    pod = builders.pod("new", labels=labels, constraints=constraints)
    result = reasons(InterPodAffinity(), pod, view(*NODES, HOMELESS, *there))
    assert result == {name: words[word] for name, word in expected.items()}


def means(term: PodTerm, owner: model.Pod, pod: model.Pod) -> bool:
    if term.selector is None or not matches_labels(term.selector, pod.labels):
        return False
    if term.namespace_selector is None and not term.namespaces:
        return pod.namespace == owner.namespace
    in_all = term.namespace_selector is not None  # the only one drawn is empty, which means all namespaces
    return in_all or pod.namespace in term.namespaces


def fits(pod: model.Pod, node: model.Node, nodes: dict[str, model.Node], there: list[model.Pod]) -> bool:
    """As filtering.go puts it, pod by pod."""
    here = dict(node.labels)

    def same(term: PodTerm, other: model.Pod) -> bool:
        place = dict(nodes[other.node_name].labels)
        return term.topology_key in here and place.get(term.topology_key) == here[term.topology_key]

    constraints = pod.constraints or NO_CONSTRAINTS
    for other in there:
        for term in other.constraints.anti_affinity if other.constraints else ():
            if means(term, other, pod) and same(term, other):
                return False
    if any(means(term, pod, other) and same(term, other) for term in constraints.anti_affinity for other in there):
        return False
    if any(term.topology_key not in here for term in constraints.affinity):
        return False
    meant = [other for other in there if all(means(term, pod, other) for term in constraints.affinity)]
    if all(any(same(term, other) for other in meant) for term in constraints.affinity):
        return True
    counted = [
        other
        for other in meant
        for term in constraints.affinity
        if term.topology_key in dict(nodes[other.node_name].labels)
    ]
    return not counted and all(means(term, pod, pod) for term in constraints.affinity)


@settings(deadline=None, max_examples=80)
@given(clusters.clusters(), clusters.pods("new"))
def test_counting_by_domains_equals_counting_every_pod(records: list[model.Node | model.Pod], pod: model.Pod) -> None:
    nodes = {record.name: record for record in records if isinstance(record, model.Node)}
    there = [record for record in records if isinstance(record, model.Pod)]
    plain = {name for name, node in nodes.items() if fits(pod, node, nodes, there)}
    assert allowed(InterPodAffinity(), pod, view(*records)) == plain
