"""Attach counts follow the scheduler's NodeVolumeLimits plugin."""

import pytest

from kube.objects.constraints import AWS, Constraints, InlineDisk
from kube.objects.model import Record, Taint
from kube.rules.quantity import parse_quantity
from kube.rules.taints import UNSCHEDULABLE
from kube.store.node_view import effective_taints, missing_drivers, node_view
from kube.store.store import snapshot_of
from tests import builders

DRIVER = "disk.csi.example"
NODE = builders.node("n1", zone="b")
USER = builders.pod("user", claims=["data"], node="n1", phase="Running", requests={"cpu": "2"})
CLAIM = builders.claim("data", volume_name="pv", phase="Bound")
VOLUME = builders.volume("pv", claim="default/data", phase="Bound")


def test_shows_what_pods_leave() -> None:
    elsewhere = builders.pod("elsewhere", node="n2", requests={"cpu": "4"})
    seen = node_view(snapshot_of([NODE, USER, elsewhere, CLAIM, VOLUME]), "n1")
    assert seen.free["cpu"] == parse_quantity("6")


def test_an_unknown_node() -> None:
    with pytest.raises(KeyError):
        node_view(snapshot_of([]), "n1")


@pytest.mark.parametrize(
    ("records", "used"),
    [
        pytest.param([USER, CLAIM, VOLUME], {DRIVER: 1}, id="volume-of-a-pod"),
        pytest.param(
            [USER, CLAIM, VOLUME, builders.attachment("pv", "n1")], {DRIVER: 1}, id="counted-once-if-attached"
        ),
        pytest.param([VOLUME, builders.attachment("pv", "n1")], {DRIVER: 1}, id="still-attached-without-pod"),
        pytest.param([VOLUME, builders.attachment("pv", "n2")], {}, id="attached-elsewhere"),
        pytest.param([builders.attachment("gone", "n1")], {}, id="attachment-of-an-unknown-volume"),
        pytest.param(
            [USER, builders.pod("second", claims=["data"], node="n1"), CLAIM, VOLUME],
            {DRIVER: 1},
            id="shared-by-two-pods",
        ),
        pytest.param([USER, CLAIM, builders.volume("pv", source="nfs")], {}, id="not-csi"),
        pytest.param(
            [USER, CLAIM, builders.volume("pv", source="awsElasticBlockStore")], {"ebs.csi.aws.com": 1}, id="migrated"
        ),
        pytest.param([USER, CLAIM, builders.volume("pv", source="azureFile")], {}, id="migrated-but-not-counted"),
        pytest.param(
            [USER, builders.claim("data"), builders.storage_class("fast", provisioner="kubernetes.io/gce-pd")],
            {"pd.csi.storage.gke.io": 1},
            id="unbound-of-a-migrated-class",
        ),
        pytest.param([USER, VOLUME], {}, id="claim-not-there"),
        pytest.param(
            [USER, builders.claim("data"), builders.storage_class("fast", provisioner="p.example")],
            {"p.example": 1},
            id="unbound-counts-for-its-provisioner",
        ),
        pytest.param([USER, builders.claim("data", storage_class=None)], {}, id="unbound-without-class"),
        pytest.param(
            [builders.pod("a", node="n1", constraints=Constraints(disks=(InlineDisk(AWS, ("vol-1",)),)))],
            {"ebs.csi.aws.com": 1},
            id="a-disk-in-the-pods-own-spec",
        ),
    ],
)
def test_counts_attached_volumes_as_the_scheduler_does(records: list[Record], used: dict[str, int]) -> None:
    assert node_view(snapshot_of([NODE, *records]), "n1").attach_used == used


def test_states_the_limits_drivers_state() -> None:
    limits = builders.csi_node("n1", limits={DRIVER: 25, "other.csi.example": None})
    assert node_view(snapshot_of([NODE, limits]), "n1").attach_limit == {DRIVER: 25}
    assert node_view(snapshot_of([NODE]), "n1").attach_limit == {}


def test_a_driver_is_missing_where_it_is_not_registered_and_rejects_pods_there() -> None:
    drivers = [builders.csi_driver(name, prevent_pod_scheduling_if_missing=name != "lax") for name in ("a", "b", "lax")]
    snapshot = snapshot_of([*drivers, builders.csi_node("n1", limits={"a": None})])
    assert missing_drivers(snapshot, "n1") == {"b"}
    assert missing_drivers(snapshot, "n2") == {"a", "b"}


@pytest.mark.parametrize("tainted", [True, False])
def test_a_cordon_is_one_taint(tainted: bool) -> None:
    own = Taint("dedicated", "NoSchedule")
    taints = (own, UNSCHEDULABLE) if tainted else (own,)
    cordoned = builders.node("n1", unschedulable=True, taints=taints)
    assert effective_taints(cordoned) == (own, UNSCHEDULABLE)
