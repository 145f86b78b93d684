"""Who may mean a pod is found by its namespace and labels, and no group that means it is missed."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kube.objects.constraints import Constraints, PodTerm, WeightedPodTerm
from kube.objects.labels import LabelSelector, Requirement
from kube.objects.model import Pod
from kube.pod_topology.placed_pods import groups_meant, means
from kube.pod_topology.pod_groups import PodGroup, PodGroups, group_of
from tests import builders
from tests.scheduler.plugin_results import view

_NAMESPACES = ("default", "other", "third")
_LABELS = st.dictionaries(st.sampled_from(("app", "tier")), st.sampled_from("ab"))
_EXPRESSIONS = st.sampled_from(
    (
        Requirement("app", "In", ("a", "b")),
        Requirement("app", "NotIn", ("a",)),
        Requirement("tier", "Exists"),
        Requirement("tier", "In", tuple(f"v{number}" for number in range(20))),
    )
)
_SELECTORS = st.none() | st.builds(
    LabelSelector,
    _LABELS.map(lambda labels: tuple(sorted(labels.items()))),
    st.lists(_EXPRESSIONS, max_size=2).map(tuple),
)
_TERMS = st.builds(
    PodTerm,
    st.just("zone"),
    _SELECTORS,
    st.lists(st.sampled_from(_NAMESPACES), max_size=2, unique=True).map(tuple),
    st.none() | st.just(LabelSelector()),
)


@st.composite
def constraints(draw: st.DrawFn) -> Constraints | None:
    terms = tuple(draw(st.lists(_TERMS, max_size=2)))
    if not terms:
        return None
    wishes = tuple(WeightedPodTerm(1, term) for term in terms)
    possible = (Constraints(anti_affinity=terms), Constraints(affinity=terms), Constraints(preferred_affinity=wishes))
    return draw(st.sampled_from(possible))


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    name, namespace = f"p{draw(st.integers(0, 5))}", draw(st.sampled_from(_NAMESPACES))
    return builders.pod(name, namespace=namespace, labels=draw(_LABELS), constraints=draw(constraints()))


def terms_of(group: PodGroup) -> list[PodTerm]:
    constraints = group.constraints or Constraints()
    return [*constraints.affinity, *constraints.anti_affinity, *(wish.term for wish in constraints.preferred_affinity)]


@settings(max_examples=300, deadline=None)
@given(st.lists(pods(), max_size=8), st.lists(st.integers(0, 7)), pods())
def test_every_pod_with_a_term_about_a_pod_is_a_candidate(placed: list[Pod], gone: list[int], new: Pod) -> None:
    groups = PodGroups()
    for number, pod in enumerate(placed):
        groups = groups.with_pod(pod, number)
    left = dict(enumerate(placed))
    for number in gone:
        if number in left:
            groups = groups.without_pod(left.pop(number), number)
    assert groups == PodGroups.of((pod, number) for number, pod in left.items())
    itself = group_of(new)
    outspoken = [group for group, _ in groups.outspoken_about(itself)]
    assert len(outspoken) == len(set(outspoken))
    meaning = {
        group for group in groups.outspoken if any(means(term, group.namespace, itself, {}) for term in terms_of(group))
    }
    assert meaning <= set(outspoken)


def test_pods_with_terms_about_other_labels_or_namespaces_are_no_candidates() -> None:
    def apart_from(app: str, namespace: str) -> Pod:
        term = PodTerm("zone", LabelSelector((("app", app),)))
        return builders.pod(
            app, namespace=namespace, labels={"app": app}, constraints=Constraints(anti_affinity=(term,))
        )

    placed = [apart_from(f"app-{number}", namespace) for number in range(50) for namespace in ("default", "other")]
    groups = PodGroups.of((pod, number) for number, pod in enumerate(placed))
    outspoken = groups.outspoken_about(group_of(builders.pod("new", labels={"app": "app-7"})))
    assert [(group.namespace, dict(places)) for group, places in outspoken] == [("default", {14: 1})]


@settings(max_examples=200, deadline=None)
@given(st.lists(pods(), max_size=8), _TERMS, st.sampled_from(_NAMESPACES))
def test_a_term_selects_the_groups_that_a_search_of_all_finds(placed: list[Pod], term: PodTerm, owner: str) -> None:
    groups = PodGroups.of((pod, number) for number, pod in enumerate(placed))
    cluster = replace(view(), pod_groups=groups)
    every = [group for known in groups.groups.values() for group in known]
    expected = {group for group in every if means(term, owner, group, cluster.namespaces)}
    meant = [group for group, _ in groups_meant(term, owner, cluster)]
    assert len(meant) == len(set(meant))
    assert set(meant) == expected
