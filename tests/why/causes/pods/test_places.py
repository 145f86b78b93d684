"""Where volumes are: zones by every driver's key, volumes that exclude nodes, and disks of nodes that are dead."""

import pytest

from tests.why.documents import Document, claim, facts_of, node, pod, reporting, storage_class, volume, why
from why.causes.objects import place_of

HOST = "kubernetes.io/hostname"


def located(key: str, *values: str, **how: str) -> Document:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}]
    return volume(claim="data", spec={"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}, **how})


KEYS = {
    "topology.ebs.csi.aws.com/zone": "eu-west-1b",
    "topology.gke.io/zone": "europe-west1-b",
    "topology.disk.csi.azure.com/zone": "westeurope-1",
    "topology.cinder.csi.openstack.org/zone": "nova",
    "topology.diskplugin.csi.alibabacloud.com/zone": "cn-beijing-h",
    "topology.kubernetes.io/zone": "a",
}


@pytest.mark.parametrize(("key", "zone"), KEYS.items(), ids=KEYS)
def test_a_zone_is_a_zone_by_the_key_of_any_driver(key: str, zone: str) -> None:
    (made,) = facts_of(located(key, zone)).snapshot.volumes.values()
    assert place_of(made) == f"zone {zone}"


@pytest.mark.parametrize(
    ("key", "values", "place"),
    [
        (HOST, ["n1"], "node n1"),
        ("topology.topolvm.io/node", ["n1"], "node n1"),
        ("topology.gke.io/zone", ["a", "b"], "zone a or b"),
        ("csi.hetzner.cloud/location", ["nbg1"], "location nbg1"),
        ("x.example/shelf", ["7"], "x.example/shelf in (7)"),
    ],
)
def test_another_place_is_named_too_and_else_shown_as_it_is(key: str, values: list[str], place: str) -> None:
    (made,) = facts_of(located(key, *values)).snapshot.volumes.values()
    assert place_of(made) == place


def test_the_volume_that_excludes_the_zones_is_named() -> None:
    documents = [claim(volume="pv-1"), volume(claim="data", zone="a"), storage_class()]
    nodes = [node("a1", "a"), node("b1", "b"), node("c1", "c")]
    item = why("pod/db-0", pod("db-0", "data", cpu="9"), *documents, *nodes)
    assert item.code == "NoNodeFits"
    assert "Volume pv-1 is in zone a, which excludes 2 nodes in zones b, c." in item.message
    assert "web/data" in [link.name for link in item.causes]


def test_a_volume_that_every_node_reaches_is_not_blamed() -> None:
    documents = [claim(volume="pv-1"), volume(claim="data"), storage_class()]
    item = why("pod/db-0", pod("db-0", "data", cpu="9"), *documents, node("a1"), node("b1", "b"))
    assert item.code == "NoNodeFits"
    assert "pv-1" not in item.message


DISKS = [claim(volume="pv-1"), located(HOST, "a1"), storage_class()]


@pytest.mark.parametrize(
    "nodes",
    [[node("b1", "b")], [reporting("a1", "Unknown"), node("b1", "b")], [reporting("a1", "Unknown")]],
    ids=["the node is gone", "it is dead, another would do", "it is dead, and the only one"],
)
def test_the_disk_of_a_dead_node_is_given_up_by_hand_only_and_the_loss_is_named(nodes: list[Document]) -> None:
    item = why("pod/db-0", pod("db-0", "data"), *DISKS, *nodes)
    advice = " ".join(item.advice)
    assert not any("delete" in command for command in item.next)
    assert "check first whether the node or its disk comes back" in advice
    assert "`kubectl -n web delete pvc data --wait=false`, then delete its pods" in advice
    assert "What is on pv-1 (10Gi) and nowhere else is lost" in advice


def test_a_pod_that_is_created_again_with_its_claim_gets_the_plan_of_its_replacement() -> None:
    owned = pod(
        "db-0", "data", metadata={"ownerReferences": [{"kind": "StatefulSet", "name": "db", "controller": True}]}
    )
    for nodes in ([node("b1", "b")], [reporting("a1", "Unknown")]):
        item = why("pod/db-0", owned, *DISKS, *nodes)
        assert item.next[1] == "pvc-prebinder replace pod/db-0 -n web"
        assert "check first whether the node or its disk comes back" in item.advice[1]
        assert "What is on pv-1 (10Gi) and nowhere else is lost, and pv-1 stays Released" in item.advice[1]


def test_a_volume_of_a_storage_network_is_never_given_up() -> None:
    documents = [claim(volume="pv-1"), volume(claim="data", zone="a"), storage_class()]
    item = why("pod/db-0", pod("db-0", "data"), *documents, reporting("a1", "Unknown"), node("b1", "b"))
    assert "lost" not in " ".join(item.advice)
