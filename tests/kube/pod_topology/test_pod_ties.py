"""What pods require of others, as numbered ties, and which of them select a pod."""

import pytest

from kube.objects.constraints import Constraints, PodTerm, SpreadConstraint
from kube.objects.labels import LabelSelector, Requirement
from kube.pod_topology.placed_pods import NAMESPACE_NAME
from kube.pod_topology.pod_ties import Tie, TieKind, Ties, asks_for_namespace_labels, numbers_in, ties_of
from tests.builders import ZONE, pod

WEB, DB = LabelSelector((("app", "web"),)), LabelSelector((("app", "db"),))
SPREAD = SpreadConstraint(1, ZONE, selector=WEB, match_label_keys=("hash",))
NAMED = PodTerm(ZONE, WEB, (), LabelSelector((), (Requirement(NAMESPACE_NAME, "Exists"),)))
BY_TEAM = PodTerm(ZONE, WEB, (), LabelSelector((("team", "a"),)))


def test_every_requirement_is_a_tie_of_its_kind() -> None:
    constraints = Constraints(affinity=(PodTerm(ZONE, WEB),), anti_affinity=(PodTerm(ZONE, DB),), spread=(SPREAD,))
    ties = ties_of(pod("a", namespace="shop", labels={"hash": "1"}, constraints=constraints))
    own = LabelSelector((("app", "web"), ("hash", "1")))
    assert ties == (
        Tie(TieKind.APART, "shop", PodTerm(ZONE, DB)),
        Tie(TieKind.NEAR, "shop", PodTerm(ZONE, WEB)),
        Tie(TieKind.SPREAD, "shop", PodTerm(ZONE, own, ("shop",))),
    )
    assert {tie.key for tie in ties} == {ZONE}
    assert ties_of(pod("b")) == ()


def test_ties_are_numbered_once_and_found_by_kind() -> None:
    ties = Ties()
    apart, near = Tie(TieKind.APART, "shop", PodTerm(ZONE, DB)), Tie(TieKind.NEAR, "shop", PodTerm(ZONE, WEB))
    assert [ties.add([apart]), ties.add([near, apart]), ties.add([])] == [0b01, 0b11, 0]
    assert ties.of_kind == {TieKind.APART: 0b01, TieKind.NEAR: 0b10, TieKind.SPREAD: 0}
    assert ties.numbered == [apart, near]


def test_a_tie_selects_pods_of_its_namespaces_only() -> None:
    ties = Ties()
    own, named, everywhere = (
        Tie(TieKind.NEAR, "shop", PodTerm(ZONE, WEB)),
        Tie(TieKind.NEAR, "shop", PodTerm(ZONE, WEB, ("other",))),
        Tie(TieKind.APART, "shop", PodTerm(ZONE, WEB, (), LabelSelector())),
    )
    ties.add([own, named, everywhere])
    meant = [
        list(numbers_in(ties.meaning(pod("x", namespace=space, labels={"app": "web"}))))
        for space in ("shop", "other", "third")
    ]
    assert meant == [[0, 2], [1, 2], [2]]
    assert ties.meaning(pod("x", namespace="shop", labels={"app": "db"})) == 0
    again = pod("y", namespace="shop", labels={"app": "web"})
    assert list(numbers_in(ties.meaning(again))) == [0, 2]


@pytest.mark.parametrize(("term", "asks"), [(PodTerm(ZONE, WEB), False), (NAMED, False), (BY_TEAM, True)])
def test_a_selector_on_unknown_labels_counts_as_selecting_all_namespaces(term: PodTerm, asks: bool) -> None:
    for constraints in (Constraints(affinity=(term,)), Constraints(anti_affinity=(term,))):
        assert asks_for_namespace_labels(constraints) is asks
        (tie,) = ties_of(pod("a", constraints=constraints))
        assert tie.term.namespace_selector == (LabelSelector() if asks else term.namespace_selector)
    assert not asks_for_namespace_labels(None)
