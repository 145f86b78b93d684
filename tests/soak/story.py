"""An invented history with its audit log, written line by line."""

from copy import deepcopy
from typing import Any

from soak.judge.cluster import Cluster
from soak.judge.history import Change, Linked, Object
from soak.judge.replay import Judged, replay
from soak.judge.writes import Authors, Party, Write

START = 1_000_000.0
CONTROLLER, SCHEDULER = Party.CONTROLLER, Party.SCHEDULER
_LEASES = {CONTROLLER: "pvc-prebinder", SCHEDULER: "pvc-prebinder-scheduler"}


class Story:
    """Time passes only by the test. Our processes hold their Leases until one is given away."""

    def __init__(self) -> None:
        self.now = START
        self.changes: list[Change] = []
        self.writes: list[Write] = []
        self._linked = Linked()
        self._revision = 0
        for party in (CONTROLLER, SCHEDULER):
            self.renew(party)

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def renew(self, party: Party, holder: str = "") -> None:
        name = f"pvc-prebinder-system/{_LEASES[party]}"
        self.write(party, "Lease", name, {"metadata": {}, "spec": {"holderIdentity": holder or f"me-{party}"}})

    def write(self, party: Party | None, kind: str, key: str, after: Object | None, *, conditional: bool = True) -> int:
        """A party writes an object; None is a party whose line the audit log has lost."""
        self._revision += 1
        after = deepcopy(after)
        self.changes.append(self._linked.change(self._revision, self.now, kind, key, after))
        if party is not None and after is not None:
            body: dict[str, Any] = {"metadata": {"resourceVersion": "1"} if conditional else {}}
            if kind == "Lease":
                body["spec"] = after["spec"]
            self.request(party, "patch", kind, key, body, self._revision)
        return self._revision

    def request(
        self,
        party: Party,
        verb: str,
        kind: str,
        key: str,
        body: dict[str, Any] | None = None,
        revision: int = 0,
        *,
        subresource: str = "",
    ) -> None:
        """A party sends a request; without a revision it has no effect."""
        self.writes.append(
            Write(
                revision,
                party,
                f"user-{party}",
                "test",
                f"token-{party}",
                verb,
                kind,
                key,
                subresource,
                200,
                self.now,
                body or {},
            )
        )

    def judged(self) -> Judged:
        return replay(self.changes, Authors(self.writes))

    def rules(self) -> set[str]:
        """Return the names of the violated rules."""
        return {violation.rule for violation in self.judged().violations}

    def end(self) -> Cluster:
        return self.judged().cluster


def volume(name: str = "v1", **how: Any) -> Object:
    """`claim` and `uid` make a claimRef, `phase` a status, `node` a node affinity; the rest are annotations of ours."""
    spec: Object = {
        "capacity": {"storage": how.pop("storage", "1Gi")},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": how.pop("of_class", "disks"),
    }
    if claim := how.pop("claim", ""):
        spec["claimRef"] = {"namespace": "soak", "name": claim}
        if uid := how.pop("uid", ""):
            spec["claimRef"]["uid"] = uid
    if node := how.pop("node", ""):
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    phase = how.pop("phase", "Available")
    metadata = {"name": name, "uid": f"uid-{name}", "annotations": _ours(how)}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def reserved(claim: str = "c1", **how: Any) -> dict[str, str]:
    return {
        "reserved_for": f"soak/{claim}",
        "reserved_for_uid": f"uid-{claim}",
        "expires_at": "2100-01-01T00:00:00Z",
        **how,
    }


def claim(name: str = "c1", volume_name: str = "", *, completed: bool = False, **how: Any) -> Object:
    annotations = _ours(how) | ({"pv.kubernetes.io/bind-completed": "yes"} if completed else {})
    spec: Object = {
        "storageClassName": "disks",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    if volume_name:
        spec["volumeName"] = volume_name
    metadata = {"namespace": "soak", "name": name, "uid": f"uid-{name}", "annotations": annotations}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Bound" if completed else "Pending"}}


def pod(name: str = "p1", *claims: str, gates: tuple[str, ...] = (), unschedulable: bool = False) -> Object:
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims or ("c1",)]
    spec: Object = {"volumes": volumes, "schedulingGates": [{"name": gate} for gate in gates]}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status = {"phase": "Pending", "conditions": [condition] if unschedulable else []}
    return {"metadata": {"namespace": "soak", "name": name, "uid": f"uid-{name}"}, "spec": spec, "status": status}


def node(name: str = "n1", **spec: Any) -> Object:
    labels = {"kubernetes.io/hostname": name}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": ready}


def storage_class(mode: str, name: str = "disks") -> Object:
    return {"metadata": {"name": name, "annotations": _ours({"mode": mode})}}


def _ours(how: dict[str, Any]) -> dict[str, str]:
    return {f"scheduler.cloud.example/{word.replace('_', '-')}": str(value) for word, value in how.items()}
