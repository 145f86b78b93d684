"""Which volumes of a pod are made first, and what is left of the pools of one pass."""

from binder.provisioning.pass_pools import PassPools
from tests.binder.provisioning.clusters import Cluster, local_class, report
from tests.builders import claim


def pools_of(cluster: Cluster) -> PassPools:
    return PassPools(cluster.store.snapshot(), cluster.ledger(), cluster.now)


def test_the_largest_claim_of_the_scarcest_pool_is_made_first_and_equal_ones_by_name() -> None:
    cluster = Cluster(local_class(), local_class("slow", tier="b"), report("100Gi"), report("500Gi", of="slow"))
    pools = pools_of(cluster)
    small, large, plenty = (
        claim("a", size="10Gi"),
        claim("z", size="30Gi"),
        claim("b", size="30Gi", storage_class="slow"),
    )
    assert pools.scarcest_first([plenty, small, large], "n1") == (large, small, plenty)
    twins = claim("x", size="10Gi"), claim("y", size="10Gi")
    assert pools.scarcest_first(twins, "n1") == pools.scarcest_first(reversed(twins), "n1") == twins


def test_what_was_taken_in_the_pass_is_left_no_more_and_counts_once() -> None:
    cluster = Cluster(local_class(), report("100Gi"))
    pools, node = pools_of(cluster), cluster.store.snapshot().nodes["n1"]
    first, second = claim("a", size="60Gi"), claim("b", size="60Gi")
    assert pools.reject([second], node) is None
    pools.take([first], "n1")
    assert pools.reject([second], node) is not None
    assert pools.reject([first], node) is None
    pools.take_new([first], "n1")
    assert pools.left([claim("c", size="40Gi")], node) == 0


def test_only_what_has_no_booking_yet_is_booked_as_new() -> None:
    cluster = Cluster(local_class(), report("100Gi"))
    pools, node = pools_of(cluster), cluster.store.snapshot().nodes["n1"]
    pools.take_new([claim("a", size="60Gi")], "n1")
    assert pools.reject([claim("b", size="60Gi")], node) is not None
    assert pools.reject([claim("b", size="40Gi")], node) is None
