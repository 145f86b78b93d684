import pytest
from msgspec.structs import replace

from binder.matching.rejection import Reason
from kube.objects.constraints import AWS, AZURE, GCE, Constraints, InlineDisk
from kube.objects.model import Pod, Record
from kube.store.store import snapshot_of
from scheduler.state.attach_limits import attach_rejection, attach_use, attachments_of, has_plenty
from tests import builders as made

DRIVER = "disk.csi.example"
DYNAMIC = made.storage_class("made", provisioner=DRIVER)
DEMANDING = made.csi_driver(prevent_pod_scheduling_if_missing=True)


def mounted(name: str, *, pod: str, node: str = "") -> list[Record]:
    claim = made.claim(name, volume_name=f"pv-{name}")
    return [claim, made.volume(f"pv-{name}"), made.pod(pod, claims=[name], node=node)]


@pytest.mark.parametrize(
    ("limit", "records", "fits"),
    [
        pytest.param(1, [], True, id="the-last-place"),
        pytest.param(0, [], False, id="no-place"),
        pytest.param(None, mounted("b", pod="other", node="node-1"), True, id="no-limit-stated"),
        pytest.param(1, mounted("b", pod="other", node="node-1"), False, id="taken-by-a-pod"),
        pytest.param(1, mounted("b", pod="other", node="node-2"), True, id="taken-elsewhere"),
        pytest.param(1, [made.pod("other", claims=["a"], node="node-1")], True, id="shared-with-a-pod-there"),
        pytest.param(1, [made.volume("pv-old"), made.attachment("pv-old", "node-1")], False, id="left-attached"),
        pytest.param(1, [made.attachment("pv-a", "node-1")], False, id="left-attached-counts-once-more-as-new"),
        pytest.param(
            2,
            [*mounted("b", pod="other", node="node-1"), made.attachment("pv-b", "node-1")],
            True,
            id="used-and-attached-counts-once",
        ),
        pytest.param(1, [made.attachment("pv-gone", "node-1")], True, id="attachment-of-nothing"),
        pytest.param(
            1, [made.volume("pv-old"), made.attachment("pv-old", "node-1", attacher="")], True, id="without-attacher"
        ),
        pytest.param(
            1,
            [
                *mounted("b", pod="other", node="node-1")[:2],
                made.pod("done", claims=["b"], node="node-1", phase="Failed"),
            ],
            True,
            id="finished-pods-hold-nothing",
        ),
        pytest.param(
            1,
            [DYNAMIC, made.claim("b", storage_class="made"), made.pod("other", claims=["b"], node="node-1")],
            False,
            id="an-unbound-claim-counts-for-its-class",
        ),
    ],
)
def test_a_driver_attaches_no_more_than_it_can(limit: int | None, records: list[Record], *, fits: bool) -> None:
    pod = made.pod(claims=["a"])
    snapshot = snapshot_of([*mounted("a", pod="web"), made.csi_node(limits={DRIVER: limit}), *records])
    rejected = attach_rejection("node-1", attachments_of(pod, snapshot), attach_use(snapshot, "node-1"))
    assert (rejected is None) is fits
    assert rejected is None or rejected.reason is Reason.ATTACH_LIMIT_REACHED


@pytest.mark.parametrize(
    ("records", "fits"),
    [
        pytest.param([made.csi_driver(), made.csi_node(limits={})], True, id="it-may-be-missing"),
        pytest.param([made.csi_node(limits={})], True, id="no-csi-driver"),
        pytest.param([DEMANDING, made.csi_node(limits={})], False, id="missing"),
        pytest.param([DEMANDING], False, id="nothing-registered"),
        pytest.param([DEMANDING, made.csi_node(limits={DRIVER: None})], True, id="registered"),
        pytest.param([DEMANDING, made.csi_node(limits={DRIVER: 0})], False, id="registered-and-full"),
        pytest.param(
            [DEMANDING, made.csi_node(limits={}), made.pod("other", claims=["a"], node="node-1")],
            False,
            id="missing-while-another-pod-uses-the-volume",
        ),
    ],
)
def test_a_driver_that_has_to_be_on_the_node(records: list[Record], *, fits: bool) -> None:
    pod = made.pod(claims=["a"])
    snapshot = snapshot_of([*mounted("a", pod="web"), *records])
    wanted, use = attachments_of(pod, snapshot), attach_use(snapshot, "node-1")
    assert (attach_rejection("node-1", wanted, use) is None) is fits
    assert fits or not has_plenty(wanted, use)


def test_what_is_no_csi_volume_is_not_counted() -> None:
    volume = replace(made.volume("pv-a", source="local"), claim=made.reference("default/a"))
    snapshot = snapshot_of([made.claim("a", volume_name="pv-a"), volume, made.pod(claims=["a", "absent"])])
    assert attachments_of(snapshot.pods["default/web"], snapshot) == frozenset()


def test_a_node_without_csi_drivers_has_no_limits() -> None:
    assert attach_use(snapshot_of([made.node()]), "node-1").limits == {}


EBS, GCE_PD = "ebs.csi.aws.com", "pd.csi.storage.gke.io"


def inline(name: str, *disks: InlineDisk, node: str = "") -> Pod:
    return made.pod(name, node=node, constraints=Constraints(disks=disks))


def ebs(volume: str) -> InlineDisk:
    return InlineDisk(AWS, (volume,))


@pytest.mark.parametrize(
    ("driver", "wanted", "there", "fits"),
    [
        pytest.param(EBS, ebs("vol-1"), [], True, id="the-last-place"),
        pytest.param(EBS, ebs("vol-1"), [inline("other", ebs("vol-2"), node="node-1")], False, id="ebs-beside-ebs"),
        pytest.param(EBS, ebs("vol-1"), [inline("other", ebs("vol-2"), node="node-2")], True, id="ebs-elsewhere"),
        pytest.param(EBS, ebs("vol-1"), [inline("other", ebs("vol-1"), node="node-1")], True, id="the-same-disk"),
        pytest.param(
            EBS,
            ebs("vol-1"),
            [inline("other", ebs("aws://us-east-1a/vol-1"), node="node-1")],
            True,
            id="the-same-by-url",
        ),
        pytest.param(
            GCE_PD,
            InlineDisk(GCE, ("disk-1",)),
            [inline("other", InlineDisk(GCE, ("disk-2",)), node="node-1")],
            False,
            id="gce-beside-gce",
        ),
        pytest.param(
            GCE_PD,
            InlineDisk(GCE, ("disk-1",)),
            [inline("other", ebs("vol-2"), node="node-1")],
            True,
            id="gce-beside-ebs",
        ),
        pytest.param(
            "disk.csi.azure.com",
            InlineDisk(AZURE, ("/disks/1",)),
            [inline("other", InlineDisk(AZURE, ("/disks/2",)), node="node-1")],
            False,
            id="azure-beside-azure",
        ),
        pytest.param(
            EBS,
            ebs("vol-1"),
            [
                made.storage_class("old", provisioner="kubernetes.io/aws-ebs"),
                made.claim("b", storage_class="old"),
                made.pod("other", claims=["b"], node="node-1"),
            ],
            False,
            id="ebs-beside-a-claim-of-an-in-tree-class",
        ),
        pytest.param("rbd", InlineDisk("rbd", ("rbd", "image")), [], True, id="a-kind-that-no-driver-attaches"),
    ],
)
def test_a_disk_in_the_pods_own_spec_counts_by_its_csi_driver(
    driver: str, wanted: InlineDisk, there: list[Record], *, fits: bool
) -> None:
    """Facts: TestCSILimits of nodevolumelimits/csi_test.go, the cases with inline volumes and migration."""
    snapshot = snapshot_of([made.csi_node(limits={driver: 1 if driver != "rbd" else 0}), *there])
    rejected = attach_rejection(
        "node-1", attachments_of(inline("web", wanted), snapshot), attach_use(snapshot, "node-1")
    )
    assert (rejected is None) is fits


def test_volumes_of_plugins_without_limits_count_for_no_driver() -> None:
    """isCSIMigrationOn of nodevolumelimits/utils.go does not list vSphere and Azure File."""
    records: list[Record] = [
        made.storage_class("old", provisioner="kubernetes.io/vsphere-volume"),
        made.claim("a", storage_class="old"),
    ]
    assert attachments_of(made.pod(claims=["a"]), snapshot_of(records)) == frozenset()
