"""Sets of nodes and the domains of one key, where a domain has one node and where it has several."""

import pytest

from kube.pod_topology.node_index import NodeIndex
from kube.pod_topology.topology_domains import NODE_ITSELF, TopologyDomains
from tests.builders import HOSTNAME, ZONE, node

NODES = [node("a1", zone="a"), node("a2", zone="a"), node("b1", zone="b"), node("x1", zone=None)]
INDEX = NodeIndex.of(NODES)
A1, A2, B1, X1 = 1, 2, 4, 8
ZONES, HOSTS, THEMSELVES = (TopologyDomains(INDEX, key) for key in (ZONE, HOSTNAME, NODE_ITSELF))


@pytest.mark.parametrize(
    ("domains", "nodes", "around"),
    [
        (ZONES, A1, A1 | A2),
        (ZONES, A1 | B1, A1 | A2 | B1),
        (ZONES, X1, 0),
        (HOSTS, A1 | B1, A1 | B1),
        (THEMSELVES, A1 | X1, A1 | X1),
    ],
)
def test_around_nodes_is_all_that_shares_a_domain(domains: TopologyDomains, nodes: int, around: int) -> None:
    assert domains.around(nodes) == around


@pytest.mark.parametrize(
    ("domains", "possible", "fit", "loss"),
    [
        (ZONES, A1, A1 | A2 | B1, 2),
        (ZONES, A1 | B1, A2 | B1, 1),
        (ZONES, X1, A1 | X1, 0),
        (HOSTS, A1 | A2, A1 | A2 | B1, 1),
        (HOSTS, A1, B1, 0),
        (THEMSELVES, X1, X1, 1),
    ],
)
def test_at_most_the_fitting_nodes_of_one_domain_are_lost(
    domains: TopologyDomains, possible: int, fit: int, loss: int
) -> None:
    assert domains.loss(possible, fit) == loss


@pytest.mark.parametrize(
    ("domains", "possible", "certain"),
    [
        (ZONES, A1 | A2, True),
        (ZONES, A1 | B1, False),
        (ZONES, A1 | X1, False),
        (ZONES, X1, False),
        (HOSTS, A1, True),
        (HOSTS, A1 | A2, False),
        (THEMSELVES, X1, True),
    ],
)
def test_a_place_is_certain_within_one_domain(domains: TopologyDomains, possible: int, certain: bool) -> None:
    assert domains.is_certain(possible) is certain
