"""How places of volumes are named."""

import pytest

from kube.objects.labels import NodeSelector, NodeSelectorTerm, Requirement
from kube.objects.model import Volume
from tests.builders import volume
from why.causes.objects import place_of

RACK = NodeSelector((NodeSelectorTerm((Requirement("example.com/rack", "Exists", ()),)),))


@pytest.mark.parametrize(
    ("located", "place"),
    [
        pytest.param(volume("pv-1", zone="a"), "zone a", id="a zone"),
        pytest.param(volume("pv-1"), "any topology", id="no affinity"),
        pytest.param(volume("pv-1", node_affinity=RACK), "example.com/rack exists", id="nothing that has a name"),
    ],
)
def test_a_place_without_a_name_is_given_by_the_affinity(located: Volume, place: str) -> None:
    assert place_of(located) == place
