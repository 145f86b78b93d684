"""Facts from objects' JSON: the annotation contract and Kubernetes' fields, implemented once more."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from soak.judge.history import Object

PREFIX: Final = "scheduler.cloud.example/"
GATE: Final = PREFIX + "volumes"
MODE: Final = PREFIX + "mode"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
ABSENT_SCHEDULER: Final = "absent-scheduler"
PROBED_DRIVER: Final = "moody.csi.example"
UNHEALTHY: Final = frozenset({"Degraded", "Inaccessible", "DataLoss"})
_EITHER: Final = tuple(PREFIX + word for word in ("reserved-zone", "reserved-nodes", "bound-at", "expires-at"))
KEYS_ON_VOLUMES: Final = (*(PREFIX + word for word in ("reserved-for", "reserved-for-uid", "reserved-by")), *_EITHER)
KEYS_ON_CLAIMS: Final = (PREFIX + "reserved-volume", *_EITHER)
"""What belongs to a reservation, by where it belongs: elsewhere it is an unknown key, which is ignored."""
HELD_FOR: Final = PREFIX + "held-for"
WAS_FOR: Final = PREFIX + "was-for"
_KEEPS: Final = (WAS_FOR, PREFIX + "replaces", PREFIX + "namespace-uid")
MAX_HELD: Final = 4
"""Volumes that may be held for replicas to come in a namespace, by the flags of the controllers."""
SELECTED: Final = "volume.kubernetes.io/selected-node"
NAMED_BY: Final = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
"""The annotations by which a provisioner is named on a claim."""
POOL_CLASS: Final = "pools"
POOL_BYTES: Final = 8 * 2**30
"""On each node, by the flags of the driver of that class."""
QUARANTINE_KEYS: Final = (PREFIX + "quarantine", PREFIX + "quarantined-at")
_BINARY: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
PLACEHOLDER: Final = "quarantine-"


def annotation(subject: Object | None, key: str) -> str | None:
    value = ((subject or {}).get("metadata", {}).get("annotations") or {}).get(key)
    return None if value is None else str(value)


def uid(subject: Object) -> str:
    return str(subject["metadata"].get("uid", ""))


def name(subject: Object) -> str:
    return str(subject["metadata"]["name"])


def key_of(subject: Object) -> str:
    namespace = subject["metadata"].get("namespace")
    return f"{namespace}/{name(subject)}" if namespace else name(subject)


def deleting(subject: Object) -> bool:
    return "deletionTimestamp" in subject["metadata"]


def reference(volume: Object | None) -> tuple[str, str] | None:
    """Return key and uid (perhaps empty) of the claim in the volume's claimRef."""
    claim_ref = (volume or {}).get("spec", {}).get("claimRef")
    if not claim_ref:
        return None
    return f"{claim_ref.get('namespace', '')}/{claim_ref.get('name', '')}", str(claim_ref.get("uid", ""))


def refers_to(volume: Object | None, claim: Object) -> bool:
    """Whether the volume is committed to this very claim: by its uid, or by its name alone."""
    named = reference(volume)
    return named is not None and named[0] == key_of(claim) and named[1] in {"", uid(claim)}


def is_placeholder(volume: Object) -> bool:
    named = reference(volume)
    return named is not None and named[0].rpartition("/")[2] == PLACEHOLDER + name(volume) and not named[1]


def volume_name(claim: Object | None) -> str:
    return str((claim or {}).get("spec", {}).get("volumeName") or "")


def bind_completed(claim: Object | None) -> bool:
    return bool(volume_name(claim)) and annotation(claim, BIND_COMPLETED) is not None


def phase(subject: Object | None) -> str:
    return str((subject or {}).get("status", {}).get("phase") or "")


def class_name(subject: Object) -> str:
    return str(subject["spec"].get("storageClassName") or "")


def reserved_for(volume: Object | None) -> tuple[str, str] | None:
    """Return key and uid of the claim that the volume's annotations name."""
    claim, its_uid = (annotation(volume, PREFIX + word) for word in ("reserved-for", "reserved-for-uid"))
    return (claim, its_uid) if claim and its_uid else None


def held_for(volume: Object | None) -> str:
    """Return the key of the claim to come for which the volume is held; empty if for none."""
    return annotation(volume, HELD_FOR) or ""


def is_kept(volume: Object) -> bool:
    """Whether a replacement marked the volume, for a name or because of its data: no other claim gets it."""
    return any(annotation(volume, key) is not None for key in _KEEPS)


def expires_at(subject: Object | None) -> float | None:
    text = annotation(subject, PREFIX + "expires-at")
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def unhealthy(volume: Object | None) -> bool:
    """Whether it is published as unhealthy, where that is what counts: see soak.judge.driver for the others."""
    return annotation(volume, PREFIX + "health") in UNHEALTHY and not is_probed(volume)


def is_probed(volume: Object | None) -> bool:
    """Whether the controllers probe its driver."""
    return bool((volume or {}).get("spec", {}).get("csi", {}).get("driver") == PROBED_DRIVER)


def gates(pod: Object | None) -> tuple[str, ...]:
    return tuple(gate["name"] for gate in (pod or {}).get("spec", {}).get("schedulingGates") or ())


def nominated_node(pod: Object | None) -> str:
    """Return the node that a scheduler keeps for the pod, empty if there is none."""
    return str((pod or {}).get("status", {}).get("nominatedNodeName") or "")


def claim_keys(pod: Object) -> list[str]:
    """Return the keys of the claims that the pod mounts, those of its generic ephemeral volumes included."""
    namespace, keys = pod["metadata"]["namespace"], []
    for each in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in each:
            keys.append(f"{namespace}/{each['persistentVolumeClaim']['claimName']}")
        elif "ephemeral" in each:
            keys.append(f"{namespace}/{name(pod)}-{each['name']}")
    return keys


def is_ephemeral(pod: Object, claim_key: str) -> bool:
    """Whether the pod mounts the claim as a generic ephemeral volume."""
    volumes = pod["spec"].get("volumes") or ()
    return any("ephemeral" in each and claim_key.endswith(f"/{name(pod)}-{each['name']}") for each in volumes)


def owns(pod_uid: str, claim: Object) -> bool:
    return any(owner.get("uid") == pod_uid for owner in claim["metadata"].get("ownerReferences") or ())


def may_use(pod: Object, claim: Object) -> bool:
    """Whether a claim the pod names is its to use: an ephemeral volume's must be owned by the pod."""
    return not is_ephemeral(pod, key_of(claim)) or owns(uid(pod), claim)


def finished(pod: Object) -> bool:
    return phase(pod) in {"Succeeded", "Failed"}


def reported_unschedulable(pod: Object | None) -> bool:
    """Whether a scheduler has reported that it cannot place the pod; the report that a pod is gated does not count."""
    conditions = (pod or {}).get("status", {}).get("conditions") or ()
    return any(
        each["type"] == "PodScheduled" and each["status"] == "False" and each.get("reason") == "Unschedulable"
        for each in conditions
    )


def reachable_from(volume: Object, node: Object) -> bool:
    """Whether the volume's node affinity admits the node; only the operators that the soak's volumes use are read."""
    required = volume["spec"].get("nodeAffinity", {}).get("required")
    if required is None:
        return True
    labels: dict[str, str] = node["metadata"].get("labels") or {}
    return any(_admits(term, labels) for term in required["nodeSelectorTerms"])


def _admits(term: dict[str, Any], labels: dict[str, str]) -> bool:
    expressions = term.get("matchExpressions") or ()
    return bool(expressions) and all(
        each["operator"] == "In" and labels.get(each["key"]) in each["values"] for each in expressions
    )


def size(text: str) -> int:
    """Read a quantity of storage in bytes; only the suffixes that the soak's objects use are read."""
    return int(text[:-2]) * _BINARY[text[-2:]] if text[-2:] in _BINARY else int(text)


def capacity(volume: Object) -> int:
    return size(volume["spec"]["capacity"]["storage"])


def requested(claim: Object) -> int:
    return size(claim["spec"]["resources"]["requests"]["storage"])


def fits(volume: Object, claim: Object) -> bool:
    """Whether Kubernetes could give the volume to the claim, wherever a pod runs."""
    offered, wanted = volume["spec"], claim["spec"]
    selector = (wanted.get("selector") or {}).get("matchLabels") or {}
    return (
        class_name(volume) == class_name(claim)
        and capacity(volume) >= requested(claim)
        and set(wanted["accessModes"]) <= set(offered["accessModes"])
        and offered.get("volumeMode", "Filesystem") == wanted.get("volumeMode", "Filesystem")
        and selector.items() <= (volume["metadata"].get("labels") or {}).items()
    )


def may_hold(volume: Object, claim: Object) -> bool:
    """Whether it can be bound: a user may have written the name of a claim on a volume that is too small for it."""
    return volume_name(claim) != "" or reference(volume) is None or fits(volume, claim)


def in_one_topology(volumes: Iterable[Object], nodes: Iterable[Object]) -> bool:
    """Whether some node has access to all the volumes."""
    wanted = list(volumes)
    return any(all(reachable_from(volume, node) for volume in wanted) for node in nodes)


def changed_fields(before: object, after: object, path: str = "") -> Iterator[str]:
    """Return the paths of the leaves that differ, such as `spec.claimRef.uid`; lists count as leaves."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from changed_fields(before.get(key), after.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(before, dict) and after is None and before:
        for key in sorted(before):
            yield from changed_fields(before[key], None, f"{path}.{key}")
    elif isinstance(after, dict) and before is None and after:
        for key in sorted(after):
            yield from changed_fields(None, after[key], f"{path}.{key}")
    elif before != after:
        yield path
