"""Whether a scheduler can be looking at a pod that uses a claim."""

import pytest

from binder.planning.commitment import all_gated
from kube.objects.model import Pod
from kube.store.store import snapshot_of
from tests.builders import pod

GATE = "scheduler.cloud.example/volumes"


def gated(name: str, *gates: str) -> Pod:
    return pod(name, claims=["data"], scheduling_gates=gates)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([gated("web", GATE)], True, id="ours"),
        pytest.param([gated("web", "somebody.example/gate")], True, id="of another component"),
        pytest.param([gated("web", GATE), gated("other", GATE)], True, id="all of them"),
        pytest.param([gated("web", GATE), gated("other")], False, id="another pod has none"),
        pytest.param([pod("web", claims=["data"], unschedulable=True)], False, id="it will be tried again"),
        pytest.param([], False, id="no pod is known"),
    ],
)
def test_a_claim_is_out_of_reach_while_all_its_pods_have_a_gate(pods: list[Pod], expected: bool) -> None:
    assert all_gated("default/data", snapshot_of(pods)) is expected
