"""The author of each version: the API server's audit log, level RequestResponse.

A token's id (`JTI=...`) distinguishes processes that run under the same ServiceAccount. A write whose log line was lost
with a killed API server has no author here; the rules check only what is known to be ours.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"
_KIND_OF: Final = {
    "persistentvolumes": "PersistentVolume",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "pods": "Pod",
    "nodes": "Node",
    "storageclasses": "StorageClass",
    "leases": "Lease",
}
_APART: Final = 0.5
"""Seconds by which the recorder's clock may be behind the API server's log."""
_READS: Final = frozenset({"get", "list", "watch"})


class Party(StrEnum):
    """The origin of a write."""

    CONTROLLER = "controller"
    SCHEDULER = "scheduler"
    REPLACE = "replace"
    """The command `pvc-prebinder replace`, which has an account for it alone."""
    OTHER = "other"

    @property
    def has_lease(self) -> bool:
        """Whether it may write only while it holds its Lease."""
        return self in {Party.CONTROLLER, Party.SCHEDULER}


@dataclass(frozen=True, slots=True)
class Write:
    """An answered request that was no read. `revision` is 0 if it was rejected or its response has none."""

    revision: int
    party: Party
    user: str
    agent: str
    credential: str
    verb: str
    kind: str
    key: str
    subresource: str
    code: int
    received: float
    body: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        moment = datetime.fromtimestamp(self.received).astimezone().strftime("%H:%M:%S.%f")[:-3]
        what = f"{self.kind} {self.key}" + (f"/{self.subresource}" if self.subresource else "")
        who = f"{self.user} ({self.agent}, {self.credential[-8:]})"
        body = json.dumps(self.body, separators=(",", ":"))
        return f"{self.revision} {moment} {who} {self.verb} {what}: {self.code} {body[:600]}"


@dataclass(frozen=True, slots=True)
class Parties:
    """The users that are ours."""

    controller: str = "system:serviceaccount:pvc-prebinder-system:pvc-prebinder"
    scheduler: str = "system:serviceaccount:pvc-prebinder-system:pvc-prebinder-scheduler"
    replace: str = "system:serviceaccount:soak:operator"

    def of(self, user: str) -> Party:
        if user == self.controller:
            return Party.CONTROLLER
        if user == self.scheduler:
            return Party.SCHEDULER
        return Party.REPLACE if user == self.replace else Party.OTHER


def read(lines: Iterable[str], parties: Parties) -> Iterator[Write]:
    """Read an audit log; a line that a killed API server left incomplete is skipped."""
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event.get("stage") == "ResponseComplete" and event.get("verb") not in _READS:
            yield _write(event, parties)


def _write(event: dict[str, Any], parties: Parties) -> Write:
    user, about = event.get("user", {}), event.get("objectRef", {})
    code = event.get("responseStatus", {}).get("code", 0)
    answer = event.get("responseObject") or {}
    version = answer.get("metadata", {}).get("resourceVersion", "") if code < 300 else ""
    name = about.get("name") or answer.get("metadata", {}).get("name", "")
    namespace = about.get("namespace", "")
    resource = about.get("resource", "")
    body = event.get("requestObject")
    return Write(
        revision=int(version) if version and answer.get("kind") != "Status" else 0,
        party=parties.of(user.get("username", "")),
        user=user.get("username", ""),
        agent=event.get("userAgent", "").split(" ")[0],
        credential=(user.get("extra", {}).get(_CREDENTIAL) or [""])[0].removeprefix("JTI="),
        verb=event.get("verb", ""),
        kind=_KIND_OF.get(resource, resource),
        key=f"{namespace}/{name}" if namespace else name,
        subresource=about.get("subresource", ""),
        code=code,
        received=datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp(),
        body=body if isinstance(body, dict) else {"patch": body},
    )


class Authors:
    """Finds the write that made a version."""

    def __init__(self, writes: Iterable[Write]) -> None:
        self.writes = sorted(writes, key=lambda write: write.received)
        self._by_version: dict[tuple[str, str, int], Write] = {}
        self._bindings: dict[tuple[str, str], list[Write]] = {}
        for write in self.writes:
            # A patch that changes nothing is answered with the existing version, but later than the request that made
            # it.
            if write.revision:
                self._by_version.setdefault((write.kind, write.key, write.revision), write)
            if write.subresource == "binding" and write.code < 300:
                node = str((write.body.get("target") or {}).get("name"))
                self._bindings.setdefault((write.key, node), []).append(write)

    def of(self, kind: str, key: str, revision: int) -> Write | None:
        return self._by_version.get((kind, key, revision))

    def of_binding(self, key: str, node: str, at: float) -> Write | None:
        """Return the request that assigned a pod to a node at about that time; its response has no version."""
        near = [write for write in self._bindings.get((key, node), ()) if write.received <= at + _APART]
        return near[-1] if near else None
