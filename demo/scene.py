"""The demo's stage: nodes, volumes and pods, as Kubernetes documents and as volumes of the directory driver.

Every zone has volumes that Kubernetes alone would take first: the smallest that fits is unhealthy, or its driver
reports another zone. Only one volume per zone is large enough for an archive, so the three replicas of the database
must be placed in three zones, each with all of its claims; and a pod that needs two of them in one zone cannot have
them.

A separate class has as many volumes as there are waiting pods, and the one that would be taken first becomes unhealthy.
"""

from dataclasses import dataclass
from typing import Final

from binder.model.decision import Mode
from demo.documents import (
    HOSTNAME_LABEL,
    Document,
    Plan,
    claims_and_pod,
    namespace_document,
    stateful_set,
    storage_class,
    volume_document,
)
from kube.rules.topology import ZONE_LABEL

DRIVER: Final = "disk.csi.demo"
NAMESPACE: Final = "demo"
CLASS: Final = "disks"
HINTS_CLASS: Final = "disks-hints"
ZONES: Final = ("zone-a", "zone-b", "zone-c")
FAST_CLASS: Final = "fast"
OPENING_HOURS: Final = "demo.example/opening-hours"
"""The scheduling gate of the shop's pods, which only the shop removes."""
DATABASE: Final = "db"
SHOP: Final = "shop"
REPLICAS: Final = 3
IMPOSSIBLE_POD: Final = "vault"
_PLAN: Final = Plan(NAMESPACE, CLASS)
HEALTHY: Final = "healthy"
PATIENT: Final = "a-fast"
"""The volume that becomes unhealthy: the smallest of its class, which Kubernetes would take first."""


@dataclass(frozen=True, slots=True)
class DemoVolume:
    """A volume of the stage.

    `reported_zone` is where the driver reports it; `fault` is None, "gone", "read-only" or "full". `node` is set for a
    volume that is accessible from one node only.
    """

    name: str
    size: str
    zone: str
    reported_zone: str
    storage_class: str = CLASS
    fault: str | None = None
    node: str | None = None

    @property
    def note(self) -> str:
        """Return in a few words what its driver would report."""
        if self.fault:
            return f"unhealthy: {self.fault}"
        return f"accessible from {self.reported_zone}" if self.reported_zone != self.zone else HEALTHY


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
            ("small-0-unhealthy", "10Gi", "gone"),
            ("small-1", "10Gi", None),
            ("small-2", "10Gi", None),
            ("medium-0-unhealthy", "20Gi", "read-only"),
            ("medium-1", "20Gi", None),
            ("medium-2", "22Gi", None),
            ("large", "50Gi", None),
        )
        made += [DemoVolume(f"{letter}-{name}", size, zone, zone, fault=unhealthy) for name, size, unhealthy in rows]
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


def storage_documents() -> list[Document]:
    """Return the initial objects: namespace, classes and volumes."""
    return [
        namespace_document(NAMESPACE),
        storage_class(CLASS),
        storage_class(HINTS_CLASS, Mode.ANNOTATE),
        storage_class(FAST_CLASS, Mode.ANNOTATE),
        *(_document(volume) for volume in volumes()),
    ]


def pod_documents() -> list[Document]:
    """Return the pods of the first act with their claims."""
    return [
        stateful_set(DATABASE, {"data": "20Gi", "wal": "10Gi", "archive": "30Gi"}, _PLAN, REPLICAS),
        *claims_and_pod("cache", [("scratch", "4Gi", {"media": "nvme"}), ("data", "15Gi", {})], _PLAN),
        *claims_and_pod(IMPOSSIBLE_POD, [("cold", "40Gi", {}), ("hot", "40Gi", {})], _PLAN),
        *claims_and_pod("reports", [("pages", "6Gi", {})], Plan(NAMESPACE, HINTS_CLASS, gated=False)),
    ]


def shop_documents() -> list[Document]:
    """Return the pods that wait while a volume becomes unhealthy, with a gate of their own.

    Without our gate: once theirs is removed only quarantine keeps kube-scheduler from the volume.
    """
    shop = stateful_set(SHOP, {"index": "10Gi"}, Plan(NAMESPACE, FAST_CLASS, gated=False), REPLICAS)
    shop["spec"]["template"]["spec"]["schedulingGates"] = [{"name": OPENING_HOURS}]
    return [shop]


def _document(volume: DemoVolume) -> Document:
    key, value = (HOSTNAME_LABEL, volume.node) if volume.node else (ZONE_LABEL, volume.zone)
    media = "nvme" if volume.node else "disk"
    return volume_document(volume.name, volume.size, volume.storage_class, (key, value), DRIVER, {"media": media})
