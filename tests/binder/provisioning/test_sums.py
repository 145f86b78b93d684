"""All volumes of a pod that one pool is to hold, added up."""

from msgspec.structs import replace

from binder.matching.rejection import Reason
from binder.provisioning.sums import reject_sum
from kube.objects.model import Claim
from tests.binder.provisioning.clusters import Cluster, local_class, report, selected
from tests.builders import claim, csi_driver


def why(cluster: Cluster, *claims: Claim, certain: bool = True) -> str:
    snapshot = cluster.store.snapshot()
    rejection = reject_sum(claims, snapshot.nodes["n1"], snapshot, cluster.ledger(), cluster.now, certain=certain)
    if rejection is None:
        return ""
    assert (rejection.reason, rejection.subject) == (Reason.INSUFFICIENT_STORAGE, "n1")
    return f"{rejection.wanted}: {rejection.offered}"


def test_two_claims_that_fit_one_by_one_do_not_fit_together() -> None:
    cluster = Cluster(report("200Gi"), selected("db-1", "100Gi"))
    data, log = claim("data", size="100Gi"), claim("log", size="50Gi")

    assert why(cluster, data) == ""
    assert why(cluster, log) == ""
    assert why(cluster, data, log) == (
        "150Gi of class fast for default/data, default/log together: "
        "100Gi left of 200Gi, 100Gi in flight for default/db-1"
    )


def test_the_claims_of_a_pod_that_were_selected_already_count_once() -> None:
    data, log = selected("data", "150Gi"), selected("log", "50Gi")
    cluster = Cluster(report("200Gi"), data, log)

    assert why(cluster, data, log) == ""


def test_claims_of_classes_that_share_a_pool_are_added_up() -> None:
    cluster = Cluster(local_class(), local_class("xfs"), report("100Gi"), report("100Gi", of="xfs"))

    assert why(cluster, claim("a", size="60Gi"), claim("b", size="60Gi", storage_class="xfs")) == (
        "120Gi of class fast, xfs for default/a, default/b together: 100Gi left of 100Gi"
    )


def test_claims_of_other_pools_are_not() -> None:
    cluster = Cluster(local_class(), local_class("slow", tier="b"), report("100Gi"), report("100Gi", of="slow"))

    assert why(cluster, claim("a", size="60Gi"), claim("b", size="60Gi", storage_class="slow")) == ""


def test_a_driver_that_counts_no_capacity_has_no_limit() -> None:
    cluster = Cluster(report("1Gi"))
    cluster.put(replace(csi_driver("disk.csi.example"), storage_capacity=False))

    assert why(cluster, claim("a", size="60Gi"), claim("b", size="60Gi")) == ""


def test_parts_of_a_pool_reject_only_where_something_is_to_be_written() -> None:
    cluster = Cluster(report("200Gi", largest="100Gi"))
    claims = claim("a", size="60Gi"), claim("b", size="60Gi")

    assert why(cluster, *claims, certain=False) == ""
    assert why(cluster, *claims) == (
        "120Gi of class fast for default/a, default/b together: 200Gi left of 200Gi, at most 100Gi in one volume"
    )


def test_only_some_of_many_claims_in_flight_are_named() -> None:
    cluster = Cluster(report("200Gi"), *(selected(f"c{number}", "10Gi") for number in range(9)))

    assert why(cluster, claim("a", size="150Gi")) == (
        "150Gi of class fast for default/a: 110Gi left of 200Gi, "
        "90Gi in flight for default/c0, default/c1, default/c2 and 6 more"
    )
