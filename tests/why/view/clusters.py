"""Clusters as dumps: a small one with everything that the page can show, and one of any size."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kube.objects.model import BIND_COMPLETED
from tests.builders import ZONE

Document = dict[str, Any]
PREFIX = "scheduler.cloud.example/"
DRIVER = "ebs.csi.example.com"
LOCAL = "local-ssd"
HOSTNAME = "kubernetes.io/hostname"


class Cluster:
    """Collects the objects of a dump. `now` is the time from which ages are counted."""

    def __init__(self, now: datetime | None = None) -> None:
        self.now = now or datetime.now(UTC)
        self.objects: list[Document] = []

    def time(self, minutes: float) -> str:
        return (self.now - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def node(self, name: str, zone: str, *, cordoned: bool = False, taint: str = "", limit: int = 25) -> None:
        labels = {HOSTNAME: name, **({ZONE: zone} if zone else {})}
        spec: Document = {"unschedulable": cordoned}
        if taint:
            spec["taints"] = [{"key": taint, "effect": "NoSchedule"}]
        capacity = {"cpu": "16", "memory": "64Gi", "pods": "110"}
        self._add("v1", "Node", name, spec=spec, status={"allocatable": capacity}, labels=labels)
        drivers = [{"name": DRIVER, "nodeID": name, "topologyKeys": [ZONE], "allocatable": {"count": limit}}]
        self._add("storage.k8s.io/v1", "CSINode", name, spec={"drivers": drivers})

    def storage_class(self, name: str, provisioner: str = DRIVER, mode: str = "WaitForFirstConsumer") -> None:
        self._add("storage.k8s.io/v1", "StorageClass", name, provisioner=provisioner, volumeBindingMode=mode)

    def volume(self, name: str, zone: str, storage_class: str = "fast", size: str = "20Gi", **how: Any) -> None:
        """A volume: `claim` binds it, `node` makes it local, `health` and `annotations` are ours."""
        where = {"key": HOSTNAME, "operator": "In", "values": [how["node"]]} if "node" in how else None
        where = where or {"key": ZONE, "operator": "In", "values": [zone]}
        spec: Document = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "persistentVolumeReclaimPolicy": "Retain",
        }
        if "node" in how:
            del spec["csi"]
            spec["local"] = {"path": f"/mnt/{name}"}
        if zone or "node" in how:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}}
        if claim := how.get("claim"):
            namespace, _, own = claim.partition("/")
            spec["claimRef"] = {"namespace": namespace, "name": own, "uid": how.get("uid", f"uid-{claim}")}
        annotations = dict(how.get("annotations", {}))
        if health := how.get("health"):
            annotations |= {f"{PREFIX}health": health, f"{PREFIX}health-reason": how.get("reason", "")}
        labels = {ZONE: zone} if zone else {}
        phase = how.get("phase", "Bound" if claim else "Available")
        self._add(
            "v1",
            "PersistentVolume",
            name,
            spec=spec,
            status={"phase": phase},
            labels=labels,
            annotations=annotations,
        )

    def claim(
        self, key: str, volume: str = "", storage_class: str = "fast", size: str = "20Gi", age: float = 14
    ) -> None:
        namespace, _, name = key.partition("/")
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
            **({"volumeName": volume} if volume else {}),
        }
        annotations = {BIND_COMPLETED: "yes"} if volume else {}
        self._add(
            "v1",
            "PersistentVolumeClaim",
            name,
            namespace,
            age=age,
            uid=f"uid-{key}",
            spec=spec,
            status={"phase": "Bound" if volume else "Pending"},
            annotations=annotations,
        )

    def pod(self, key: str, claims: tuple[str, ...], node: str = "", age: float = 14, **spec: Any) -> None:
        namespace, _, name = key.partition("/")
        volumes = [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": each}} for n, each in enumerate(claims)]
        requests = {"cpu": "100m", "memory": "64Mi"}
        body = {"containers": [{"name": "main", "resources": {"requests": requests}}], "volumes": volumes, **spec}
        status: Document = {"phase": "Running"}
        if node:
            body["nodeName"] = node
        else:
            rejected = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": ""}
            status = {"phase": "Pending", "conditions": [rejected]}
        self._add("v1", "Pod", name, namespace, age=age, spec=body, status=status)

    def used(self, name: str, zone: str, key: str, pod: str, node: str, **how: Any) -> None:
        """A bound volume with its claim, its pod and its attachment."""
        namespace, _, own = key.partition("/")
        storage_class = how.get("storage_class", "fast")
        self.volume(name, zone, storage_class, claim=key, **{k: v for k, v in how.items() if k != "storage_class"})
        self.claim(key, name, storage_class, age=4000)
        self.pod(f"{namespace}/{pod}", (own,), node, age=4000)
        if "node" not in how:
            spec = {"attacher": DRIVER, "nodeName": node, "source": {"persistentVolumeName": name}}
            self._add("storage.k8s.io/v1", "VolumeAttachment", f"csi-{name}", spec=spec, status={"attached": True})

    def reserved(self, name: str, zone: str, key: str) -> None:
        until = (self.now + timedelta(minutes=9)).strftime("%Y-%m-%dT%H:%M:%SZ")
        reservation = {
            "reserved-for": key,
            "reserved-for-uid": f"uid-{key}",
            "bound-at": self.time(1),
            "expires-at": until,
            "reserved-by": "pvc-prebinder-0/3",
        }
        self.volume(name, zone, annotations={f"{PREFIX}{key}": value for key, value in reservation.items()})

    def quarantined(self, name: str, zone: str, why: str) -> None:
        self.volume(
            name,
            zone,
            claim=f"pvc-prebinder/quarantine-{name}",
            uid="",
            phase="Available",
            health="Inaccessible",
            reason=why,
            annotations={f"{PREFIX}quarantine": f"Inaccessible: {why}", f"{PREFIX}quarantined-at": self.time(30)},
        )

    def event(self, key: str, reason: str, note: str) -> None:
        namespace, _, name = key.partition("/")
        involved = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
        event: Document = {"involvedObject": involved, "reason": reason, "message": note, "type": "Warning", "count": 3}
        self._add("v1", "Event", f"{name}.1", namespace, lastTimestamp=self.time(1), source={"component": "x"}, **event)

    def dump(self, path: Path) -> str:
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": self.objects}))
        return str(path)

    def _add(self, api: str, kind: str, name: str, namespace: str = "", age: float = 90000, **body: Any) -> None:
        metadata = {
            "name": name,
            "uid": body.pop("uid", f"uid-{kind}-{namespace}/{name}"),
            "creationTimestamp": self.time(age),
            "resourceVersion": str(len(self.objects) + 1),
            "labels": body.pop("labels", {}),
            "annotations": body.pop("annotations", {}),
            **({"namespace": namespace} if namespace else {}),
        }
        self.objects.append({"apiVersion": api, "kind": kind, "metadata": metadata, **body})


ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")


def small() -> Cluster:
    """Three zones, and an example of every problem."""
    cluster = Cluster()
    for name, provisioner in (
        ("fast", DRIVER),
        ("static", "kubernetes.io/no-provisioner"),
        (LOCAL, "kubernetes.io/no-provisioner"),
    ):
        cluster.storage_class(name, provisioner)
    names = {zone: [f"ip-10-0-{place}-{number}" for number in (7, 18, 42, 61)] for place, zone in enumerate(ZONES)}
    for zone, nodes in names.items():
        for node in nodes:
            cluster.node(node, zone, cordoned=zone == ZONES[0], taint=_taint(node))
    _workloads(cluster, names)
    _free(cluster, names)
    _waiting(cluster)
    return cluster


def _taint(node: str) -> str:
    return "node.kubernetes.io/not-ready" if node == "ip-10-0-2-61" else ""


def _workloads(cluster: Cluster, names: dict[str, list[str]]) -> None:
    apps = ("shop/db", "shop/search", "web/cache", "data/kafka", "data/zookeeper", "ml/features")
    for number, (zone, node) in enumerate((zone, node) for zone, nodes in names.items() for node in nodes):
        for place in range((number * 5) % 7 + 3):
            app = apps[(number + place) % len(apps)]
            namespace, _, name = app.partition("/")
            own = f"{name}-{number}-{place}"
            how: Document = {}
            if (number, place) == (4, 1):
                how = {"health": "Degraded", "reason": "HighLatency"}
            if (number, place) == (10, 0):
                how = {"health": "Inaccessible", "reason": "VolumeNotFound"}
            cluster.used(f"pv-{name}-{number:02}{place}", zone, f"{namespace}/data-{own}", own, node, **how)


def _free(cluster: Cluster, names: dict[str, list[str]]) -> None:
    for zone, amount in zip(ZONES, (11, 4, 7), strict=True):
        for number in range(amount):
            cluster.volume(f"pv-free-{zone[-1]}{number:02}", zone, "static", "50Gi" if number % 3 else "100Gi")
        for node in names[zone][:2]:
            cluster.volume(f"ssd-{node}", zone, LOCAL, "800Gi", node=node)
    for number in range(3):
        cluster.volume(f"pv-old-{number}", "us-east-1b", "static", phase="Released", claim=f"old/data-{number}")
    cluster.quarantined("pv-lost-1", "us-east-1c", "DeviceNotFound")
    cluster.quarantined("pv-lost-2", "us-east-1c", "DeviceNotFound")


def _waiting(cluster: Cluster) -> None:
    cluster.volume("pv-orders", "us-east-1a", claim="shop/data-orders-0")
    cluster.claim("shop/data-orders-0", "pv-orders")
    cluster.pod("shop/orders-0", ("data-orders-0",))
    for number in range(3):
        cluster.claim(f"ml/scratch-{number}", storage_class="gold", age=190 + number)
    cluster.claim("data/archive", storage_class="static", size="500Gi", age=55)
    cluster.pod("data/archiver-0", ("archive",), age=55)
    cluster.claim("dev/tmp", storage_class="fast", age=2880)
    cluster.reserved("pv-held-1", "us-east-1b", "web/sessions-0")
    cluster.claim("web/sessions-0", age=1)
    cluster.pod("web/sessions-0", ("sessions-0",), age=1)


def many(nodes: int, volumes: int, zones: int = 3) -> Cluster:
    """A cluster of this size: four fifths of the volumes are bound, one in 500 is unhealthy."""
    cluster = Cluster()
    cluster.storage_class("fast")
    for number in range(nodes):
        cluster.node(f"node-{number:04}", f"zone-{number % zones}", cordoned=number % 97 == 5, limit=39)
    for number, how in enumerate(_healths(volumes)):
        node = number % nodes
        name, zone = f"pv-{number:05}", f"zone-{node % zones}"
        if number % 5 < 4:
            cluster.used(
                name, zone, f"team-{number % 40}/data-{number:05}", f"app-{number:05}", f"node-{node:04}", **how
            )
        else:
            cluster.volume(name, zone, **how)
    for number in range(20):
        cluster.claim(f"team-{number % 3}/new-{number}", storage_class="gold" if number % 2 else "fast")
    return cluster


def _healths(volumes: int) -> Iterator[Document]:
    for number in range(volumes):
        yield {"health": "Inaccessible", "reason": "VolumeNotFound"} if number % 500 == 7 else {}
