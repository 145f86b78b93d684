"""What the sidecars of CSI drivers report, in their own words."""

from datetime import timedelta

import pytest

from binder.matching.rejection import Reason
from kube.objects.model import SELECTED_NODE
from tests.builders import ZONE
from tests.why.documents import (
    DRIVER,
    DYNAMIC,
    INSTALLED,
    SCHEDULED,
    Document,
    assert_problem,
    claim,
    driver,
    event,
    lease,
    node,
    pod,
    storage_class,
    volume,
    why,
)
from why.report.report import Item

NOTHING, HOUR = timedelta(), timedelta(hours=1)


def failed(note: str) -> Document:
    return event("PersistentVolumeClaim", "data", "ProvisioningFailed", note, reporter=f"{DRIVER}_controller-0")


def resizing(condition: str) -> Document:
    status = {"capacity": {"storage": "5Gi"}, "conditions": [{"type": condition, "status": "True"}]}
    return claim(volume="pv-1", status=status)


NOT_RESIZED = event(
    "PersistentVolumeClaim",
    "data",
    "VolumeResizeFailed",
    'resize volume "pv-1" by resizer "disk.csi.example" failed: rpc error: code = ResourceExhausted desc = full',
    reporter=f"external-resizer {DRIVER}",
)


CASES = [
    *(
        pytest.param(code, [claim(), DYNAMIC, *INSTALLED, failed(note)], id=f"reported: {note[:40]}")
        for code, note in [
            (
                Reason.REQUEST_NOT_SUPPORTED,
                "Volume provisioning failed with infeasible error. Retries will be delayed. "
                "rpc error: code = InvalidArgument desc = no RWX",
            ),
            (Reason.REQUEST_NOT_SUPPORTED, "rpc error: code = OutOfRange desc = Requested capacity 2199023255552"),
            (
                Reason.REQUEST_NOT_SUPPORTED,
                "failed to strip CSI Parameters of prefixed keys: found unknown parameter key "
                '"csi.storage.k8s.io/colour" with reserved namespace csi.storage.k8s.io/',
            ),
            (
                Reason.REQUEST_NOT_SUPPORTED,
                "error getting handle for DataSource Type PersistentVolumeClaim by Name original: the source PVC and "
                "destination PVCs must have the same volume mode for cloning.  Source is Filesystem, but new PVC "
                "requested Block",
            ),
            (
                Reason.DATA_SOURCE_NOT_READY,
                "error getting handle for DataSource Type VolumeSnapshot by Name before: snapshot before not bound",
            ),
            (
                Reason.DRIVER_NOT_ON_NODE,
                "error generating accessibility requirements: failed to get selected CSINode n9: "
                'csinode.storage.k8s.io "n9" not found',
            ),
            (
                Reason.DRIVER_NOT_ON_NODE,
                "error generating accessibility requirements: topology labels from selected node map[] does not match "
                "topology keys from CSINode [topology.kubernetes.io/zone]",
            ),
            (
                Reason.REQUEST_NOT_SUPPORTED,
                'failed to provision volume with StorageClass "standard": NodePath only supports ReadWriteOnce and '
                "ReadWriteOncePod (1.22+) access modes",
            ),
            (Reason.REQUEST_NOT_SUPPORTED, "rancher.io/local-path does not support block volume provisioning"),
            (
                Reason.BACKEND_ERROR,
                'failed to provision volume with StorageClass "fast": rpc error: code = Internal desc = the array only '
                "supports 256 volumes",
            ),
            (Reason.INSUFFICIENT_STORAGE, "insufficient available space 5 bytes to satisfy claim for 10 bytes"),
            (Reason.BACKEND_ERROR, 'error getting secret login in namespace web: secrets "login" not found'),
            (Reason.REQUEST_NOT_SUPPORTED, 'with StorageClass "fast": rpc error: code = InvalidArgument desc = no'),
            (Reason.INSUFFICIENT_STORAGE, "rpc error: code = ResourceExhausted desc = full"),
            (Reason.BACKEND_ERROR, "rpc error: code = DeadlineExceeded desc = context deadline exceeded"),
            (Reason.BACKEND_ERROR, "rpc error: code = Internal desc = oops"),
        ]
    ),
    pytest.param(
        Reason.BACKEND_ERROR,
        [claim(), DYNAMIC, driver(), failed("rpc error: code = Internal desc = oops")],
        id="reported by a driver that no node needs to have",
    ),
    pytest.param(
        Reason.DRIVER_NOT_ON_NODE,
        [
            claim(),
            DYNAMIC,
            driver(),
            node("n1"),
            failed("error generating accessibility requirements: no available topology found"),
            event("PersistentVolumeClaim", "data", "ProvisioningFailed", "rpc error: code = Internal", ago=HOUR),
        ],
        id="the driver is on no node any more",
    ),
    pytest.param(
        Reason.RESIZE_FAILED,
        [resizing("ControllerResizeError"), volume(claim="data", size="5Gi"), storage_class()],
        id="it cannot grow",
    ),
    pytest.param(
        Reason.RESIZE_FAILED,
        [resizing("Resizing"), volume(claim="data", size="5Gi"), storage_class(), NOT_RESIZED],
        id="it cannot grow, by an error that may be temporary",
    ),
    pytest.param(
        Reason.RESIZE_PENDING,
        [
            resizing("FileSystemResizePending"),
            volume(claim="data", size="10Gi"),
            storage_class(),
            NOT_RESIZED,
            event("PersistentVolumeClaim", "data", "FileSystemResizeRequired", "Required", ago=NOTHING, type="Normal"),
        ],
        id="it has grown after a failure, but for the file system",
    ),
    pytest.param(
        Reason.RESIZE_PENDING,
        [resizing("FileSystemResizePending"), volume(claim="data", size="10Gi"), storage_class()],
        id="it has not grown yet",
    ),
]


@pytest.mark.parametrize(("code", "documents"), CASES)
def test_the_cause_that_is_reported(code: Reason, documents: list[Document]) -> None:
    assert_problem(why("pvc/data", *documents), code)


def outside(key: str, value: str, words: str) -> Item:
    """The answer about a claim whose class allows only this, after the provisioner rejected node n1 in these words."""
    allowed = [{"matchLabelExpressions": [{"key": key, "values": [value]}]}]
    fast = {**storage_class(provisioner=DRIVER), "allowedTopologies": allowed}
    chosen = claim(metadata={"annotations": {SELECTED_NODE: "n1"}})
    nodes = (node("n1", "b"), node("n2", "a"))
    rejection = failed(f"error generating accessibility requirements: {words}")
    return why("pvc/data", chosen, fast, *INSTALLED, *nodes, pod("db-0", "data"), rejection, SCHEDULED)


@pytest.mark.parametrize(
    "words",
    [
        "selected node '\"n1\"' topology '[{zone b}]' is not in allowed topologies: [[{hostname n1}]]",
        'topology [{zone b}] from selected node "n1" is not in requisite: [[{hostname n1}]]',
    ],
    ids=["strict topology", "any of the allowed"],
)
def test_allowed_topologies_that_are_none_of_the_driver(words: str) -> None:
    """The scheduler knows every label of the node, the provisioner only the topology keys of the driver."""
    item = outside("kubernetes.io/hostname", "n1", words)
    assert_problem(item, Reason.TOPOLOGY_NOT_ALLOWED)
    assert "allows topologies by kubernetes.io/hostname, which is no topology key of its driver" in item.message
    assert (item.evidence[0].object, item.evidence[0].found) == ("csinode/n1 topologyKeys", ZONE)
    assert item.next[1] == "kubectl -n web delete pvc data"


def test_a_node_that_was_moved_out_of_the_allowed_topologies() -> None:
    item = outside(ZONE, "a", "selected node '\"n1\"' topology '[{zone b}]' is not in allowed topologies: [[{zone a}]]")
    assert_problem(item, Reason.TOPOLOGY_NOT_ALLOWED)
    assert "Node n1, chosen for the volume, is outside the allowedTopologies of fast" in item.message
    assert item.next[1].startswith(f"kubectl -n web annotate pvc data {SELECTED_NODE}-")


def test_the_secret_that_a_class_names_is_named() -> None:
    item = why(
        "pvc/data", claim(), DYNAMIC, *INSTALLED, failed("error getting secret login in namespace web: not found")
    )
    assert "Secret web/login: create it" in item.advice[0]


@pytest.mark.parametrize(("renewed", "state"), [(None, "no such Lease"), (timedelta(hours=1), "1h ago")])
def test_a_volume_that_is_to_grow_without_a_resizer(renewed: timedelta | None, state: str) -> None:
    grows = claim(volume="pv-1", status={"capacity": {"storage": "5Gi"}})
    leases = [] if renewed is None else [lease("external-resizer-disk-csi-example", renewed)]
    item = why("pvc/data", grows, volume(claim="data", size="5Gi"), storage_class(), *leases)
    assert item.code is Reason.RESIZE_PENDING
    assert state in item.evidence[-1].found
    running = lease("external-resizer-disk-csi-example", NOTHING)
    item = why("pvc/data", grows, volume(claim="data", size="5Gi"), storage_class(), running)
    assert len(item.evidence) == 1


@pytest.mark.parametrize(
    ("state", "code", "advice"),
    [
        ("ControllerResizeInProgress", Reason.RESIZE_PENDING, "its Events have the resizer's message"),
        ("ControllerResizeInfeasible", Reason.RESIZE_FAILED, "or lower the request, above 5Gi"),
        ("NodeResizePending", Reason.RESIZE_PENDING, "the file system grows when a pod uses the claim"),
        ("NodeResizeInfeasible", Reason.RESIZE_FAILED, "the volume has grown, and its file system not"),
    ],
)
def test_an_expansion_that_only_the_status_of_the_claim_shows(state: str, code: Reason, advice: str) -> None:
    status = {"capacity": {"storage": "5Gi"}, "allocatedResourceStatuses": {"storage": state}}
    grows = claim(volume="pv-1", status=status)
    item = why("pvc/data", grows, volume(claim="data", size="5Gi"), storage_class())
    assert_problem(item, code)
    assert state in item.evidence[0].found
    assert advice in item.advice[0]


@pytest.mark.parametrize(
    ("condition", "advice"),
    [
        ("ControllerResizeError", "or lower the request, above 5Gi"),
        ("NodeResizeError", "the volume has grown, and its file system not"),
        ("Resizing", "a lower request is ignored"),
    ],
)
def test_a_lower_request_helps_only_after_a_final_error(condition: str, advice: str) -> None:
    item = why("pvc/data", resizing(condition), volume(claim="data", size="5Gi"), storage_class(), NOT_RESIZED)
    assert item.code is Reason.RESIZE_FAILED
    assert advice in item.advice[0]


def test_a_file_system_that_does_not_grow_is_the_kubelets_failure() -> None:
    growing = claim(volume="pv-1", size="20Gi", status={"capacity": {"storage": "10Gi"}})
    failed = event("PersistentVolumeClaim", "data", "FileSystemResizeFailed", "bad superblock", reporter="kubelet")
    item = why("pvc/data", growing, volume(claim="data"), storage_class(), failed)
    assert_problem(item, Reason.RESIZE_FAILED)
    assert item.message == "The volume cannot grow from 10Gi to 20Gi: the kubelet reports an error."
    assert "its file system not" in item.advice[0]


def test_a_file_system_that_cannot_grow_because_its_pod_has_no_node() -> None:
    grows = [resizing("FileSystemResizePending"), volume(claim="data", size="10Gi"), storage_class(), node("n1")]
    item = why("pvc/data", *grows, pod("db-0", "data", cpu="9"), SCHEDULED)
    assert_problem(item, Reason.NO_NODE_FITS)
    assert [link.name for link in item.causes][:2] == ["web/data", "web/db-0"]
    item = why("pvc/data", *grows, pod("db-0", "data", node="n1"), SCHEDULED)
    assert_problem(item, Reason.RESIZE_PENDING)


def test_the_end_of_a_long_error_is_quoted() -> None:
    note = f"rpc error: code = ResourceExhausted desc = {'operation failed: ' * 40}Quota 'SSD_TOTAL_GB' exceeded"
    item = why("pvc/data", claim(), DYNAMIC, *INSTALLED, failed(note))
    assert "Quota 'SSD_TOTAL_GB' exceeded" in item.evidence[0].found
