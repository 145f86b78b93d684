"""The demo's stage: nodes, volumes and pods, as Kubernetes documents and as volumes of the directory driver.

Every zone holds volumes that a careless binder would take first: the smallest that fits is sick, or the driver says it
is somewhere else. Only one volume a zone is large enough for an archive, so the three replicas of the database must
end up in three zones, each with all of its claims; and a pod that wants two of them in one zone cannot have them.

A class of its own has as many volumes as the pods that wait want, and the one to be taken first falls sick.
"""

from dataclasses import dataclass
from typing import Any, Final

from binder.reservation import DEFAULT_PREFIX, MODE, gate_name
from kube.topology import ZONE_LABEL

Document = dict[str, Any]

DRIVER: Final = "disk.csi.demo"
NAMESPACE: Final = "demo"
CLASS: Final = "disks"
HINTS_CLASS: Final = "disks-hints"
ZONES: Final = ("zone-a", "zone-b", "zone-c")
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
FAST_CLASS: Final = "fast"
OPENING_HOURS: Final = "demo.example/opening-hours"
"""The scheduling gate of the shop's pods, which is nobody's business but the shop's."""
DATABASE: Final = "db"
SHOP: Final = "shop"
REPLICAS: Final = 3
IMPOSSIBLE_POD: Final = "vault"
PATIENT: Final = "a-fast"
"""The volume that falls sick: the smallest of its class, which Kubernetes would take first."""


@dataclass(frozen=True, slots=True)
class DemoVolume:
    """A volume of the stage.

    `reported_zone` is where the driver says it is; `sickness` is None, "gone", "read-only" or "full".
    `node` is set for a volume that only one node reaches.
    """

    name: str
    size: str
    zone: str
    reported_zone: str
    storage_class: str = CLASS
    sickness: str | None = None
    node: str | None = None

    @property
    def note(self) -> str:
        """Say what is wrong with the volume, in two words, or that nothing is."""
        if self.sickness:
            return f"sick: {self.sickness}"
        return "elsewhere" if self.reported_zone != self.zone else "well"


def node_names() -> list[tuple[str, str]]:
    """Return (node, zone): two nodes in each of three zones."""
    return [(f"node-{zone[-1]}{number}", zone) for zone in ZONES for number in (1, 2)]


def volumes() -> list[DemoVolume]:
    """Return the volumes of the stage, about thirty."""
    made = []
    for zone in ZONES:
        letter = zone[-1]
        rows: tuple[tuple[str, str, str | None], ...] = (
            ("tiny-1", "1Gi", None),
            ("tiny-2", "2Gi", None),
            ("small-0-sick", "10Gi", "gone"),
            ("small-1", "10Gi", None),
            ("small-2", "10Gi", None),
            ("medium-0-sick", "20Gi", "read-only"),
            ("medium-1", "20Gi", None),
            ("medium-2", "22Gi", None),
            ("large", "50Gi", None),
        )
        made += [DemoVolume(f"{letter}-{name}", size, zone, zone, sickness=sick) for name, size, sick in rows]
    made.append(DemoVolume("a-small-0-elsewhere", "10Gi", "zone-a", "zone-c"))
    made += [
        DemoVolume(f"{node.removeprefix('node-')}-nvme", "5Gi", zone, zone, node=node)
        for node, zone in node_names()
        if node.endswith("1")
    ]
    made += [DemoVolume(f"{zone[-1]}-hint", "8Gi", zone, zone, storage_class=HINTS_CLASS) for zone in ZONES[:2]]
    sizes = ("10Gi", "12Gi", "14Gi")
    made += [
        DemoVolume(f"{zone[-1]}-fast", size, zone, zone, storage_class=FAST_CLASS)
        for zone, size in zip(ZONES, sizes, strict=True)
    ]
    return made


def documents() -> list[Document]:
    """Return everything that is created on the cluster at first, in order."""
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        _storage_class(CLASS, {}),
        _storage_class(HINTS_CLASS, {DEFAULT_PREFIX + MODE: "annotate"}),
        _storage_class(FAST_CLASS, {DEFAULT_PREFIX + MODE: "annotate"}),
        *(_volume(volume) for volume in volumes()),
        _stateful_set(DATABASE, {"data": "20Gi", "wal": "10Gi", "archive": "30Gi"}, CLASS),
        *_pod_with_claims("cache", [("scratch", "4Gi", {"media": "nvme"}), ("data", "15Gi", {})]),
        *_pod_with_claims(IMPOSSIBLE_POD, [("cold", "40Gi", {}), ("hot", "40Gi", {})]),
        *_pod_with_claims("reports", [("pages", "6Gi", {})], storage_class=HINTS_CLASS, gated=False),
    ]


def shop_documents() -> list[Document]:
    """Return the pods that wait while a volume falls sick, behind a gate of their own.

    Without ours: once that gate is lifted nothing but quarantine keeps kube-scheduler from the volume.
    """
    shop = _stateful_set(SHOP, {"index": "10Gi"}, FAST_CLASS, gated=False)
    shop["spec"]["template"]["spec"]["schedulingGates"] = [{"name": OPENING_HOURS}]
    return [shop]


def _storage_class(name: str, annotations: dict[str, str]) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": annotations},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _volume(volume: DemoVolume) -> Document:
    key, value = (HOSTNAME_LABEL, volume.node) if volume.node else (ZONE_LABEL, volume.zone)
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume.name, "labels": {"media": "nvme" if volume.node else "disk"}},
        "spec": {
            "capacity": {"storage": volume.size},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": volume.storage_class,
            "csi": {"driver": DRIVER, "volumeHandle": volume.name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    }


def _claim_spec(size: str, storage_class: str, labels: dict[str, str]) -> Document:
    spec: Document = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": size}},
    }
    return spec | ({"selector": {"matchLabels": labels}} if labels else {})


def _pod_spec(claims: list[tuple[str, str]], *, gated: bool = True) -> Document:
    """Return a pod spec that mounts (volume, claim) pairs. Gated, kube-scheduler waits until the volumes are held."""
    volumes = [{"name": volume, "persistentVolumeClaim": {"claimName": claim}} for volume, claim in claims]
    container = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "volumeMounts": [{"name": volume, "mountPath": f"/{volume}"} for volume, _ in claims],
        "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}},
    }
    gates = [{"name": gate_name()}] if gated else []
    return {"containers": [container], "volumes": volumes, "schedulingGates": gates}


def _stateful_set(name: str, sizes: dict[str, str], storage_class: str, *, gated: bool = True) -> Document:
    """Return a StatefulSet with a claim of each of these sizes for every replica."""
    spec = _pod_spec([(claim, "") for claim in sizes], gated=gated)
    del spec["volumes"]
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "serviceName": name,
            "replicas": REPLICAS,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
            "volumeClaimTemplates": [
                {"metadata": {"name": claim}, "spec": _claim_spec(size, storage_class, {})}
                for claim, size in sizes.items()
            ],
        },
    }


def _pod_with_claims(
    pod: str, claims: list[tuple[str, str, dict[str, str]]], storage_class: str = CLASS, *, gated: bool = True
) -> list[Document]:
    made: list[Document] = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": f"{pod}-{name}", "namespace": NAMESPACE},
            "spec": _claim_spec(size, storage_class, labels),
        }
        for name, size, labels in claims
    ]
    made.append(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": pod, "namespace": NAMESPACE},
            "spec": _pod_spec([(name, f"{pod}-{name}") for name, _, _ in claims], gated=gated),
        }
    )
    return made
