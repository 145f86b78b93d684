"""Where it is worth trying to place a pod, of more places than can be tried."""

import pytest

from binder.assignment.node_booking import NodeBooking
from binder.assignment.placing import Offers, Placing
from binder.assignment.topologies import Groupings, topologies_of
from binder.booking.bookings import Bookings
from binder.booking.node_sets import NodeSets
from binder.model.decision import Mode
from binder.model.demand import Demand
from binder.provisioning.pass_pools import PassPools
from tests.binder.views import NOW, view
from tests.builders import claim, node, pod, volume

NODES = [node(f"n{number}") for number in range(1, 5)]


@pytest.mark.parametrize(("most", "names"), [(1, ["n3"]), (2, ["n3", "n1"]), (4, ["n1", "n2", "n3", "n4"])])
def test_the_smallest_volumes_for_the_largest_claim_say_where_to_try(most: int, names: list[str]) -> None:
    small, large = claim("small", size="1Gi"), claim("large", size="10Gi")
    sizes = {"n1": "20Gi", "n2": "30Gi", "n3": "10Gi", "n4": "5Gi"}
    seen = view(*NODES, small, large, *(volume(f"v-{name}", size=size, node=name) for name, size in sizes.items()))
    demand, sets = Demand(pod("web", claims=["small", "large"]), Mode.PREBIND, (small, large)), NodeSets()
    booking = NodeBooking(seen, (), None, Bookings(seen, (), sets, NOW))
    topologies = topologies_of(seen.snapshot.nodes, seen.index, [demand], Groupings())
    placing = Placing(topologies, Offers(seen, NOW, sets), booking, PassPools(seen.snapshot, seen.pools, NOW))
    assert [each.nodes[0].name for each in placing.topologies_for(demand, most)] == names
