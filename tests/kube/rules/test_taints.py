import pytest

from kube.objects.model import Taint, Toleration
from kube.rules.taints import tolerates, tolerates_unschedulable, untolerated_taint

TAINT = Taint("dedicated", "NoSchedule", "db")


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        pytest.param(Toleration("dedicated", "Equal", "db", "NoSchedule"), True, id="equal"),
        pytest.param(Toleration("dedicated", "", "db"), True, id="no-operator-is-equal"),
        pytest.param(Toleration("dedicated", "Equal", "web"), False, id="other-value"),
        pytest.param(Toleration("dedicated", "Exists"), True, id="exists"),
        pytest.param(Toleration("", "Exists"), True, id="exists-without-key-covers-all"),
        pytest.param(Toleration("", "Equal", "db"), True, id="equal-without-key-compares-the-value"),
        pytest.param(Toleration("other", "Exists"), False, id="other-key"),
        pytest.param(Toleration("dedicated", "Exists", effect="NoExecute"), False, id="other-effect"),
        pytest.param(Toleration("dedicated", "Exists", effect=""), True, id="no-effect-covers-all"),
        pytest.param(Toleration("dedicated", "Gt", "1"), False, id="comparison-tolerates-nothing"),
        pytest.param(Toleration("dedicated", "Unknown", "db"), False, id="unknown-operator"),
    ],
)
def test_tolerates(toleration: Toleration, covered: bool) -> None:
    assert tolerates(toleration, TAINT) is covered


@pytest.mark.parametrize(
    ("effect", "rejected"), [("NoSchedule", True), ("NoExecute", True), ("PreferNoSchedule", False), ("Strange", False)]
)
def test_only_two_effects_keep_a_pod_off(effect: str, rejected: bool) -> None:
    taint = Taint("dedicated", effect)
    assert untolerated_taint([taint], []) == (taint if rejected else None)


def test_names_the_first_taint_that_is_not_tolerated() -> None:
    other = Taint("gpu", "NoExecute")
    assert untolerated_taint([TAINT, other], [Toleration("dedicated", "Exists")]) == other


def test_a_cordon_is_tolerated_like_its_taint() -> None:
    assert not tolerates_unschedulable([])
    assert tolerates_unschedulable([Toleration("node.kubernetes.io/unschedulable", "Exists", effect="NoSchedule")])
