"""What is read from an audit log: each request once, by who sent it, and no request of the measurement itself."""

import json
from pathlib import Path
from typing import Any

from bench.control_plane.audit import OURS, by, conflicts, counts, entries

ACCOUNT = "system:serviceaccount:pvc-prebinder-system:pvc-prebinder"


def note(number: int, verb: str, resource: str, agent: str, **changes: Any) -> str:
    usual = {
        "auditID": str(number),
        "verb": verb,
        "userAgent": agent,
        "user": {"username": ACCOUNT},
        "objectRef": {"resource": resource},
        "responseStatus": {"code": 200},
    }
    return json.dumps(usual | changes) + "\n"


def test_requests_are_counted_by_client_request_and_answer(tmp_path: Path) -> None:
    manager = "kube-controller-manager/v1.36.3 (linux/amd64) kubernetes/0000000/persistent-volume-binder"
    status = {"objectRef": {"resource": "persistentvolumeclaims", "subresource": "status"}}
    log = tmp_path / "audit.log"
    log.write_text(
        note(1, "patch", "persistentvolumes", "pvc-prebinder/1.0")
        + note(1, "patch", "persistentvolumes", "pvc-prebinder/1.0")
        + note(2, "get", "pods", "pvc-prebinder/1.0")
        + note(3, "create", "pods", "pvc-prebinder/1.0", user={"username": "admin"})
        + note(4, "update", "", manager, responseStatus={"code": 409}, **status)
        + note(5, "update", "leases", manager)
        + note(6, "list", "pods", manager)
        + note(7, "update", "pods", "kubectl/1.0")
        + note(8, "upda", "torn", manager)[:-9]
    )
    counted = counts(entries(log))
    assert {f"{request.agent}: {request}": count for request, count in counted.items()} == {
        "ours: patch persistentvolumes": 1,
        "ours: get pods": 1,
        "controller manager: update persistentvolumeclaims/status (409)": 1,
    }
    assert conflicts(counted) == 1
    assert [str(request) for request in by(OURS, counted, writes=True)] == ["patch persistentvolumes"]
