import pytest

from kube.objects.labels import NodeSelector, NodeSelectorTerm, Requirement
from kube.objects.model import Volume
from kube.rules.topology import (
    BETA_REGION_LABEL,
    BETA_ZONE_LABEL,
    HOSTNAME_LABEL,
    REGION_LABEL,
    ZONE_LABEL,
    place_text,
    volume_zone,
    volume_zone_matches,
    zone_of,
)
from tests import builders


@pytest.mark.parametrize(
    ("labels", "zone"),
    [
        ({ZONE_LABEL: "a", BETA_ZONE_LABEL: "b"}, "a"),
        ({BETA_ZONE_LABEL: "b"}, "b"),
        ({ZONE_LABEL: "", BETA_ZONE_LABEL: "b"}, "b"),
        ({REGION_LABEL: "r"}, ""),
        ({}, ""),
    ],
    ids=["current", "beta", "empty-current", "region-only", "none"],
)
def test_zone_of(labels: dict[str, str], zone: str) -> None:
    assert zone_of(labels) == zone
    assert zone_of(tuple(labels.items())) == zone


@pytest.mark.parametrize(
    ("volume", "node", "matches"),
    [
        pytest.param({}, {ZONE_LABEL: "a"}, True, id="volume-without-labels"),
        pytest.param({ZONE_LABEL: "a"}, {}, True, id="node-without-labels"),
        pytest.param({ZONE_LABEL: "a"}, {ZONE_LABEL: "a"}, True, id="same"),
        pytest.param({ZONE_LABEL: "a"}, {ZONE_LABEL: "b"}, False, id="other"),
        pytest.param({ZONE_LABEL: "a__b"}, {ZONE_LABEL: "b"}, True, id="several"),
        pytest.param({ZONE_LABEL: " a __ b "}, {ZONE_LABEL: "b"}, True, id="trimmed"),
        pytest.param({ZONE_LABEL: "a__"}, {ZONE_LABEL: "b"}, True, id="empty-part-says-nothing"),
        pytest.param({ZONE_LABEL: ""}, {ZONE_LABEL: "b"}, True, id="empty-says-nothing"),
        pytest.param({ZONE_LABEL: "a_b"}, {ZONE_LABEL: "a_b"}, True, id="one-underscore-is-a-name"),
        pytest.param({BETA_ZONE_LABEL: "a"}, {ZONE_LABEL: "a"}, True, id="beta-met-by-current"),
        pytest.param({BETA_REGION_LABEL: "r"}, {REGION_LABEL: "r"}, True, id="beta-region-met-by-current"),
        pytest.param({ZONE_LABEL: "a"}, {BETA_ZONE_LABEL: "a"}, False, id="current-not-met-by-beta"),
        pytest.param({BETA_ZONE_LABEL: "a"}, {BETA_ZONE_LABEL: "b", ZONE_LABEL: "a"}, False, id="same-key-goes-first"),
        pytest.param({ZONE_LABEL: "a", REGION_LABEL: "r"}, {ZONE_LABEL: "a"}, False, id="each-label-must-be-met"),
        pytest.param({ZONE_LABEL: "a"}, {REGION_LABEL: "r"}, False, id="node-with-another-of-the-labels"),
    ],
)
def test_volume_zone(volume: dict[str, str], node: dict[str, str], matches: bool) -> None:
    assert volume_zone_matches(volume, node) is matches


def term(*requirements: tuple[str, str, tuple[str, ...]]) -> NodeSelectorTerm:
    return NodeSelectorTerm(tuple(Requirement(*each) for each in requirements), ())


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        *(
            ([term((key, "In", ("eu-1b",)))], "zone eu-1b")
            for key in (
                ZONE_LABEL,
                "topology.ebs.csi.aws.com/zone",
                "topology.gke.io/zone",
                "topology.disk.csi.azure.com/zone",
                "topology.cinder.csi.openstack.org/zone",
                "topology.csi.vmware.com/k8s-zone",
                "zone",
            )
        ),
        ([term(("csi.hetzner.cloud/location", "In", ("nbg1",)))], "location nbg1"),
        ([term(("topology.linode.com/region", "In", ("eu-west",)))], "region eu-west"),
        ([term((HOSTNAME_LABEL, "In", ("n1",)))], "node n1"),
        ([term(("topology.topolvm.io/node", "In", ("n1",)))], "node n1"),
        ([term(("topology.gke.io/zone", "In", ("a", "b")))], "zone a or b"),
        ([term((ZONE_LABEL, "In", ("a",))), term((ZONE_LABEL, "In", ("b",)))], "zone a or zone b"),
        ([term((REGION_LABEL, "In", ("eu",)), (ZONE_LABEL, "In", ("a",)))], "zone a"),
        ([term((HOSTNAME_LABEL, "In", ("n1",)), (ZONE_LABEL, "In", ("a",)))], "zone a and node n1"),
        ([term(("disk", "In", ("ssd",)), (ZONE_LABEL, "In", ("a",)))], ""),
        ([term((ZONE_LABEL, "NotIn", ("a",)))], ""),
        ([term((ZONE_LABEL, "In", ("a",)))] * 9, ""),
        ([term()], ""),
        ([], ""),
    ],
)
def test_a_place_is_named_by_the_key_of_any_driver(terms: list[NodeSelectorTerm], text: str) -> None:
    assert place_text(NodeSelector(tuple(terms))) == text


OF_DRIVER = "topology.ebs.csi.aws.com/zone"


def reached(*terms: NodeSelectorTerm, labelled: str = "") -> Volume:
    return builders.volume(node_affinity=NodeSelector(terms), labels={ZONE_LABEL: labelled} if labelled else {})


@pytest.mark.parametrize(
    ("volume", "zone"),
    [
        pytest.param(builders.volume(), "", id="everywhere"),
        pytest.param(builders.volume(labels={ZONE_LABEL: "b"}), "b", id="labelled"),
        pytest.param(reached(term((ZONE_LABEL, "In", ("a",))), labelled="b"), "a", id="its affinity comes first"),
        pytest.param(reached(term((ZONE_LABEL, "In", ("a",)), ("disk", "In", ("x",)))), "a", id="with another key"),
        pytest.param(reached(term((ZONE_LABEL, "In", ("a", "b")))), "", id="two zones"),
        pytest.param(reached(term((ZONE_LABEL, "NotIn", ("a",)))), "", id="all zones but one"),
        pytest.param(reached(term((OF_DRIVER, "In", ("a",)))), "a", id="a driver's key"),
        pytest.param(
            reached(term((OF_DRIVER, "In", ("z",)), (ZONE_LABEL, "In", ("a",)))), "a", id="the known key first"
        ),
        pytest.param(
            reached(term((OF_DRIVER, "In", ("a",)), (HOSTNAME_LABEL, "In", ("n1",)))), "", id="a driver's, narrowed"
        ),
        pytest.param(reached(term((REGION_LABEL, "In", ("r",)))), "", id="a region"),
    ],
)
def test_a_volumes_zone_is_named_if_it_is_one(volume: Volume, zone: str) -> None:
    assert volume_zone(volume) == zone
