"""Dumps as people make them, with the answer that `why` has to give."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kube.objects.model import PROVISIONED_BY
from prebinder.cli import main
from tests.builders import ZONE
from tests.why.documents import (
    DRIVER,
    SCHEDULED,
    SYSTEM_POD,
    Document,
    claim,
    csi_node,
    driver,
    event,
    metadata,
    node,
    pod,
    storage_class,
    volume,
)

Report = list[dict[str, Any]]
NODES = [node("a1", "a"), node("b1", "b"), SYSTEM_POD, SCHEDULED]
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

CONTROLLER = "scheduler.cloud.example/pvc-prebinder"
REJECTION = (
    "No volumes reserved: NoJointAssignment. Add a volume so that one zone has a volume for each claim of the pod."
    " Rejected: zone a: NoJointAssignment (wanted 2 volumes at once, found none for web/logs);"
    " zone b: NoJointAssignment (wanted 2 volumes at once, found none for web/data)"
)
UNEXPLAINED = "No volumes reserved: ExplanationPending. Many pods were rejected at once."
WEBHOOK = 'admission webhook "policy.example" denied the request: label team is missing'
EXCEEDED = "forbidden: exceeded quota: small, requested: requests.storage=10Gi, used: requests.storage=0, limited: 1Gi"
LIMIT = "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 10Gi"
OF_SET = "create Claim data-db-0 for Pod db-0 in StatefulSet db failed error: {}"
OTHER_DRIVER = [driver("other.csi.example"), csi_node("a1", "other.csi.example")]


def tainted(name: str, key: str, **how: Any) -> Document:
    made = node(name, **how)
    return {**made, "spec": {"taints": [{"key": key, "value": "x", "effect": "NoSchedule"}]}}


def rejected(note: str) -> Document:
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


def apart(app: str) -> Document:
    """The spec of a pod that shares its zone with no other of the application."""
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def gated(*claims: str, other: str = "") -> Document:
    """A pod that no scheduler has seen, with our gate, and another component's."""
    gates = [{"name": name} for name in ("scheduler.cloud.example/volumes", other) if name]
    return pod("db-0", *claims, spec={"schedulingGates": gates}, status={"conditions": []})


PARTLY_PROVISIONED = (
    gated("data", "log"),
    LATER,
    driver(storageCapacity=True),
    node("a1"),
    csi_node("a1", DRIVER),
    claim(volume="pv-1"),
    volume(claim="data", zone="a", metadata={"annotations": {PROVISIONED_BY: DRIVER}}),
    claim("log", size="150Gi"),
)
"""A pod with one of its two volumes."""


def reached_by(key: str, value: str) -> Document:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}


@dataclass(frozen=True)
class Dump:
    """Objects, the code of their first item, or of the target's, and words that its JSON has or must not have."""

    code: str
    documents: list[Document]
    has: str = ""
    lacks: str = "nothing of the kind"
    target: str = ""


def items_of(path: Path, contents: object, capsys: pytest.CaptureFixture[str], target: str = "") -> Report:
    path.write_text(json.dumps(contents))
    main(["why", *filter(None, (target,)), "-n", "web", "-o", "json", "-f", str(path)])
    items: Report = json.loads(capsys.readouterr().out)["items"]
    return items


def check(dump: Dump, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": dump.documents}
    item = items_of(tmp_path / "dump.json", listed, capsys, dump.target)[0]
    text = json.dumps(item)
    assert item["code"] == dump.code, text
    assert json.dumps(dump.has)[1:-1] in text
    assert dump.lacks not in text
