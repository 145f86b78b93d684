"""What must not be left after a while without changes: by brute force over the final state."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

from soak.judge import facts
from soak.judge.cluster import Cluster
from soak.judge.facts import (
    ABSENT_SCHEDULER,
    GATE,
    KEYS_ON_CLAIMS,
    KEYS_ON_VOLUMES,
    QUARANTINE_KEYS,
    key_of,
    reference,
    refers_to,
    uid,
)
from soak.judge.history import Object
from soak.judge.placement.room import has_place
from soak.judge.rules import Violation
from soak.judge.to_come.holds import unwanted_hold
from soak.judge.writes import Party

_COMMITTING: Final = frozenset({"prebind", "complete"})
_SLACK: Final = 100.0
"""Seconds by which a reservation may have expired: the difference of the replicas' clocks."""
_UNUSED: Final = frozenset({"", "Pending", "Available"})


def judge_remains(cluster: Cluster, now: float, default_mode: str) -> Iterator[Violation]:
    """Check the final state. `default_mode` is that of classes without one of their own."""
    for volume in cluster.volumes.values():
        yield from _on_volume(volume, cluster, now)
    for claim in cluster.claims.values():
        yield from _on_claim(claim, cluster, now)
    for pod in cluster.pods.values():
        for_nobody = pod["spec"].get("schedulerName") == ABSENT_SCHEDULER and not facts.gates(pod)
        if not for_nobody and _waits(pod) and _must_be_served(pod, cluster, default_mode):
            node = servable_on(pod, cluster)
            if node is not None:
                what = "its gate was not removed" if GATE in facts.gates(pod) else "it has no node"
                yield _left("pods that fit are scheduled", f"pod {key_of(pod)}: {what}, yet it fits on {node}")


def _left(rule: str, text: str, *revisions: int) -> Violation:
    return Violation(rule, text, revisions)


def _on_volume(volume: Object, cluster: Cluster, now: float) -> Iterator[Violation]:
    name, named = facts.name(volume), facts.reserved_for(volume)
    author = cluster.reservations.get(name)
    revisions = [author.revision] if author else []
    keys = [key for key in KEYS_ON_VOLUMES if facts.annotation(volume, key) is not None]
    if keys:
        claim = cluster.claims.get(named[0]) if named else None
        ends = facts.expires_at(volume)
        if named is None or ends is None or ends < now - _SLACK:
            yield _left("nothing is left behind", f"volume {name} carries {keys}, broken or expired", *revisions)
        elif claim is None or uid(claim) != named[1]:
            yield _left(
                "nothing is left behind", f"volume {name} is reserved for {named[0]}, which is gone", *revisions
            )
        elif not _consumers(named[0], cluster):
            yield _left("nothing is left behind", f"volume {name} is reserved for {named[0]} without a pod", *revisions)
    yield from _reference_left(volume, cluster)
    unwanted = unwanted_hold(volume, cluster)
    if unwanted:
        yield _left("nothing is left behind", f"volume {name} is held for {facts.held_for(volume)}, {unwanted}")
    if not facts.is_placeholder(volume) and any(facts.annotation(volume, key) is not None for key in QUARANTINE_KEYS):
        yield _left("nothing is left behind", f"volume {name} has marks of quarantine and no placeholder")


def _reference_left(volume: Object, cluster: Cluster) -> Iterator[Violation]:
    name, referred, author = facts.name(volume), reference(volume), cluster.references.get(facts.name(volume))
    if referred is None or author is None or author.party is not Party.CONTROLLER:
        return
    if facts.is_placeholder(volume):
        # If its annotations or its health are removed, it has to be released by hand.
        marked = all(facts.annotation(volume, key) is not None for key in QUARANTINE_KEYS)
        if marked and facts.annotation(volume, facts.PREFIX + "health") == "Healthy":
            text = f"volume {name} is healthy and in quarantine"
            yield _left("nothing is left behind", text, author.revision)
        return
    claim = cluster.claims.get(referred[0])
    if claim is None and (facts.held_for(volume) == referred[0] or name in cluster.unheld_by_others):
        return  # For a replica to come: soak.judge.to_come.holds; or nothing proves any more that it was.
    if claim is not None and refers_to(volume, claim):
        if facts.volume_name(claim) not in {"", name}:
            text = f"volume {name} refers to {referred[0]}, which is bound to {facts.volume_name(claim)}"
            yield _left("one claim, one volume", text, author.revision)
        elif not facts.volume_name(claim) and not _consumers(referred[0], cluster):
            text = f"volume {name} is committed to {referred[0]} without a pod"
            yield _left("nothing is left behind", text, author.revision)
    elif facts.phase(volume) in _UNUSED:
        text = f"volume {name} refers to {referred[0]}, which is gone"
        yield _left("nothing is left behind", text, author.revision)


def _on_claim(claim: Object, cluster: Cluster, now: float) -> Iterator[Violation]:
    keys = [key for key in KEYS_ON_CLAIMS if facts.annotation(claim, key) is not None]
    if not keys:
        return
    name, ends = facts.annotation(claim, facts.PREFIX + "reserved-volume"), facts.expires_at(claim)
    volume = cluster.volumes.get(name or "")
    if ends is None or ends < now - _SLACK:
        yield _left("nothing is left behind", f"claim {key_of(claim)} carries {keys}, broken or expired")
    elif volume is None or facts.reserved_for(volume) != (key_of(claim), uid(claim)):
        yield _left("nothing is left behind", f"claim {key_of(claim)} names volume {name}, which is not held for it")


def _consumers(claim_key: str, cluster: Cluster) -> list[Object]:
    return [
        cluster.pods[each.key]
        for each in cluster.consumers[claim_key].values()
        if each.gone_at is None and each.key in cluster.pods and not facts.finished(cluster.pods[each.key])
    ]


def _waits(pod: Object) -> bool:
    unassigned = not pod["spec"].get("nodeName")
    return unassigned and not facts.deleting(pod) and not facts.finished(pod) and set(facts.gates(pod)) <= {GATE}


def _must_be_served(pod: Object, cluster: Cluster, default_mode: str) -> bool:
    """Gated pods in every mode but off; others if volumes are committed for pods that a scheduler rejects."""
    modes = set()
    for key in facts.claim_keys(pod):
        claim = cluster.claims.get(key)
        if claim is None:
            return False
        known = cluster.modes.get(facts.class_name(claim))
        modes.add((known[-1][1] if known else "") or default_mode)
    if GATE in facts.gates(pod):
        return bool(modes) and modes <= _COMMITTING | {"annotate"}
    return bool(modes) and modes <= _COMMITTING


def servable_on(pod: Object, cluster: Cluster) -> str | None:
    """Return a node where the pod fits with volumes that are left for its claims, by brute force."""
    keys = facts.claim_keys(pod)
    claims = [cluster.claims[key] for key in keys if key in cluster.claims]
    usable = [claim for claim in claims if facts.may_use(pod, claim) and not facts.deleting(claim)]
    if len(usable) != len(keys):
        return None
    for name, node in sorted(cluster.nodes.items()):
        if _takes(node, pod, cluster):
            offers = [_offers(claim, node, cluster) for claim in claims]
            if any(len(set(choice)) == len(choice) for choice in product(*offers)):
                return name
    return None


def _offers(claim: Object, node: Object, cluster: Cluster) -> list[str]:
    bound = facts.volume_name(claim)
    if bound:
        volume = cluster.volumes.get(bound)
        good = volume is not None and refers_to(volume, claim) and facts.phase(volume) == "Bound"
        return [bound] if volume is not None and good and facts.reachable_from(volume, node) else []
    committed = [name for name in cluster.referring[key_of(claim)] if refers_to(cluster.volumes[name], claim)]
    if facts.annotation(claim, facts.SELECTED) is not None and not committed:
        # By whoever it was selected: to kube-scheduler such a claim is to be provisioned, on that node alone.
        return []
    names: Sequence[str] = committed or sorted(cluster.volumes)
    return [name for name in names if _suits(cluster.volumes[name], claim, node, cluster)]


def _suits(volume: Object, claim: Object, node: Object, cluster: Cluster) -> bool:
    referred, reserved = reference(volume), facts.reserved_for(volume)
    free = referred is None or refers_to(volume, claim)
    holder = cluster.claims.get(reserved[0]) if reserved else None
    others = holder is not None and reserved is not None and uid(holder) == reserved[1] and holder is not claim
    return (
        free
        and not others
        and facts.phase(volume) == "Available"
        and not facts.deleting(volume)
        and not facts.unhealthy(volume)
        and not facts.is_kept(volume)
        and facts.class_name(volume) == facts.class_name(claim)
        and set(claim["spec"]["accessModes"]) <= set(volume["spec"]["accessModes"])
        and facts.capacity(volume) >= facts.requested(claim)
        and facts.reachable_from(volume, node)
    )


def _takes(node: Object, pod: Object, cluster: Cluster) -> bool:
    """Whether the node takes the pod beside those on it, and beside all that wait and may be given room there."""
    booked = (each for each in _booked(cluster, node) if each is not pod)
    return has_place(node, cluster.pods.values(), pod, booked)


def _booked(cluster: Cluster, node: Object) -> Iterator[Object]:
    """Yield the waiting pods for which a volume is held that is accessible from the node."""
    for pod in cluster.pods.values():
        if not pod["spec"].get("nodeName") and not facts.finished(pod):
            claims = [cluster.claims[key] for key in facts.claim_keys(pod) if key in cluster.claims]
            volumes = [volume for claim in claims for volume in cluster.volumes_of(claim)]
            if volumes and all(facts.reachable_from(volume, node) for volume in volumes):
                yield pod
