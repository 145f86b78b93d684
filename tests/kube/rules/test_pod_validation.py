import pytest
from hypothesis import given

from kube.objects import model
from kube.objects.constraints import (
    Constraints,
    HostPort,
    PodTerm,
    PreferredNodes,
    SpreadConstraint,
    WeightedPodTerm,
)
from kube.objects.labels import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from kube.objects.model import Toleration
from kube.rules.pod_validation import problems
from tests import builders
from tests.scheduler import clusters

NODES = "spec.affinity.nodeAffinity"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERM = PodTerm("zone", LabelSelector((("app", "web"),)))


def tolerating(*args: str) -> model.Pod:
    return builders.pod(tolerations=[Toleration(*args)])


def saying(**constraints: object) -> model.Pod:
    return builders.pod(constraints=Constraints(**constraints))  # type: ignore[arg-type]


def spreading(*spread: SpreadConstraint) -> model.Pod:
    return saying(spread=spread)


@pytest.mark.parametrize(
    ("pod", "path"),
    [
        pytest.param(tolerating("a", "Like"), "spec.tolerations[0].operator", id="toleration-operator"),
        pytest.param(tolerating("a", "Exists", "", "Maybe"), "spec.tolerations[0].effect", id="toleration-effect"),
        pytest.param(tolerating("a", "Exists", "b"), "spec.tolerations[0].value", id="exists-with-a-value"),
        pytest.param(tolerating("", "Equal", "b"), "spec.tolerations[0].operator", id="no-key-to-equal"),
        pytest.param(tolerating("a b"), "spec.tolerations[0].key", id="toleration-key"),
        pytest.param(
            builders.pod(node_affinity=NodeSelector((NodeSelectorTerm((Requirement("a", "Near"),)),))),
            f"{NODES}.{REQUIRED}.nodeSelectorTerms[0]",
            id="node-operator",
        ),
        pytest.param(
            builders.pod(node_affinity=NodeSelector()), f"{NODES}.{REQUIRED}.nodeSelectorTerms", id="no-node-term"
        ),
        pytest.param(
            saying(preferred_nodes=(PreferredNodes(0, NodeSelectorTerm()),)),
            f"{NODES}.{PREFERRED}[0].weight",
            id="node-weight",
        ),
        pytest.param(
            saying(affinity=(TERM, PodTerm(""))), f"spec.affinity.podAffinity.{REQUIRED}[1].topologyKey", id="no-key"
        ),
        pytest.param(
            saying(preferred_anti_affinity=(WeightedPodTerm(101, TERM),)),
            f"spec.affinity.podAntiAffinity.{PREFERRED}[0].weight",
            id="pod-weight",
        ),
        pytest.param(
            saying(anti_affinity=(PodTerm("zone", LabelSelector((), (Requirement("a", "Gt", ("1",)),))),)),
            f"spec.affinity.podAntiAffinity.{REQUIRED}[0].labelSelector",
            id="label-selector-operator",
        ),
        pytest.param(spreading(SpreadConstraint(0, "zone")), "spec.topologySpreadConstraints[0].maxSkew", id="skew"),
        pytest.param(
            spreading(SpreadConstraint(1, "zone", "Never")),
            "spec.topologySpreadConstraints[0].whenUnsatisfiable",
            id="spread-action",
        ),
        pytest.param(
            spreading(SpreadConstraint(1, "zone", min_domains=0)),
            "spec.topologySpreadConstraints[0].minDomains",
            id="domains",
        ),
        pytest.param(
            spreading(SpreadConstraint(1, "zone", node_taints_policy="Maybe")),
            "spec.topologySpreadConstraints[0].nodeTaintsPolicy",
            id="policy",
        ),
        pytest.param(
            spreading(SpreadConstraint(1, "zone"), SpreadConstraint(2, "zone")),
            "spec.topologySpreadConstraints[1]",
            id="said-twice",
        ),
        pytest.param(saying(ports=(HostPort(70000),)), "spec.containers[*].ports[*].hostPort", id="port"),
    ],
)
def test_a_problem_names_its_place(pod: model.Pod, path: str) -> None:
    assert [problem.path for problem in problems(pod)] == [path]


def test_the_words() -> None:
    complaints = [
        *problems(tolerating("a", "Like")),
        *problems(spreading(SpreadConstraint(1, ""), SpreadConstraint(1, "a b"))),
    ]
    assert list(map(str, complaints)) == [
        'spec.tolerations[0].operator: expected one of Exists, Equal, found "Like"',
        "spec.topologySpreadConstraints[0].topologyKey: expected a label key, found nothing",
        'spec.topologySpreadConstraints[1].topologyKey: expected a label key, found "a b"',
    ]


def test_a_good_pod_has_none() -> None:
    pod = builders.pod(
        tolerations=[Toleration("gpu", "Exists"), Toleration(operator="Exists")],
        constraints=Constraints(affinity=(TERM,), spread=(SpreadConstraint(1, "zone"),), ports=(HostPort(80),)),
    )
    assert problems(pod) == ()


@given(clusters.pods("any"))
def test_any_pod_can_be_looked_at(pod: model.Pod) -> None:
    assert all(problem.path.startswith("spec.") for problem in problems(pod))
