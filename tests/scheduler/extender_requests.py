"""A small cluster in a store, and requests as kube-scheduler sends them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import Any

from binder.reservation.contract import Annotations
from kube.objects.model import (
    Claim,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Node,
    Record,
    StorageClass,
    Volume,
    VolumeAttachment,
)
from kube.store.store import Store
from scheduler.extender.extender import Extender
from tests import builders
from tests.fake_clock import START

PREFIX = "scheduler.cloud.example/"
NOW = START
LATER, EARLIER = "2026-01-01T12:05:00Z", "2026-01-01T11:55:00Z"


def reserved_volume(name: str, claim: str, until: str = LATER, **how: Any) -> Volume:
    """A volume reserved for `namespace/name`."""
    fields = {"reserved-for": claim, "reserved-for-uid": f"uid-{claim.replace('/', '-')}", "expires-at": until}
    fields |= {"bound-at": EARLIER, "reserved-by": "us/1"}
    return builders.volume(name, annotations={PREFIX + key: value for key, value in fields.items()}, **how)


def unhealthy_volume(name: str, state: str = "Inaccessible", **how: Any) -> Volume:
    annotations = {f"{PREFIX}health": state, f"{PREFIX}health-reason": "NotFound"}
    return builders.volume(name, annotations=annotations, **how)


def reserved_claim(name: str, volume: str, until: str = LATER, zone: str = "", nodes: str = "", **how: Any) -> Claim:
    """A claim for which a volume is reserved."""
    fields = {"reserved-volume": volume, "bound-at": EARLIER, "expires-at": until}
    fields |= {key: value for key, value in (("reserved-zone", zone), ("reserved-nodes", nodes)) if value}
    return builders.claim(name, annotations={PREFIX + key: value for key, value in fields.items()}, **how)


def nodes(zones: str = "aabb") -> list[Node]:
    """Nodes n1, n2, ... in these zones."""
    return [builders.node(f"n{number}", zone=zone) for number, zone in enumerate(zones, 1)]


def extender(records: Iterable[Record], scheduler_names: Iterable[str] = ()) -> Extender:
    """An extender that has received these objects one by one, in a cluster with the class `fast`."""
    store = Store(PREFIX)
    answers = Extender(store, Annotations(), frozenset(scheduler_names))
    for record in (builders.storage_class(), *records):
        put(store, record)
    return answers


def put(store: Store, record: Record) -> None:
    match record:
        case Claim():
            store.claims.upsert(record)
        case Volume():
            store.volumes.upsert(record)
        case Node():
            store.nodes.upsert(record)
        case StorageClass():
            store.classes.upsert(record)
        case CSINode():
            store.csi_nodes.upsert(record)
        case VolumeAttachment():
            store.attachments.upsert(record)
        case CSIDriver():
            store.csi_drivers.upsert(record)
        case CSIStorageCapacity():
            store.capacities.upsert(record)
        case _:
            raise TypeError(type(record))


def put_or_delete(random: Random, store: Store, present: dict[str, Volume], changed: Volume) -> None:
    """Apply the change of a volume to the store and to what is `present`; one time in five the volume is deleted."""
    if random.random() < 0.2:
        store.volumes.delete(changed.name)
        present.pop(changed.name, None)
    else:
        put(store, changed)
        present[changed.name] = changed


def pod(
    claims: Sequence[str] = ("data",),
    scheduler_name: str = "default-scheduler",
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A pod that uses these claims; `more` are further fields of its spec."""
    return {
        "metadata": {"name": "web", "namespace": "default", "uid": "1", "creationTimestamp": None},
        "spec": {
            "schedulerName": scheduler_name,
            "containers": [{"name": "main", "resources": {}}],
            "volumes": [
                *({"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims),
                {"name": "token", "projected": {"sources": []}},
            ],
            **(more or {}),
        },
        "status": {"phase": "Pending"},
    }


def arguments(names: Sequence[str], **how: Any) -> bytes:
    """ExtenderArgs as Go writes them for an extender with nodeCacheCapable."""
    return json.dumps({"Pod": pod(**how), "Nodes": None, "NodeNames": list(names)}).encode()


def proposed(victims: Mapping[str, Sequence[str]], violations: int = 0, **how: Any) -> bytes:
    """ExtenderPreemptionArgs as Go writes them for an extender with nodeCacheCapable: node -> uids of victims."""
    named = {
        node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations} for node, uids in victims.items()
    }
    return json.dumps({"Pod": pod(**how), "NodeNameToVictims": None, "NodeNameToMetaVictims": named}).encode()


def filtered(answers: Extender, names: Sequence[str], *, seconds: float = 0, **how: Any) -> dict[str, Any]:
    """The decoded response to `filter`."""
    answer = answers.filter(arguments(names, **how), NOW + timedelta(seconds=seconds))
    result: dict[str, Any] = json.loads(answer.body)
    assert set(result) == {"Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}
    assert answer.nodes_in == len(names)
    assert answer.nodes_out == len(result["NodeNames"])
    return result


def kept(answers: Extender, names: Sequence[str], **how: Any) -> list[str]:
    """The nodes that pass the filter; every other one must have a reason."""
    result = filtered(answers, names, **how)
    rejected: Mapping[str, str] = result["FailedAndUnresolvableNodes"]
    assert sorted([*result["NodeNames"], *rejected]) == sorted(names)
    return list(result["NodeNames"])


def scores(answers: Extender, names: Sequence[str], *, seconds: float = 0, **how: Any) -> dict[str, int]:
    """Node -> score. As for kube-scheduler a missing score is 0; either all nodes have one or none has."""
    answer = answers.prioritize(arguments(names, **how), NOW + timedelta(seconds=seconds))
    result = json.loads(answer.body)
    if not result:
        return dict.fromkeys(names, 0)
    assert [priority["Host"] for priority in result] == list(names)
    assert all(type(priority["Score"]) is int and 0 <= priority["Score"] <= 10 for priority in result)
    return {priority["Host"]: priority["Score"] for priority in result}
