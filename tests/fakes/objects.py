"""Objects as the API server stores them: JSON with what a test is about, and useful defaults."""

from collections.abc import Iterable, Mapping
from typing import Any

from binder.reservation.contract import Annotations

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
Object = dict[str, Any]
NO_NODE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def class_object(name: str = "fast", mode: str | None = None, binding_mode: str = "WaitForFirstConsumer") -> Object:
    annotations = {"scheduler.cloud.example/mode": mode} if mode else {}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": annotations},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": binding_mode,
    }


def node_pool_object(
    name: str = "default", zones: Iterable[str] = ("a", "b"), *, limits: Object | None = None, ready: bool = True
) -> Object:
    """A NodePool of Karpenter that adds nodes in these zones."""
    zone = {"key": ZONE, "operator": "In", "values": list(zones)}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"requirements": [zone]}}, "limits": limits or {}},
        "status": {"conditions": [{"type": "Ready", "status": str(ready), "message": "NodeClassReady=False"}]},
    }


def volume_object(
    name: str,
    size: str = "10Gi",
    *,
    zone: str | None = "a",
    node: str | None = None,
    storage_class: str = "fast",
    claim: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    phase: str = "Available",
    reclaim_policy: str = "Retain",
) -> Object:
    place = [(ZONE, zone), (HOSTNAME, node)]
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in place if value is not None]
    spec: Object = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "volumeMode": "Filesystem",
        "persistentVolumeReclaimPolicy": reclaim_policy,
        "csi": {"driver": "disk.csi.example", "volumeHandle": f"handle-{name}"},
    }
    if expressions:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    if claim is not None:
        spec["claimRef"] = dict(claim)
    metadata: Object = {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": phase},
    }


def claim_object(
    name: str, size: str = "10Gi", *, storage_class: str = "fast", uid: str | None = None, namespace: str = "default"
) -> Object:
    metadata: Object = {"name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z"}
    if uid is not None:
        metadata["uid"] = uid
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": {
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "volumeMode": "Filesystem",
        },
        "status": {"phase": "Pending"},
    }


def pod_object(
    name: str,
    claims: Iterable[str],
    *,
    namespace: str = "default",
    node: str = "",
    gated: bool = False,
    unschedulable: bool = False,
) -> Object:
    """`unschedulable`: kube-scheduler has found no node for it, so it is not working on the pod."""
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": claim}} for i, claim in enumerate(claims)]
    spec: Object = {"containers": [{"name": "main"}], "volumes": volumes, "schedulerName": "default-scheduler"}
    if node:
        spec["nodeName"] = node
    if gated:
        spec["schedulingGates"] = [{"name": Annotations().gate}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": spec,
        "status": {"phase": "Pending"} | ({"conditions": [dict(NO_NODE)]} if unschedulable else {}),
    }


def node_object(name: str, zone: str = "a") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: zone}},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def csi_node_object(name: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": [{"name": "disk.csi.example", "nodeID": name, "topologyKeys": [ZONE]}]},
    }
