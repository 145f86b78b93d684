"""The demo's objects: classes, volumes, claims and pods as Kubernetes documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from binder.model.decision import Mode
from binder.reservation.contract import Annotations

Document = dict[str, Any]

HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
IMAGE: Final = "registry.k8s.io/pause:3.10"


@dataclass(frozen=True, slots=True)
class Plan:
    """Where pods and claims go. `gated`: the pod is not scheduled before the controller has reserved its volumes."""

    namespace: str
    storage_class: str
    gated: bool = True
    scheduler: str = "default-scheduler"


def namespace_document(name: str) -> Document:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def storage_class(name: str, mode: Mode | None = None) -> Document:
    """Return a class of pre-provisioned volumes. Without a mode the controller's default applies to it."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": {Annotations().mode: str(mode)} if mode else {}},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume_document(
    name: str, size: str, storage_class: str, place: tuple[str, str], driver: str, labels: Mapping[str, str]
) -> Document:
    """Return a volume accessible from nodes with the label `place`; its handle at the driver is its name."""
    key, value = place
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": storage_class,
            "csi": {"driver": driver, "volumeHandle": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    }


def stateful_set(name: str, sizes: Mapping[str, str], plan: Plan, replicas: int) -> Document:
    """Return a StatefulSet with a claim of each of these sizes, by claim name, for every replica."""
    spec = _pod_spec([(claim, "") for claim in sizes], plan)
    del spec["volumes"]
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": plan.namespace},
        "spec": {
            "serviceName": name,
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
            "volumeClaimTemplates": [
                {"metadata": {"name": claim}, "spec": _claim_spec(size, plan.storage_class, {})}
                for claim, size in sizes.items()
            ],
        },
    }


def claims_and_pod(pod: str, claims: Sequence[tuple[str, str, Mapping[str, str]]], plan: Plan) -> list[Document]:
    """Return a pod preceded by its claims, each a name, a size and the labels of the volumes it selects."""
    made: list[Document] = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": f"{pod}-{name}", "namespace": plan.namespace},
            "spec": _claim_spec(size, plan.storage_class, labels),
        }
        for name, size, labels in claims
    ]
    made.append(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": pod, "namespace": plan.namespace},
            "spec": _pod_spec([(name, f"{pod}-{name}") for name, _, _ in claims], plan),
        }
    )
    return made


def _claim_spec(size: str, storage_class: str, labels: Mapping[str, str]) -> Document:
    spec: Document = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": size}},
    }
    return spec | ({"selector": {"matchLabels": dict(labels)}} if labels else {})


def _pod_spec(claims: list[tuple[str, str]], plan: Plan) -> Document:
    """Return a pod spec that mounts (volume, claim) pairs."""
    volumes = [{"name": volume, "persistentVolumeClaim": {"claimName": claim}} for volume, claim in claims]
    container = {
        "name": "main",
        "image": IMAGE,
        "volumeMounts": [{"name": volume, "mountPath": f"/{volume}"} for volume, _ in claims],
        "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}},
    }
    gates = [{"name": Annotations().gate}] if plan.gated else []
    return {
        "containers": [container],
        "volumes": volumes,
        "schedulingGates": gates,
        "schedulerName": plan.scheduler,
    }
