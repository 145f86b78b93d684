"""Kubernetes documents for the stories: classes, volumes, claims, pods, StatefulSets, as plain JSON."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

Document = dict[str, Any]

ZONE: Final = "topology.kubernetes.io/zone"
ZONES: Final = ("zone-a", "zone-b", "zone-c")
HOSTNAME: Final = "kubernetes.io/hostname"
PREFIX: Final = "scheduler.cloud.example/"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
DELAYED, IMMEDIATE = "WaitForFirstConsumer", "Immediate"


def storage_class(
    name: str,
    mode: str | None,
    *,
    binding: str = DELAYED,
    provisioner: str = NO_PROVISIONER,
    prefix: str = PREFIX,
) -> Document:
    """A class whose claims are handled in `mode`; None says nothing, so that the controller's flag decides."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": {} if mode is None else {f"{prefix}mode": mode}},
        "provisioner": provisioner,
        "volumeBindingMode": binding,
    }


def volume(
    name: str,
    storage_class: str,
    *,
    zone: str | None = None,
    node: str | None = None,
    size: str = "1Gi",
    driver: str = "none.csi.example",
    handle: str | None = None,
    access_modes: Sequence[str] = ("ReadWriteOnce",),
    reclaim_policy: str = "Retain",
    labels: Mapping[str, str] | None = None,
) -> Document:
    """A CSI volume, reachable from a zone, from one node, or from everywhere."""
    spec: Document = {
        "capacity": {"storage": size},
        "accessModes": list(access_modes),
        "persistentVolumeReclaimPolicy": reclaim_policy,
        "storageClassName": storage_class,
        "csi": {"driver": driver, "volumeHandle": handle or name},
    }
    if zone or node:
        key, value = (HOSTNAME, node) if node else (ZONE, zone)
        terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    metadata = {"name": name, "labels": dict(labels or {})}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}


def claim_spec(storage_class: str, size: str = "1Gi", access_modes: Sequence[str] = ("ReadWriteOnce",)) -> Document:
    return {
        "accessModes": list(access_modes),
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": size}},
    }


def claim(namespace: str, name: str, spec: Document) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": namespace, "name": name},
        "spec": spec,
    }


def pod_spec(
    claims: Sequence[str] = (),
    *,
    ephemeral: Mapping[str, Document] | None = None,
    gated: bool = False,
    gate: str = f"{PREFIX}volumes",
    extra: Mapping[str, Any] | None = None,
) -> Document:
    """A pod that mounts these claims and generic ephemeral volumes (name -> claim spec).

    `gated` puts our scheduling gate on it; `extra` is laid over the spec (nodeSelector, tolerations, ...).
    """
    volumes: list[Document] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    volumes += [
        {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": spec}}} for name, spec in (ephemeral or {}).items()
    ]
    mounts = [{"name": each["name"], "mountPath": f"/{each['name']}"} for each in volumes]
    container = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "volumeMounts": mounts,
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    gates = {"schedulingGates": [{"name": gate}]} if gated else {}
    return {"containers": [container], "volumes": volumes, **gates, **(extra or {})}


def pod(namespace: str, name: str, spec: Document) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name},
        "spec": spec,
    }


def stateful_set(
    namespace: str, name: str, templates: Mapping[str, Document], *, replicas: int, gated: bool = False
) -> Document:
    """A StatefulSet with a claim template (name -> claim spec) each; its claims are called TEMPLATE-NAME-ORDINAL."""
    spec = pod_spec(tuple(templates), gated=gated)
    del spec["volumes"]
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "serviceName": name,
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
            "volumeClaimTemplates": [
                {"metadata": {"name": template}, "spec": claim} for template, claim in templates.items()
            ],
        },
    }


def claims_of(pod: Document) -> list[str]:
    """Return the names of the claims a pod uses, those of its generic ephemeral volumes included."""
    name = pod["metadata"]["name"]
    return [
        each["persistentVolumeClaim"]["claimName"] if "persistentVolumeClaim" in each else f"{name}-{each['name']}"
        for each in pod["spec"].get("volumes", ())
        if "persistentVolumeClaim" in each or "ephemeral" in each
    ]
