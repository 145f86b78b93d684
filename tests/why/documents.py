"""Objects as the API prints them, for one namespace `web`, and facts made of them."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from binder.matching.rejection import Reason, Rejection
from kube.objects.model import BIND_COMPLETED
from tests.builders import ZONE
from why.explain.answering import report_on
from why.explain.targets import parse_target
from why.facts.facts import Facts, Source
from why.reading.gathering import Gathering
from why.report.report import Item

Document = dict[str, Any]
NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
NAMESPACE = "web"
DRIVER = "disk.csi.example"
STATIC = "kubernetes.io/no-provisioner"


def at(ago: timedelta) -> str:
    return (NOW - ago).strftime("%Y-%m-%dT%H:%M:%SZ")


def metadata(name: str, namespace: str | None = NAMESPACE, **more: Any) -> Document:
    made = {"name": name, "uid": f"uid-{name}", "creationTimestamp": at(timedelta(minutes=14)), **more}
    return made if namespace is None else {**made, "namespace": namespace}


def claim(name: str = "data", storage_class: str | None = "fast", size: str = "10Gi", **how: Any) -> Document:
    """A pending claim; `volume` binds it, `spec`, `status` and `metadata` are laid over."""
    volume = how.get("volume")
    annotations = {BIND_COMPLETED: "yes"} if volume else {}
    about = {"annotations": annotations, **how.get("metadata", {})}
    spec: Document = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    if volume:
        spec["volumeName"] = volume
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(name, **about),
        "spec": {**spec, **how.get("spec", {})},
        "status": {"phase": "Bound" if volume else "Pending", **how.get("status", {})},
    }


def volume(name: str = "pv-1", storage_class: str = "fast", size: str = "10Gi", **how: Any) -> Document:
    """A volume; `zone` is where it is, `claim` whose it is, `phase` follows from that."""
    spec: Document = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "csi": {"driver": DRIVER, "volumeHandle": f"handle-{name}"},
    }
    owner = how.get("claim")
    if owner:
        spec["claimRef"] = {"namespace": NAMESPACE, "name": owner, "uid": how.get("claim_uid", f"uid-{owner}")}
    if zone := how.get("zone"):
        terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata(name, None, **how.get("metadata", {})),
        "spec": {**spec, **how.get("spec", {})},
        "status": {"phase": how.get("phase", "Bound" if owner else "Available"), **how.get("status", {})},
    }


def storage_class(name: str = "fast", provisioner: str = STATIC, mode: str = "WaitForFirstConsumer") -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata(name, None),
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


def default_class(name: str, **how: Any) -> Document:
    made = storage_class(name, **how)
    made["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    return made


def pod(name: str = "db-0", *claims: str, **how: Any) -> Document:
    """A pod that kube-scheduler found no node for; `node` places it, `spec` and `status` are laid over."""
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    requests = {"cpu": how.get("cpu", "1")}
    spec = {"containers": [{"name": "main", "resources": {"requests": requests}}], "volumes": volumes}
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    status: Document = {"phase": "Pending", "conditions": conditions}
    if node := how.get("node"):
        spec["nodeName"] = node
        status = {"phase": "Running"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(name, **how.get("metadata", {})),
        "spec": {**spec, **how.get("spec", {})},
        "status": {**status, **how.get("status", {})},
    }


def node(name: str, zone: str = "a", *, cordoned: bool = False, cpu: str = "4") -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(name, None, labels={ZONE: zone, "kubernetes.io/hostname": name}),
        "spec": {"unschedulable": cordoned},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"},
            "nodeInfo": {"kubeletVersion": "v1.37.1"},
        },
    }


def driver(name: str = DRIVER, **spec: Any) -> Document:
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": metadata(name, None), "spec": spec}


def csi_node(name: str, *drivers: str, limit: int | None = None) -> Document:
    count = {} if limit is None else {"allocatable": {"count": limit}}
    entries = [{"name": each, "nodeID": name, "topologyKeys": [ZONE], **count} for each in drivers]
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": metadata(name, None),
        "spec": {"drivers": entries},
    }


def event(kind: str, name: str, reason: str, note: str, **how: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata(f"{name}.{reason}"),
        "involvedObject": {"kind": kind, "namespace": NAMESPACE, "name": name},
        "type": how.get("type", "Warning"),
        "reason": reason,
        "message": note,
        "source": {"component": how.get("reporter", "persistentvolume-controller")},
        "lastTimestamp": at(how.get("ago", timedelta(minutes=1))),
    }


def lease(name: str, ago: timedelta, namespace: str = "kube-system") -> Document:
    renewed = (NOW - ago).strftime("%Y-%m-%dT%H:%M:%S.000000Z")
    spec = {"holderIdentity": "one", "leaseDurationSeconds": 15, "renewTime": renewed}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata(name, namespace),
        "spec": spec,
    }


SCHEDULED = lease("kube-scheduler", timedelta(seconds=2))
"""kube-scheduler is alive."""

SYSTEM_POD = pod("coredns", node="a1", metadata={"namespace": "kube-system"})
"""Every cluster has pods: a dump without any is a part of one."""

RESERVED_FOR_OTHER = {
    f"scheduler.cloud.example/{key}": value
    for key, value in {
        "reserved-for": "web/other",
        "reserved-for-uid": "uid-other",
        "reserved-by": "one/1",
        "bound-at": at(timedelta(minutes=1)),
        "expires-at": at(timedelta(minutes=-5)),
    }.items()
}
"""Annotations of a volume that is reserved for another claim."""

BOUND = [claim(volume="pv-1"), volume(claim="data", zone="a"), storage_class()]
"""A claim bound to a volume of zone a."""


AHEAD_OF_NODE = [
    claim(volume="pv-1"),
    volume(
        claim="data",
        zone="b",
        metadata={"annotations": {"scheduler.cloud.example/awaits-node": f"uid-db-0 {at(timedelta(minutes=14))}"}},
    ),
    storage_class(),
    event(
        "Pod",
        "db-0",
        "FailedScheduling",
        'Failed to schedule pod, incompatible with nodepool "default", all available instance types exceed limits for '
        "nodepool",
        reporter="karpenter",
    ),
]
"""A claim bound to a volume of zone b for a node that Karpenter does not add: its NodePool has reached its limit."""


def facts_of(*documents: Document, without: Iterable[Source] = ()) -> Facts:
    """Everything is read but what is `without`, which is forbidden."""
    gathering = Gathering("scheduler.cloud.example/")
    for each in documents:
        gathering.take(json.dumps(each).encode(), each["apiVersion"], each["kind"], "test")
    assert not gathering.faults
    skipped = dict.fromkeys(without, "forbidden")
    return gathering.facts(NOW, set(Source) - set(skipped), skipped)


def why(target: str, *documents: Document, without: Iterable[Source] = ()) -> Item:
    """The answer about one object of the namespace."""
    report = report_on(facts_of(*documents, without=without), (parse_target(target),), NAMESPACE)
    assert len(report.items) == 1
    return report.items[0]


def assert_problem(item: Item, code: Reason) -> None:
    """The item is a problem of this kind, and names a next step."""
    assert (item.code, item.problem) == (code, True), item
    assert item.next


def held_for(owner: str, ordinal: int, name: str, set_uid: str = "uid-set", template: str = "data") -> Document:
    """A volume of zone a that is held for a replica to come of a StatefulSet."""
    claim_name = f"{template}-{owner}-{ordinal}"
    notes = {"held-for": f"{NAMESPACE}/{claim_name}", "held-set-uid": set_uid, "held-by": "one/1"}
    marks = {f"scheduler.cloud.example/{key}": text for key, text in notes.items()}
    about: Document = {"claim": claim_name, "claim_uid": "", "phase": "Available", "metadata": {"annotations": marks}}
    return volume(name, zone="a", **about)


NONE_FOR_FOUR: Final = event(
    "StatefulSet",
    "db",
    "VolumesNotHeld",
    "Volumes are held for replica 3; none for replica 4: at most 1 of 2 volumes of class fast are held, 1 are",
    reporter="scheduler.cloud.example/pvc-prebinder",
)
"""The controller's Event on a StatefulSet that wants volumes for more replicas."""

DYNAMIC: Final = storage_class(provisioner=DRIVER, mode="Immediate")
INSTALLED: Final = (driver(), csi_node("n1", DRIVER))
"""The driver, and a node on which it runs."""


def reporting(name: str, ready: str, ago: timedelta = timedelta(minutes=5), zone: str = "a") -> Document:
    """A node with this status of its condition Ready, and the taint that goes with it."""
    key = {"Unknown": "node.kubernetes.io/unreachable", "False": "node.kubernetes.io/not-ready"}.get(ready)
    made = node(name, zone)
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": at(ago)}
    taints = [{"key": key, "effect": "NoExecute"}] if key else []
    return {**made, "spec": {"taints": taints}, "status": {**made["status"], "conditions": [condition]}}


def kubelet_lease(node_name: str, ago: timedelta) -> Document:
    return lease(node_name, ago, "kube-node-lease")


def of_deployment(made: Document, name: str, template: str) -> Document:
    """The pod as one of a Deployment's ReplicaSet for this hash of its template."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{name}-{template}", "uid": f"uid-{template}"}
    about = {"labels": {"pod-template-hash": template}, "ownerReferences": [{**owner, "controller": True}]}
    return {**made, "metadata": {**made["metadata"], **about}}


NO_VOLUME_YET: Final = Rejection(Reason.PROVISIONING, "web/data", "a volume within 5 minutes", "none for node n3 yet")
SILENT_DRIVER: Final = Rejection(
    Reason.HEALTH_UNKNOWN,
    "pv-17",
    f"a volume whose health {DRIVER} reports",
    f"Unknown: DeadlineExceeded, Deadline Exceeded (CSI driver {DRIVER})",
)
LOCAL_VOLUME: Final = Rejection(
    Reason.ROOM_WITHOUT_DISK,
    "pv-1",
    "a volume that is accessible from a node still to be added",
    "a volume of one node only",
)
REJECTED_BY_CONTROLLER: Final = (SILENT_DRIVER, LOCAL_VOLUME)
