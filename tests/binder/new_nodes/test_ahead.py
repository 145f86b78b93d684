"""Which pods that were left to kube-scheduler wait for a node to come."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from binder.new_nodes.ahead import left_for_node
from binder.reservation.contract import Annotations
from kube.objects.model import SELECTED_NODE, Claim, Pod
from kube.store.store import snapshot_of
from tests.builders import EPOCH, claim, pairs, pod, storage_class

OURS = Annotations()
POD = pod("web", claims=["data"], unschedulable=True)
WAITS = OURS.ahead_of_node(POD, EPOCH - timedelta(minutes=3))
CLAIM = claim("data", annotations=WAITS)


def test_a_pod_that_no_node_fits_waits_since_its_claim_says_so() -> None:
    ahead = left_for_node(POD, snapshot_of([storage_class(), POD, CLAIM]), OURS)
    assert ahead is not None
    assert (ahead.since, [each.name for each in ahead.claims]) == (EPOCH - timedelta(minutes=3), ["data"])


@pytest.mark.parametrize(
    ("of", "its"),
    [
        pytest.param(replace(POD, scheduling_gates=(OURS.gate,)), CLAIM, id="behind our gate"),
        pytest.param(replace(POD, unschedulable=False), CLAIM, id="a node may fit"),
        pytest.param(replace(POD, deleting=True), CLAIM, id="being deleted"),
        pytest.param(replace(POD, phase="Failed"), CLAIM, id="ended"),
        pytest.param(replace(POD, uid="uid-of-the-next"), CLAIM, id="another pod of the name"),
        pytest.param(
            POD, replace(CLAIM, annotations=pairs({**WAITS, SELECTED_NODE: "node-1"})), id="a node was selected"
        ),
        pytest.param(POD, claim("data"), id="the claim says nothing"),
    ],
)
def test_otherwise_it_waits_for_none(of: Pod, its: Claim) -> None:
    assert left_for_node(of, snapshot_of([storage_class(), of, its]), OURS) is None
