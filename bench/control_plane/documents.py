"""The objects that the measurements on a control plane create, as small as the API server accepts them."""

from typing import Any, Final

from binder.reservation.contract import Annotations
from devcluster.control_plane.nodes import NodeSpec
from kube.rules.topology import ZONE_LABEL

Document = dict[str, Any]

NAMESPACE: Final = "bench"
CLASS: Final = "bench"


def ready_node(node: NodeSpec) -> Document:
    """A node whose status is Ready from the start, where no kubelet and no kwok reports it."""
    document = node.manifest()
    document["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return document


def storage_class() -> Document:
    """A class without a provisioner, whose claims wait for a pod. The controller's --mode determines how they are
    handled.
    """
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume(name: str, zone: str, gibibytes: int = 1) -> Document:
    """A volume accessible from the nodes of one zone; its source needs no driver, so it is never attached or
    detached.
    """
    return _volume(name, zone, gibibytes, {"hostPath": {"path": f"/volumes/{name}"}})


def csi_volume(name: str, zone: str, driver: str, handle: str) -> Document:
    """A volume of a CSI driver, whose health can be probed."""
    return _volume(name, zone, 1, {"csi": {"driver": driver, "volumeHandle": handle}})


def unusable_volume(name: str) -> Document:
    """A volume of a class that no claim asks for."""
    document = volume(name, "none")
    document["spec"]["storageClassName"] = "none"
    return document


def _volume(name: str, zone: str, gibibytes: int, source: Document) -> Document:
    in_zone = {"key": ZONE_LABEL, "operator": "In", "values": [zone]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": f"{gibibytes}Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Retain",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [in_zone]}]}},
            **source,
        },
    }


def claim(name: str, gibibytes: int = 1) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "resources": {"requests": {"storage": f"{gibibytes}Gi"}},
        },
    }


def pod(name: str, claims: list[str], *, gated: bool) -> Document:
    """A pod that uses these claims; `gated`: with our scheduling gate, so that kube-scheduler waits for the
    controller.
    """
    gate = {"schedulingGates": [{"name": Annotations().gate}]} if gated else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "containers": [{"name": "main", "image": "none"}],
            "volumes": [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims],
            **gate,
        },
    }
