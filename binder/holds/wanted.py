"""For which replicas volumes are wanted: what a StatefulSet's annotation says, and what its replicas will look like."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from binder.reservation.contract import Annotations
from kube.objects.model import Claim, Pod, value_of
from kube.objects.stateful_set import StatefulSet
from kube.store.snapshot import Snapshot

MAX_REPLICAS: Final = 1000
"""Of one set for which volumes are held; far more than the caps allow."""


@dataclass(frozen=True, slots=True)
class ComingReplica:
    """A replica without a pod: the pod, behind our gate, and the claims that its set will create.

    `missing` are those of the claims that do not exist yet.
    """

    owner: StatefulSet
    ordinal: int
    pod: Pod
    claims: tuple[Claim, ...]
    missing: tuple[Claim, ...]


def wanted_replicas(owner: StatefulSet, annotations: Annotations) -> range | None:
    """Return the ordinals for which the set wants its volumes; None if it wants none, or its number is not one."""
    text = value_of(owner.annotations, annotations.hold_replicas)
    if text is None or not text.isdecimal() or len(text) > 9 or owner.pod is None:
        return None
    count = int(text)
    return range(owner.start, owner.start + count) if 0 < count <= MAX_REPLICAS else None


def invalid_number(owner: StatefulSet, annotations: Annotations) -> str:
    """Return what is wrong with the set's annotation; empty if it has none, or a valid one."""
    text = value_of(owner.annotations, annotations.hold_replicas)
    if text is None or text == "0" or wanted_replicas(owner, annotations) is not None:
        return ""
    if owner.pod is None:
        return "its pod template cannot be read"
    return f"hold-replicas must be a number of at most {MAX_REPLICAS}, is {text[:40]!r}"


def coming_replica(
    owner: StatefulSet, ordinal: int, snapshot: Snapshot, annotations: Annotations
) -> ComingReplica | None:
    """Return the replica; None if its pod exists, which gets its volumes itself, or none of its claims is missing."""
    pod = owner.pod_of(ordinal)
    if pod is None or pod.key in snapshot.pods:
        return None
    claims = tuple(snapshot.claims.get(claim.key, claim) for claim in owner.claims_of(ordinal))
    missing = tuple(claim for claim in claims if claim.key not in snapshot.claims)
    if not missing:
        return None
    # Volumes are committed for no other pod.
    gated = replace(pod, scheduling_gates=(annotations.gate,), node_name="", unschedulable=False)
    return ComingReplica(owner, ordinal, gated, claims, missing)


def same_names(sets: Iterable[StatefulSet]) -> frozenset[tuple[str, str]]:
    """Return namespace and beginning of the claim names that several sets form: `data` of `db-1`, `data-db` of `1`."""
    counted = Counter((owner.namespace, f"{each.name}-{owner.name}-") for owner in sets for each in owner.templates)
    return frozenset(prefix for prefix, count in counted.items() if count > 1)


def ambiguous_template(owner: StatefulSet, twice: frozenset[tuple[str, str]]) -> str:
    """Return the template of the set whose claims another set of the namespace would create too; empty if none."""
    names = (each.name for each in owner.templates if (owner.namespace, f"{each.name}-{owner.name}-") in twice)
    return next(names, "")


def replica_of(claim_key: str, sets: Mapping[str, StatefulSet]) -> tuple[StatefulSet, int, Claim] | None:
    """Return the set of the namespace that forms the claim's name, the ordinal and the claim to come; None if none.

    `sets` are by `namespace/name`.
    """
    namespace, _, name = claim_key.partition("/")
    stem, _, digits = name.rpartition("-")
    if not (stem and digits.isdecimal() and len(digits) < 10):
        return None
    parts = stem.split("-")
    for cut in range(1, len(parts)):
        owner = sets.get(f"{namespace}/{'-'.join(parts[cut:])}")
        if owner is None:
            continue
        claims = {claim.key: claim for claim in owner.claims_of(int(digits))}
        if claim_key in claims:
            return owner, int(digits), claims[claim_key]
    return None
