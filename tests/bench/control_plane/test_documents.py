from bench.control_plane.documents import volume
from devcluster.control_plane.nodes import DEFAULT_ZONES


def test_documents_are_zonal() -> None:
    terms = volume("v", DEFAULT_ZONES[0])["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"][0]["values"] == [DEFAULT_ZONES[0]]
