"""What a pod requires of other pods, by the pods that are placed: required (anti-)affinity, spread, namespaces."""

from dataclasses import replace

import pytest

from kube.objects.constraints import Constraints, PodTerm, SpreadConstraint
from kube.objects.labels import LabelSelector, Requirement
from kube.objects.model import Node, Pod
from kube.pod_topology.inter_pod_affinity import Side, affinity_verdicts, near, rejecting_keys
from kube.pod_topology.placed_pods import NAMESPACE_NAME, domains, means
from kube.pod_topology.pod_groups import group_of
from kube.pod_topology.topology_spread import spread_verdicts
from scheduler.state.cluster import ClusterView
from tests.builders import ZONE, node, pod
from tests.scheduler.plugin_results import view

A1, A2, B1, KEYLESS = NODES = (node("a1", zone="a"), node("a2", zone="a"), node("b1", zone="b"), node("x1", zone=None))
WEB, DB = LabelSelector((("app", "web"),)), LabelSelector((("app", "db"),))
NEAR_WEB, NEAR_DB = PodTerm(ZONE, WEB), PodTerm(ZONE, DB)
SPREAD = Constraints(spread=(SpreadConstraint(1, ZONE, selector=WEB),))


def at(where: Node, app: str = "web", namespace: str = "default", constraints: Constraints | None = None) -> Pod:
    name = f"{app}-on-{where.name}"
    return pod(name, namespace=namespace, node=where.name, labels={"app": app}, constraints=constraints)


def new(app: str = "web", namespace: str = "default", constraints: Constraints | None = None) -> Pod:
    return pod("new", namespace=namespace, labels={"app": app}, constraints=constraints)


def named(bits: int) -> set[str]:
    return {each.name for number, each in enumerate(NODES) if bits >> number & 1}


def where_near(
    terms: tuple[PodTerm, ...], who: Pod, placed: ClusterView, certain: ClusterView | None = None
) -> set[str]:
    verdicts = near(who, terms, placed, certain)
    assert {each.side for each in verdicts} <= {Side.AFFINITY}
    return set.intersection(*(named(each.allowed) for each in verdicts))


def test_a_term_requires_a_selected_pod_in_the_node_s_domain() -> None:
    assert where_near((NEAR_WEB,), new("db"), view(*NODES, at(A1))) == {"a1", "a2"}
    assert where_near((NEAR_WEB,), new("db"), view(*NODES, at(A1, namespace="other"))) == set()
    assert near(new(), (), view(*NODES)) == []


def test_one_pod_has_to_be_selected_by_all_terms() -> None:
    term = PodTerm("kubernetes.io/hostname", WEB)
    assert where_near((NEAR_WEB, term), new("db"), view(*NODES, at(A1))) == {"a1"}
    assert where_near((NEAR_WEB, NEAR_DB), new("api"), view(*NODES, at(A1), at(A1, "db"))) == set()


def test_the_first_pod_of_a_series_may_go_wherever_the_key_is() -> None:
    assert where_near((NEAR_WEB,), new(), view(*NODES)) == {"a1", "a2", "b1"}
    assert where_near((NEAR_WEB,), new("db"), view(*NODES)) == set()
    assert where_near((NEAR_WEB,), new(), view(*NODES, at(A1))) == {"a1", "a2"}


def test_a_pod_whose_place_is_not_certain_satisfies_no_term_but_ends_the_exemption() -> None:
    nobody, certain = view(*NODES), view(*NODES, at(B1))
    perhaps = view(*NODES, at(A1), at(B1))
    assert where_near((NEAR_WEB,), new(), perhaps, certain) == {"b1"}
    assert where_near((NEAR_WEB,), new(), view(*NODES, at(A1)), nobody) == set()
    assert where_near((NEAR_WEB,), new(), nobody, nobody) == {"a1", "a2", "b1"}


def test_anti_affinity_holds_in_both_directions() -> None:
    apart = Constraints(anti_affinity=(NEAR_WEB,))
    own = affinity_verdicts(new("db", constraints=apart), view(*NODES, at(A1)))
    assert [(named(each.allowed), each.side) for each in own] == [({"b1", "x1"}, Side.ANTI_AFFINITY)]
    there = view(*NODES, at(B1, "db", constraints=apart), at(A1, "api"))
    theirs = affinity_verdicts(new(), there)
    assert [(named(each.allowed), each.side) for each in theirs] == [({"a1", "a2", "x1"}, Side.EXISTING_ANTI_AFFINITY)]
    assert rejecting_keys(new(), there) == {ZONE}
    assert affinity_verdicts(new("db"), there) == []
    assert rejecting_keys(new("db"), there) == frozenset()


def test_domains_have_all_their_nodes() -> None:
    cluster = view(*NODES)
    assert {value: named(bits) for value, bits in domains(cluster, ZONE, [0, 3]).items()} == {"a": {"a1", "a2"}}
    assert domains(cluster, "no-such-key", [0]) == {}


@pytest.mark.parametrize(
    ("term", "meant"),
    [
        pytest.param(PodTerm(ZONE, WEB), {"default"}, id="its own namespace"),
        pytest.param(PodTerm(ZONE, WEB, ("other",)), {"other"}, id="those that it names"),
        pytest.param(PodTerm(ZONE, WEB, (), LabelSelector()), {"default", "other", "third"}, id="all"),
        pytest.param(PodTerm(ZONE, WEB, (), LabelSelector((("team", "a"),))), {"other"}, id="by their labels"),
        pytest.param(
            PodTerm(ZONE, WEB, ("third",), LabelSelector((("team", "a"),))), {"other", "third"}, id="and by name"
        ),
        pytest.param(
            PodTerm(ZONE, WEB, (), LabelSelector((), (Requirement(NAMESPACE_NAME, "In", ("third",)),))),
            {"third"},
            id="by the label that every namespace has, although no labels are known",
        ),
        pytest.param(PodTerm(ZONE, DB), set(), id="no pod with other labels"),
        pytest.param(PodTerm(ZONE, None), set(), id="none without a selector"),
    ],
)
def test_which_namespaces_a_term_is_about(term: PodTerm, meant: set[str]) -> None:
    known = {"other": (("team", "a"),), "default": (("team", "b"),)}
    spaces = ("default", "other", "third")
    assert {space for space in spaces if means(term, "default", group_of(new("web", space)), known)} == meant


def spread_over(pods: list[Pod], certain: list[Pod] | None = None) -> set[str]:
    placed = view(*NODES, *pods)
    least = placed if certain is None else view(*NODES, *certain)
    (verdict,) = spread_verdicts(new(constraints=SPREAD), placed, None if certain is None else least)
    assert named(verdict.keyed) == {"a1", "a2", "b1"}
    return named(verdict.allowed)


def test_a_spread_counts_selected_pods_by_domain() -> None:
    assert spread_over([]) == {"a1", "a2", "b1"}
    assert spread_over([at(A1)]) == {"b1"}
    assert spread_over([at(A1), at(B1)]) == {"a1", "a2", "b1"}
    assert spread_over([at(A1, "db"), at(A2, namespace="other")]) == {"a1", "a2", "b1"}
    gone = replace_deleting(at(A1))
    assert spread_over([gone]) == {"a1", "a2", "b1"}


def replace_deleting(placed: Pod) -> Pod:
    return pod(placed.name, node=placed.node_name, labels=dict(placed.labels), deleting=True)


def test_the_minimum_is_over_pods_whose_place_is_certain() -> None:
    assert spread_over([at(A1), at(B1)], certain=[at(A1)]) == set()
    assert spread_over([at(A1), at(B1)], certain=[at(A1), at(B1)]) == {"a1", "a2", "b1"}


def test_the_skew_of_a_domain_counts_the_pod_itself() -> None:
    (verdict,) = spread_verdicts(new(constraints=SPREAD), view(*NODES, at(A1), at(A2)))
    assert (verdict.skew("a"), verdict.skew("b"), verdict.fewest, verdict.itself) == (3, 1, 0, 1)


def test_known_labels_of_namespaces_decide_about_placed_pods() -> None:
    term = PodTerm(ZONE, WEB, (), LabelSelector((("team", "a"),)))
    there = replace(
        view(*NODES, at(A1, namespace="other"), at(B1, namespace="third")), namespaces={"other": (("team", "a"),)}
    )
    assert where_near((term,), new("db"), there) == {"a1", "a2"}
