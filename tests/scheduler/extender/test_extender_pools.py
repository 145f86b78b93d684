"""Nodes whose storage does not take all that is provisioned for a pod are rejected, whatever one claim alone needs."""

import pytest

from kube.objects.model import Record
from tests.binder.provisioning.clusters import local_class, place, report, selected
from tests.builders import claim, csi_driver, volume
from tests.scheduler.extender_requests import extender, filtered, kept

ALL = ["n1", "n2"]
COUNTED = csi_driver(storage_capacity=True)
WORLD: tuple[Record, ...] = (COUNTED, local_class(), *place("n1"), *place("n2"), report("200Gi"), report("400Gi", "n2"))
DATA, LOG = claim("data", size="100Gi"), claim("log", size="50Gi")
TWO = ["data", "log"]


def test_a_node_is_rejected_with_what_is_left_there() -> None:
    answers = extender([*WORLD, DATA, LOG, selected("db-1", "100Gi", ours=False)])

    assert filtered(answers, ALL, claims=TWO)["FailedAndUnresolvableNodes"] == {
        "n1": "claims data, log together need 150Gi: 100Gi left of 200Gi, 100Gi in flight for default/db-1"
    }
    assert kept(answers, ALL, claims=["data"]) == ALL


@pytest.mark.parametrize(
    "beside",
    [
        pytest.param([selected("data", "100Gi", ours=False)], id="the pod's own claim was selected before"),
        pytest.param([selected("db-1", "100Gi", of="none")], id="a false claim"),
        pytest.param([volume(node_affinity=None), volume("pv-2", size="1Ti")], id="a static volume may do"),
    ],
)
def test_what_does_not_count(beside: list[Record]) -> None:
    answers = extender([*WORLD, DATA, LOG, *beside])

    assert kept(answers, ALL, claims=TWO) == ALL


def test_a_driver_that_counts_no_capacity_rejects_nothing() -> None:
    answers = extender([*WORLD, csi_driver(resource_version=2), claim("data", size="1Ti")])

    assert kept(answers, ALL, claims=["data"]) == ALL
