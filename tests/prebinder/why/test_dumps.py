"""Dumps as people make them: what `why` answers from a file, where an easy answer would be wrong or do harm."""

import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from prebinder.cli import main
from tests.builders import ZONE
from tests.prebinder.why.documents import (
    DRIVER,
    SCHEDULED,
    Document,
    claim,
    csi_node,
    driver,
    event,
    lease,
    metadata,
    node,
    pod,
    storage_class,
    volume,
)

Report = list[dict[str, Any]]
NODES = [node("a1", "a"), node("b1", "b"), SCHEDULED]
LATER = storage_class(provisioner=DRIVER)
NOW_MADE = storage_class(provisioner=DRIVER, mode="Immediate")
OLD: dict[str, Any] = {
    "claim": "data",
    "claim_uid": "of an earlier claim",
    "phase": "Released",
    "spec": {"persistentVolumeReclaimPolicy": "Retain"},
}
"""A volume whose claim was deleted, and created again with the same name."""

OURS: dict[str, Any] = {"claim": "data", "claim_uid": None, "phase": "Available"}
"""A volume with a claimRef that an administrator wrote."""

BOUND_ANYWHERE = [claim(volume="pv-1"), volume(claim="data"), storage_class()]
OF_NOTHING = event("Pod", "another", "Scheduled", "assigned", type="Normal")
"""So that Events are in the dump."""

BOUND = [claim(volume="pv-1"), volume(claim="data", zone="a"), storage_class()]
CONTROLLER = "scheduler.cloud.example/pvc-prebinder"
REFUSAL = (
    "No volumes reserved: NoJointAssignment. Add a volume so that one zone has a volume for each claim of the pod.\n"
    "zone a: NoJointAssignment (wanted 2 volumes at once, found none for web/logs)\n"
    "zone b: NoJointAssignment (wanted 2 volumes at once, found none for web/data)"
)
UNEXPLAINED = "No volumes reserved: ExplanationPending. Many pods were rejected at once."
WEBHOOK = 'admission webhook "policy.example" denied the request: label team is missing'
LIMIT = "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 10Gi"
OF_SET = "create Claim data-db-0 for Pod db-0 in StatefulSet db failed error: {}"
OTHER_DRIVER = [driver("other.csi.example"), csi_node("a1", "other.csi.example")]


def tainted(name: str, key: str, **how: Any) -> Document:
    made = node(name, **how)
    return {**made, "spec": {"taints": [{"key": key, "value": "x", "effect": "NoSchedule"}]}}


def refused(note: str) -> Document:
    return event("StatefulSet", "db", "FailedCreate", note, reporter="statefulset-controller")


def placed(name: str, *claims: str) -> Document:
    """A pod on node a1 that does not run yet."""
    return pod(name, *claims, node="a1", status={"phase": "Pending"})


def attachment(on_node: str, error: str = "") -> Document:
    failed = {"detachError": {"message": error}} if error else {}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": metadata(f"csi-{on_node}", None),
        "spec": {"attacher": DRIVER, "nodeName": on_node, "source": {"persistentVolumeName": "pv-1"}},
        "status": {"attached": True, **failed},
    }


def room_in(zone: str) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": metadata(f"room-{zone}"),
        "storageClassName": "fast",
        "capacity": "100Gi",
        "nodeTopology": {"matchLabels": {ZONE: zone}},
    }


def about_an_earlier(kind: str, name: str, reason: str, note: str) -> Document:
    made = event(kind, name, reason, note, reporter=DRIVER)
    return {**made, "involvedObject": {**made["involvedObject"], "uid": "of an earlier one"}}


def gated(*claims: str, other: str = "") -> Document:
    """A pod that no scheduler has seen, with our gate, and another component's."""
    gates = [{"name": name} for name in ("scheduler.cloud.example/volumes", other) if name]
    return pod("db-0", *claims, spec={"schedulingGates": gates}, status={"conditions": []})


@dataclass(frozen=True)
class Dump:
    """Objects, the code of their first item, and words that its JSON has or must not have."""

    code: str
    documents: list[Document]
    has: str = ""
    lacks: str = "nothing of the kind"


DUMPS = {
    "a Released volume of the same name hides no missing driver": Dump(
        "ProvisionerMissing", [claim(), NOW_MADE, volume(**OLD), *NODES, *OTHER_DRIVER]
    ),
    "a Released volume of the same name hides no missing class": Dump(
        "StorageClassNotFound", [claim(storage_class="gone"), NOW_MADE, volume(storage_class="gone", **OLD), *NODES]
    ),
    "a Released volume of the same name is no consumer": Dump(
        "WaitForFirstConsumer", [claim(), LATER, volume(**OLD), *NODES]
    ),
    "without any class only a Released volume would fit": Dump(
        "PVStillClaimed", [claim(storage_class=""), NOW_MADE, volume(storage_class="", **OLD), *NODES], "patch pv pv-1"
    ),
    "a volume for the claim is too small": Dump(
        "StaticOnlyNoMatch", [claim(), storage_class(mode="Immediate"), volume(size="1Gi", **OURS), *NODES], "TooSmall"
    ),
    "a volume for the claim is too small, and a pod waits": Dump(
        "StaticOnlyNoMatch",
        [pod("db-0", "data"), claim(), storage_class(), volume(size="1Gi", **OURS), *NODES],
        "TooSmall",
    ),
    "a volume for the claim fits, and nobody binds it": Dump(
        "PreboundIncomplete", [claim(), storage_class(mode="Immediate"), volume(**OURS), *NODES], "in its claimRef"
    ),
    "a cluster has no CSIDriver at all": Dump(
        "ProvisionerMissing", [claim(), NOW_MADE, *NODES, csi_node("a1"), csi_node("b1")], "csidrivers"
    ),
    "an in-tree class, and its CSI driver is not installed": Dump(
        "ProvisionerMissing",
        [claim(), {**NOW_MADE, "provisioner": "kubernetes.io/aws-ebs"}, *NODES, csi_node("a1")],
        "ebs.csi.aws.com",
    ),
    "a provisioner without CSI wrote nothing": Dump(
        "ProvisionerMissing",
        [
            claim(),
            {**NOW_MADE, "provisioner": "example.com/nfs"},
            *NODES,
            *OTHER_DRIVER,
            event("Pod", "other", "Scheduled", "assigned", type="Normal"),
        ],
        "nothing shows that it runs",
        "CSI driver is installed",
    ),
    "capacities are not in the dump": Dump(
        "Inconclusive",
        [pod("db-0", "data"), claim(), LATER, driver(storageCapacity=True), csi_node("a1", DRIVER), *NODES],
        "csistoragecapacities (not in the input)",
    ),
    "nodes are not in the dump": Dump("Inconclusive", [pod("db-0", "data"), *BOUND, SCHEDULED], "nodes (not in"),
    "a class of a manifest has no binding mode": Dump(
        "ProvisionerMissing",
        [claim(), {key: value for key, value in NOW_MADE.items() if key != "volumeBindingMode"}, *NODES, *OTHER_DRIVER],
    ),
    "a pod with nodeName, and its claim is missing": Dump(
        "ClaimNotFound", [pod("db-0", "nix", node="a1", status={"phase": "Pending"}), storage_class(), *NODES]
    ),
    "a pod with nodeName, and its volume is elsewhere": Dump(
        "TopologyConflict",
        [pod("db-0", "data", node="b1", status={"phase": "Pending"}), *BOUND, *NODES],
        "assigned to node b1, and its volume is in zone a",
    ),
    "a pod whose node is gone": Dump(
        "NoNodeFits", [pod("db-0", "data", node="gone", status={"phase": "Pending"}), *BOUND, *NODES], "does not exist"
    ),
    "two claims with two causes": Dump(
        "StorageClassNotFound",
        [
            pod("db-0", "data", "logs"),
            claim(storage_class="fsat"),
            claim("logs", spec={"volumeName": "pv-x"}),
            storage_class(),
            *NODES,
        ],
        "RequestedPVMissing, too: ",
    ),
    "a control plane's taint is no way out": Dump(
        "NoNodeFits",
        [
            pod("db-0", cpu="3"),
            tainted("cp", "node-role.kubernetes.io/control-plane"),
            node("a1", cpu="1"),
            SCHEDULED,
            *BOUND,
        ],
        "describe node a1",
        "taint node",
    ),
    "a taint that Kubernetes has set goes with its cause": Dump(
        "TopologyConflict",
        [pod("db-0", "data"), *BOUND, tainted("a1", "node.kubernetes.io/disk-pressure"), node("b1", "b"), SCHEDULED],
        "find out what has tainted it",
        "taint node a1",
    ),
    "a taint that a person has set may be ended": Dump(
        "TopologyConflict",
        [pod("db-0", "data"), *BOUND, tainted("a1", "dedicated"), node("b1", "b"), SCHEDULED],
        "kubectl taint node a1 dedicated=x:NoSchedule-",
    ),
    "a LimitRange forbids the claim of a StatefulSet": Dump(
        "QuotaExceeded",
        [refused(OF_SET.format(f'persistentvolumeclaims "data-db-0" is forbidden: {LIMIT}')), *NODES],
        "describe limitrange",
    ),
    "a webhook forbids the claim of a StatefulSet": Dump(
        "ClaimNotFound", [refused(OF_SET.format(WEBHOOK)), *NODES], "label team is missing"
    ),
    "a webhook forbids the claim of an ephemeral volume": Dump(
        "ClaimNotFound",
        [
            pod("db-0", spec={"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}),
            event("Pod", "db-0", "FailedBinding", f"ephemeral volume scratch: create PVC db-0-scratch: {WEBHOOK}"),
            *NODES,
        ],
        "label team is missing",
    ),
    "a Lost claim is listed although it is bound": Dump(
        "ClaimLost", [claim(volume="pv-1", status={"phase": "Lost"}), storage_class(), *NODES]
    ),
    "a local volume whose node is gone": Dump(
        "TopologyConflict",
        [pod("db-0", "data"), claim(volume="pv-1"), volume(claim="data", spec={}), storage_class(), *NODES],
        "its data is on that node only",
        "add a node in",
    ),
    "a topology key that no node has": Dump(
        "TopologyConflict",
        [pod("db-0", "data"), claim(volume="pv-1"), volume(claim="data", spec={}), storage_class(), *NODES],
        "does the volume's driver run on any?",
    ),
    "only the pod, which tells why": Dump(
        "Inconclusive",
        [
            pod(
                "db-0",
                status={
                    "conditions": [
                        {
                            "type": "PodScheduled",
                            "status": "False",
                            "reason": "Unschedulable",
                            "message": "0/2 nodes are available: 2 node(s) had untolerated taint",
                        }
                    ]
                },
            )
        ],
        "untolerated taint",
    ),
    "behind our gate the controller found no common zone": Dump(
        "NoJointAssignment",
        [
            gated("data", "logs"),
            claim(),
            claim("logs"),
            storage_class(),
            volume(zone="a"),
            volume("pv-2", zone="b"),
            *NODES,
            event("Pod", "db-0", "NoJointAssignment", REFUSAL, reporter=CONTROLLER),
        ],
        "found none for web/logs",
    ),
    "behind our gate no node has both volumes, and no Event is left": Dump(
        "StaticOnlyNoMatch",
        [
            gated("data", "logs"),
            claim(),
            claim("logs"),
            storage_class(),
            volume(zone="a"),
            volume("pv-2", zone="b"),
            *NODES,
        ],
    ),
    "the controller has not explained its refusal yet": Dump(
        "TopologyConflict",
        [
            gated("data"),
            claim(),
            storage_class(),
            volume(zone="z"),
            *NODES,
            event("Pod", "db-0", "ExplanationPending", UNEXPLAINED, reporter=CONTROLLER),
        ],
    ),
    "volumes were reserved after a refusal": Dump(
        "SchedulingGated",
        [
            gated("data"),
            claim(),
            storage_class(),
            volume(),
            *NODES,
            event("Pod", "db-0", "NoJointAssignment", REFUSAL, reporter=CONTROLLER, ago=timedelta(minutes=9)),
            event("Pod", "db-0", "VolumeReserved", "Reserved pv-1", reporter=CONTROLLER, type="Normal"),
        ],
    ),
    "another's gate hides the nodes": Dump(
        "SchedulingGated", [gated("data", other="example.com/later"), *BOUND, node("b1", "b"), SCHEDULED], "example.com"
    ),
    "the old pod of a Deployment has the volume": Dump(
        "AttachConflict",
        [placed("new", "data"), pod("old", "data", node="b1"), *BOUND_ANYWHERE, attachment("b1"), *NODES, OF_NOTHING],
        "kubectl -n web delete pod old",
    ),
    "the old pod of a Deployment has the volume, and attachments are not in the dump": Dump(
        "AttachConflict",
        [
            placed("new", "data"),
            pod("old", "data", node="b1"),
            *BOUND_ANYWHERE,
            *NODES,
            event("Pod", "new", "FailedAttachVolume", 'Multi-Attach error for volume "pv-1" Volume is already used'),
        ],
        "kubectl -n web delete pod old",
    ),
    "a driver cannot detach": Dump(
        "AttachConflict",
        [placed("new", "data"), *BOUND_ANYWHERE, attachment("b1", "disk is busy"), *NODES, OF_NOTHING],
        "disk.csi.example cannot detach it",
    ),
    "no device claim was made from the template": Dump(
        "ResourceClaimPending",
        [
            pod("db-0", spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]}),
            *NODES,
            OF_NOTHING,
        ],
        "resourceclaimtemplate gpus",
    ),
    "there is room where the nodes are cordoned": Dump(
        "InsufficientCapacity",
        [
            pod("db-0", "data"),
            claim(),
            LATER,
            driver(storageCapacity=True),
            csi_node("a1", DRIVER),
            csi_node("b1", DRIVER),
            node("a1", "a", cordoned=True),
            node("b1", "b"),
            SCHEDULED,
            room_in("a"),
        ],
        "kubectl uncordon a1",
    ),
    "the Event is about an earlier claim of the same name": Dump(
        "Progressing",
        [
            claim(),
            NOW_MADE,
            driver(),
            csi_node("a1", DRIVER),
            *NODES,
            about_an_earlier(
                "PersistentVolumeClaim", "data", "ProvisioningFailed", "rpc error: code = InvalidArgument"
            ),
            lease("disk-csi-example", timedelta(seconds=3)),
        ],
    ),
    "the requested volume is another claim's": Dump(
        "PVStillClaimed",
        [
            claim(spec={"volumeName": "pv-1"}),
            claim("other", volume="pv-1"),
            volume(claim="other"),
            storage_class(),
            *NODES,
        ],
        "kubectl -n web delete pvc data",
    ),
    "lists in a list": Dump(
        "ClaimNotFound",
        [{"apiVersion": "v1", "kind": "PodList", "items": [pod("db-0", "nix")]}, storage_class(), *NODES],
    ),
}


def reached_by(key: str, value: str) -> Document:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}


DUMPS["a local volume whose node is gone"].documents[2]["spec"] |= reached_by("kubernetes.io/hostname", "old-node")
DUMPS["a topology key that no node has"].documents[2]["spec"] |= reached_by("topology.disk.csi.example/zone", "a")


def items_of(path: Path, contents: object, capsys: pytest.CaptureFixture[str]) -> Report:
    path.write_text(json.dumps(contents))
    main(["why", "-n", "web", "-o", "json", "-f", str(path)])
    items: Report = json.loads(capsys.readouterr().out)["items"]
    return items


@pytest.mark.parametrize("dump", DUMPS.values(), ids=DUMPS)
def test_the_answer(dump: Dump, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": dump.documents}
    item = items_of(tmp_path / "dump.json", listed, capsys)[0]
    text = json.dumps(item)
    assert item["code"] == dump.code, text
    assert json.dumps(dump.has)[1:-1] in text
    assert dump.lacks not in text


def test_the_items_of_a_list_without_the_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`kubectl get ... -o json | jq .items`."""
    (item,) = items_of(tmp_path / "dump.json", [pod("db-0", "nix"), storage_class(), *NODES], capsys)
    assert item["code"] == "ClaimNotFound"
