"""What a claim says of its bind: each caller of Kubernetes asks another question."""

import pytest

from kube.objects.model import BIND_COMPLETED, ClaimReference
from tests import builders

COMPLETED = {BIND_COMPLETED: "yes"}


@pytest.mark.parametrize(
    ("volume_name", "annotations", "phase", "answers"),
    [
        pytest.param("", {}, "Pending", (False, False, False), id="unbound"),
        pytest.param("pv", {}, "Pending", (False, False, False), id="asks for a volume by name"),
        pytest.param("", COMPLETED, "Lost", (True, False, False), id="its volume name was lost"),
        pytest.param("pv", COMPLETED, "Pending", (True, True, False), id="all but its status is written"),
        pytest.param("pv", COMPLETED, "Bound", (True, True, True), id="bound"),
    ],
)
def test_how_far_a_bind_is(
    volume_name: str, annotations: dict[str, str], phase: str, answers: tuple[bool, bool, bool]
) -> None:
    claim = builders.claim("data", volume_name=volume_name, annotations=annotations, phase=phase)
    assert (claim.bind_completed, claim.fully_bound, claim.bind_finished) == answers


def test_a_reference_has_the_key_of_the_claim_it_names() -> None:
    claim = builders.claim("data", namespace="shop")
    assert ClaimReference("shop", "data", "uid").key == claim.key == "shop/data"
