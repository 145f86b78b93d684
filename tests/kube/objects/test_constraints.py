"""Which disks of a pod's own spec keep it from a node where another pod uses one (VolumeRestrictions)."""

import pytest

from kube.objects.constraints import AWS, AZURE, GCE, ISCSI, RBD, InlineDisk


@pytest.mark.parametrize(
    ("disk", "other", "excludes"),
    [
        pytest.param(InlineDisk(GCE, ("d",)), InlineDisk(GCE, ("d",)), True, id="the same"),
        pytest.param(InlineDisk(GCE, ("d",)), InlineDisk(GCE, ("e",)), False, id="another"),
        pytest.param(InlineDisk(GCE, ("d",)), InlineDisk(AWS, ("d",)), False, id="of another kind"),
        pytest.param(InlineDisk(AZURE, ("d",)), InlineDisk(AZURE, ("d",)), False, id="a kind that may be shared"),
        pytest.param(
            InlineDisk(ISCSI, ("d",), read_only=True), InlineDisk(ISCSI, ("d",), read_only=True), False, id="both read"
        ),
        pytest.param(InlineDisk(ISCSI, ("d",), read_only=True), InlineDisk(ISCSI, ("d",)), True, id="one writes"),
        pytest.param(
            InlineDisk(RBD, ("pool", "d"), ("m1", "m2")), InlineDisk(RBD, ("pool", "d"), ("m2",)), True, id="a monitor"
        ),
        pytest.param(
            InlineDisk(RBD, ("pool", "d"), ("m1",)), InlineDisk(RBD, ("pool", "d"), ("m2",)), False, id="no monitor"
        ),
    ],
)
def test_two_pods_share_a_disk_only_if_its_kind_allows_it(disk: InlineDisk, other: InlineDisk, excludes: bool) -> None:
    assert disk.excludes(other) is excludes
    assert other.excludes(disk) is excludes
