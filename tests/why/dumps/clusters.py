"""Parts of dumps as people make them of clusters with cloud disks, local disks, Longhorn, Rook."""

from datetime import timedelta
from typing import Any

from tests.why.documents import (
    SCHEDULED,
    SYSTEM_POD,
    Document,
    claim,
    csi_node,
    driver,
    event,
    node,
    pod,
    storage_class,
    volume,
)
from tests.why.dumps.dump import (
    placed,
    reached_by,
)

EBS = "ebs.csi.aws.com"
RBD = "rook-ceph.rbd.csi.ceph.com"
NAMES = ("ip-10-0-1-7", "ip-10-0-2-9", "ip-10-0-3-4")
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
NODES = [*(node(name, zone) for name, zone in zip(NAMES, ZONES, strict=True)), SYSTEM_POD, SCHEDULED]
WITH_EBS = [*NODES, driver(EBS), *(csi_node(name, EBS) for name in NAMES)]
GP3 = storage_class("gp3", EBS)
IN_1A = [claim(storage_class="gp3", volume="pv-1"), volume("pv-1", "gp3", claim="data", zone="us-east-1a"), GP3]
ON_A1 = [placed("db-0", "data"), claim(volume="pv-1"), volume(claim="data"), storage_class(), node("a1"), SCHEDULED]
NOTHING_ELSE = event("Pod", "another", "Scheduled", "assigned", type="Normal")
HOUR = timedelta(hours=1)


def at_once(name: str, provisioner: str) -> Document:
    return storage_class(name, provisioner, "Immediate")


def of_daemon_set(host: str, *claims: str, **how: Any) -> Document:
    """A pod as the DaemonSet controller makes it: for one node, by name."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [host]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "logs", "uid": "uid-logs", "controller": True}
    spec = {"affinity": {"nodeAffinity": required}}
    return pod("logs-x", *claims, spec=spec, metadata={"ownerReferences": [owner]}, **how)


def local(name: str, host: str, **how: Any) -> Document:
    """A volume of the local static provisioner."""
    made = volume(name, "local-storage", **how)
    del made["spec"]["csi"]
    made["spec"] |= {"local": {"path": f"/mnt/{name}"}, **reached_by("kubernetes.io/hostname", host)}
    return made


def of_claim(reason: str, note: str, reporter: str) -> Document:
    return event("PersistentVolumeClaim", "data", reason, note, reporter=reporter)


def ended(phase: str) -> Document:
    return pod("job-1", "data", node="a1", status={"phase": phase})


def down(name: str, key: str) -> Document:
    return {**node(name, "b"), "spec": {"taints": [{"key": key, "effect": "NoExecute"}]}}


def selecting(key: str, value: str) -> Document:
    return pod("db-0", "data", spec={"nodeSelector": {key: value}})
