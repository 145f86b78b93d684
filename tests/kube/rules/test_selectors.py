"""Cases follow apimachinery labels.NewRequirement/Matches and component-helpers nodeaffinity."""

import pytest

from kube.objects.labels import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from kube.rules.selectors import matches_labels, node_matches, pod_node_affinity_matches, problem_of

LABELS = {"zone": "a", "gen": "7", "empty": "", "disk.example/kind": "ssd"}
IN_ZONE_A = Requirement("zone", "In", ("a", "b"))
GEN_AFTER_5 = Requirement("gen", "Gt", ("5",))
BAD_OPERATOR = Requirement("zone", "Near", ("a",))


def selector(*expressions: Requirement, **match_labels: str) -> LabelSelector:
    return LabelSelector(tuple(sorted(match_labels.items())), expressions)


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        pytest.param(None, True, id="none-matches-all"),
        pytest.param(selector(), True, id="empty-matches-all"),
        pytest.param(selector(zone="a"), True, id="match-labels"),
        pytest.param(selector(zone="b"), False, id="match-labels-other-value"),
        pytest.param(selector(empty=""), True, id="match-labels-empty-value"),
        pytest.param(selector(absent=""), False, id="empty-value-is-not-absence"),
        pytest.param(selector(zone="a", gen="8"), False, id="match-labels-are-anded"),
        pytest.param(selector(IN_ZONE_A), True, id="in"),
        pytest.param(selector(Requirement("zone", "In", ("b",))), False, id="in-other"),
        pytest.param(selector(Requirement("absent", "In", ("a",))), False, id="in-absent-key"),
        pytest.param(selector(Requirement("zone", "NotIn", ("b",))), True, id="not-in"),
        pytest.param(selector(Requirement("zone", "NotIn", ("a",))), False, id="not-in-own-value"),
        pytest.param(selector(Requirement("absent", "NotIn", ("a",))), True, id="not-in-absent-key"),
        pytest.param(selector(Requirement("empty", "Exists")), True, id="exists"),
        pytest.param(selector(Requirement("absent", "Exists")), False, id="exists-absent"),
        pytest.param(selector(Requirement("absent", "DoesNotExist")), True, id="does-not-exist"),
        pytest.param(selector(Requirement("zone", "DoesNotExist")), False, id="does-not-exist-present"),
        pytest.param(selector(IN_ZONE_A, Requirement("gen", "In", ("8",))), False, id="expressions-are-anded"),
        pytest.param(selector(IN_ZONE_A, gen="8"), False, id="labels-and-expressions-are-anded"),
        pytest.param(selector(Requirement("disk.example/kind", "In", ("ssd",))), True, id="prefixed-key"),
        pytest.param(selector(GEN_AFTER_5), False, id="gt-is-for-nodes-only"),
        pytest.param(selector(BAD_OPERATOR), False, id="unknown-operator"),
    ],
)
def test_label_selector(selector: LabelSelector | None, matches: bool) -> None:
    assert matches_labels(selector, LABELS) is matches
    assert matches_labels(selector, tuple(sorted(LABELS.items()))) is matches


@pytest.mark.parametrize(
    ("requirement", "problem"),
    [
        (Requirement("zone", "In"), "In of 'zone' has no values"),
        (Requirement("zone", "NotIn"), "NotIn of 'zone' has no values"),
        (Requirement("zone", "Exists", ("a",)), "Exists of 'zone' has values: expected none"),
        (Requirement("zone", "in", ("a",)), "'in' is not an operator: expected one of DoesNotExist, Exists, In, NotIn"),
        (Requirement("", "Exists"), "'' is not a label key"),
        (Requirement("a b", "Exists"), "'a b' is not a label key"),
        (Requirement("UPPER.example/a", "Exists"), "'UPPER.example/a' is not a label key"),
        (Requirement("/a", "Exists"), "'/a' is not a label key"),
        (Requirement("a/b/c", "Exists"), "'a/b/c' is not a label key"),
        (Requirement("x" * 64, "Exists"), f"'{'x' * 64}' is not a label key"),
        (Requirement("p" * 254 + "/a", "Exists"), f"'{'p' * 254}/a' is not a label key"),
        (Requirement("p" * 253 + "/a", "Exists"), None),
        (Requirement("zone", "In", ("a b",)), "'a b' is not a label value"),
        (Requirement("zone", "In", ("a", "-b")), "'-b' is not a label value"),
        (Requirement("zone", "In", ("",)), None),
        (Requirement("x" * 63, "Exists"), None),
    ],
)
def test_says_why_a_selector_is_malformed(requirement: Requirement, problem: str | None) -> None:
    assert problem_of(selector(requirement)) == problem


def test_a_malformed_label_in_match_labels_matches_nothing() -> None:
    assert not matches_labels(selector(zone="not a value"), {"zone": "not a value"})


def node_selector(*terms: NodeSelectorTerm | Requirement) -> NodeSelector:
    return NodeSelector(
        tuple(term if isinstance(term, NodeSelectorTerm) else NodeSelectorTerm((term,)) for term in terms)
    )


def fields(operator: str, *values: str, key: str = "metadata.name") -> NodeSelectorTerm:
    return NodeSelectorTerm(match_fields=(Requirement(key, operator, values),))


NODE_CASES = [
    pytest.param(None, True, id="none-matches-all"),
    pytest.param(node_selector(), False, id="no-terms"),
    pytest.param(node_selector(NodeSelectorTerm()), False, id="empty-term"),
    pytest.param(node_selector(NodeSelectorTerm(), IN_ZONE_A), True, id="empty-term-beside-another"),
    pytest.param(node_selector(IN_ZONE_A), True, id="in"),
    pytest.param(node_selector(Requirement("zone", "In", ("c",)), IN_ZONE_A), True, id="terms-are-ored"),
    pytest.param(
        node_selector(NodeSelectorTerm((IN_ZONE_A, Requirement("gen", "In", ("8",))))),
        False,
        id="requirements-are-anded",
    ),
    pytest.param(node_selector(Requirement("absent", "NotIn", ("a",))), True, id="not-in-absent-key"),
    pytest.param(node_selector(GEN_AFTER_5), True, id="gt"),
    pytest.param(node_selector(Requirement("gen", "Gt", ("7",))), False, id="gt-is-strict"),
    pytest.param(node_selector(Requirement("gen", "Lt", ("8",))), True, id="lt"),
    pytest.param(node_selector(Requirement("gen", "Lt", ("7",))), False, id="lt-is-strict"),
    pytest.param(node_selector(Requirement("gen", "Lt", ("-8",))), False, id="negative-is-no-label-value"),
    pytest.param(node_selector(Requirement("gen", "Gt", ("6".rjust(63, "0"),))), True, id="gt-leading-zeros"),
    pytest.param(node_selector(Requirement("zone", "Gt", ("5",))), False, id="gt-label-is-no-number"),
    pytest.param(node_selector(Requirement("absent", "Lt", ("5",))), False, id="lt-absent-key"),
    pytest.param(node_selector(Requirement("gen", "Gt", ("5", "6"))), False, id="gt-two-values"),
    pytest.param(node_selector(Requirement("gen", "Gt", ("five",))), False, id="gt-no-number"),
    pytest.param(node_selector(Requirement("gen", "Gt", (str(2**63),))), False, id="gt-beyond-64-bits"),
    pytest.param(node_selector(BAD_OPERATOR), False, id="malformed-alone"),
    pytest.param(node_selector(BAD_OPERATOR, IN_ZONE_A), True, id="malformed-fails-only-itself"),
    pytest.param(
        node_selector(NodeSelectorTerm((IN_ZONE_A, BAD_OPERATOR))), False, id="malformed-requirement-fails-term"
    ),
    pytest.param(node_selector(Requirement("zone", "In")), False, id="in-without-values"),
    pytest.param(node_selector(fields("Exists")), False, id="fields-unknown-operator"),
    pytest.param(node_selector(fields("In", "n1", "n2")), False, id="fields-two-values"),
    pytest.param(
        node_selector(NodeSelectorTerm((IN_ZONE_A,), (Requirement("metadata.name", "In"),))),
        False,
        id="fields-malformed",
    ),
]


@pytest.mark.parametrize(("selector", "matches"), NODE_CASES)
def test_node_selector(selector: NodeSelector | None, matches: bool) -> None:
    assert node_matches(selector, LABELS) is matches
    assert pod_node_affinity_matches(selector, LABELS, "n1") is matches


@pytest.mark.parametrize(
    ("term", "for_pod"),
    [
        pytest.param(fields("In", "n1"), True, id="name"),
        pytest.param(fields("In", "n2"), False, id="other-name"),
        pytest.param(fields("NotIn", "n1"), False, id="not-this-name"),
        pytest.param(fields("NotIn", "n2"), True, id="not-other-name"),
        pytest.param(fields("In", "n1", key="spec.x"), False, id="unknown-field"),
        pytest.param(fields("NotIn", "n1", key="spec.x"), True, id="unknown-field-not-in"),
    ],
)
def test_match_fields_are_enforced_for_pods_and_ignored_for_volumes(term: NodeSelectorTerm, for_pod: bool) -> None:
    assert node_matches(node_selector(term), LABELS)
    assert pod_node_affinity_matches(node_selector(term), LABELS, "n1") is for_pod
