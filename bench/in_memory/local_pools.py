"""The objects of a driver with node-local pools, and claims whose volumes are being made there, as an API server sends
them."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from bench.control_plane.documents import CLASS, NAMESPACE, claim, pod
from binder.model.decision import Mode
from binder.reservation.contract import STRICT, Annotations
from kube.objects.model import PROVISIONER_ANNOTATIONS, SELECTED_NODE
from kube.rules.topology import HOSTNAME_LABEL

Document = dict[str, Any]

DRIVER: Final = "pools.csi.example"
MADE: Final = f"{CLASS}-made"
POOL_GIB: Final = 200
SELECTED_AT: Final = "2026-03-01T09:30:00Z"
_KEYS: Final = Annotations()
_STORAGE: Final = {"apiVersion": "storage.k8s.io/v1"}


def driver() -> Document:
    """A driver that reports capacity, and attaches nothing."""
    spec = {"attachRequired": False, "storageCapacity": True}
    return {**_STORAGE, "kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": spec}


def provisioning_class(name: str = MADE) -> Document:
    """A class in mode provision; all of this driver's share their pools."""
    annotations = {_KEYS.mode: str(Mode.PROVISION), _KEYS.topology: STRICT}
    fields = {"provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
    return {**_STORAGE, "kind": "StorageClass", "metadata": {"name": name, "annotations": annotations}, **fields}


def csi_node(node: str) -> Document:
    """The driver's registration on a node."""
    registered = {"name": DRIVER, "nodeID": node, "topologyKeys": [HOSTNAME_LABEL]}
    return {**_STORAGE, "kind": "CSINode", "metadata": {"name": node}, "spec": {"drivers": [registered]}}


def report(node: str, of: str = MADE) -> Document:
    """What the driver reports of the node's pool for a class."""
    return {
        **_STORAGE,
        "kind": "CSIStorageCapacity",
        "metadata": {"name": f"{of}-{node}", "namespace": NAMESPACE},
        "storageClassName": of,
        "nodeTopology": {"matchLabels": {HOSTNAME_LABEL: node}},
        "capacity": f"{POOL_GIB}Gi",
    }


def made_claim(name: str, gibibytes: int, *, node: str = "", of: str = MADE) -> Document:
    """A claim of a class in mode provision; `node` is the one for which we had its volume made a moment ago."""
    document = claim(name, gibibytes)
    document["spec"]["storageClassName"] = of
    if node:
        annotations = {SELECTED_NODE: node, _KEYS.selected_at: SELECTED_AT, PROVISIONER_ANNOTATIONS[0]: DRIVER}
        document["metadata"]["annotations"] = annotations
    return document


def in_flight(nodes: Sequence[str], claims: int) -> Iterator[Document]:
    """Yield so many claims, each in flight on one of the nodes in turn."""
    for number in range(claims):
        yield made_claim(f"flying-{number:05}", 10, node=nodes[number % len(nodes)])


def wanting(name: str, *gibibytes: int) -> Iterator[Document]:
    """Yield a gated pod and claims of these sizes, whose volumes are to be made."""
    claims = [made_claim(f"{name}-{number}", size) for number, size in enumerate(gibibytes)]
    yield from claims
    yield pod(name, [each["metadata"]["name"] for each in claims], gated=True)
