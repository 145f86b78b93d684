"""Volumes that are still to be made: what our controller selects a node for, and what pools of storage hold.

Counted are the claims that exist: a volume whose claim was deleted while it was made is in no object, and the space of
a deleted claim is free a moment before its volume's object is gone.
"""

from collections.abc import Callable, Iterator
from typing import Final

from soak.judge import facts
from soak.judge.cluster import Cluster
from soak.judge.facts import GATE, POOL_BYTES, POOL_CLASS, SELECTED, annotation, key_of, uid
from soak.judge.history import Object
from soak.judge.placement.room import has_place
from soak.judge.rules import GRACE, Moment, Violation
from soak.judge.writes import Party

OVERCOMMITTED: Final = "no pool is overcommitted by us"
APART: Final = "all volumes of a pod are made on one node"
NAMED: Final = "a provisioner is named once all nodes are selected"
EARLY: Final = "a pod goes when all its volumes are made"
PARTLY: Final = "no gated pod stays partly provisioned"
REPORTED_WITHIN: Final = 270.0
"""Seconds after which our controllers certainly take a volume to be part of its pool's report, and have tried again:
two minutes (`report-after`) by a clock that is up to 90 s behind, and 60 s between two attempts.
"""
_MODE: Final = "provision"


def no_pool_is_overcommitted(moment: Moment) -> Iterator[Violation]:
    """What we selected for a node, and what was made there for claims that exist, is at most its pool."""
    node, cluster = _newly_selected(moment), moment.cluster
    if not node:
        return
    if _MODE not in cluster.recent_modes(POOL_CLASS, moment.change.at):
        yield moment.violation(OVERCOMMITTED, f"node {node} selected, which only mode {_MODE} does")
    there = {key_of(claim): facts.requested(claim) for claim in _on(node, cluster)}
    there[moment.change.key] = facts.requested(moment.change.object)
    if sum(there.values()) > POOL_BYTES:
        text = (
            f"node {node} selected, on which claims take {sum(there.values())} of {POOL_BYTES} bytes: {sorted(there)}"
        )
        yield moment.violation(OVERCOMMITTED, text)


def all_volumes_of_a_pod_are_made_on_one_node(moment: Moment) -> Iterator[Violation]:
    node, cluster = _newly_selected(moment), moment.cluster
    if not node:
        return
    for pod in _pods_of(moment.change.key, cluster):
        for claim in _claims(pod, cluster):
            author = cluster.bound.get(uid(claim)) or cluster.selected.get(key_of(claim))
            other = _place(claim, cluster)
            if other not in {"", node} and moment.was_there(author):
                text = f"node {node} selected, although claim {key_of(claim)} of pod {key_of(pod)} is on {other}"
                yield moment.violation(APART, text)


def a_provisioner_is_named_where_a_node_is_selected(moment: Moment) -> Iterator[Violation]:
    """Once, with all nodes of the pod's claims selected: until then a selection could be taken back."""
    change, cluster = moment.change, moment.cluster
    if change.kind != "PersistentVolumeClaim" or moment.write.party is not Party.CONTROLLER:
        return
    before, after = (
        [annotation(claim, name) for name in facts.NAMED_BY] if claim else [] for claim in (change.before, change.after)
    )
    if before == after or change.after is None:
        return
    if any(before) or annotation(change.after, SELECTED) is None:
        yield moment.violation(NAMED, f"{before} became {after}, node {annotation(change.after, SELECTED)}")
    for pod in _pods_of(change.key, cluster):
        for claim in _claims(pod, cluster):
            since = cluster.claims_since.get(key_of(claim), moment.write.received)
            if not _place(claim, cluster) and since < moment.write.received - GRACE:
                yield moment.violation(NAMED, f"before a node was selected for claim {key_of(claim)}")


def a_pod_goes_when_all_its_volumes_are_made(moment: Moment) -> Iterator[Violation]:
    change, cluster = moment.change, moment.cluster
    if change.kind != "Pod" or change.after is None or moment.write.party is not Party.CONTROLLER:
        return
    if GATE not in facts.gates(change.before) or GATE in facts.gates(change.after):
        return
    if cluster.recent_modes(POOL_CLASS, change.at) != {_MODE}:
        return
    for claim in _claims(change.after, cluster):
        gone = cluster.claims_gone_at.get(key_of(claim), 0.0)
        if not facts.bind_completed(claim) and gone < moment.write.received - GRACE:
            yield moment.violation(EARLY, f"gate removed although claim {key_of(claim)} is not bound")


PROVISIONING_RULES: Final[tuple[Callable[[Moment], Iterator[Violation]], ...]] = (
    no_pool_is_overcommitted,
    all_volumes_of_a_pod_are_made_on_one_node,
    a_provisioner_is_named_where_a_node_is_selected,
    a_pod_goes_when_all_its_volumes_are_made,
)


def partly_provisioned(cluster: Cluster) -> Iterator[tuple[Object, str, int]]:
    """Yield the gated pods of the final state that have some of their volumes, the node, and the bytes missing."""
    for pod in cluster.pods.values():
        claims = list(_claims(pod, cluster))
        missing = [claim for claim in claims if not facts.volume_name(claim)]
        nodes = {_place(claim, cluster) for claim in claims if facts.volume_name(claim)} - {""}
        if GATE in facts.gates(pod) and not facts.deleting(pod) and missing and nodes:
            yield pod, min(nodes), sum(map(facts.requested, missing))


def judge_partly_provisioned(cluster: Cluster, now: float) -> Iterator[Violation]:
    """Check the final state: room that is left goes to such pods first, and what they had is not given to others.

    A process that began when a volume was in its pool's report already cannot know that, and counts it a second time
    until it is old enough.
    """
    for pod, node, missing in partly_provisioned(cluster):
        if node not in cluster.nodes:
            continue
        own = {key_of(claim) for claim in _claims(pod, cluster)}
        others = [claim for claim in _on(node, cluster) if key_of(claim) not in own]
        made = sum(facts.requested(claim) for claim in _claims(pod, cluster) if facts.volume_name(claim))
        left = POOL_BYTES - made - sum(map(facts.requested, others))
        began = min(author.at for claim in _claims(pod, cluster) if (author := cluster.bound.get(uid(claim))))
        later = [key_of(claim) for claim in others if _selected_after(claim, began, cluster)]
        if missing <= left:
            known = left - sum(facts.requested(claim) for claim in _on(node, cluster) if _is_new(claim, cluster, now))
            # A node that is tainted or full gets no further volume of the pod.
            if missing <= known and has_place(cluster.nodes[node], cluster.pods.values(), pod):
                yield Violation(PARTLY, f"pod {key_of(pod)}: {missing} bytes more fit on {node}, {left} are left", ())
        elif later:
            yield Violation(PARTLY, f"pod {key_of(pod)}: its room on {node} was given to {later}", ())


def _is_new(claim: Object, cluster: Cluster, now: float) -> bool:
    """Whether the claim has a volume that may not be known to be part of its pool's report."""
    author = cluster.bound.get(uid(claim))
    return bool(facts.volume_name(claim)) and author is not None and author.at > now - REPORTED_WITHIN


def _selected_after(claim: Object, began: float, cluster: Cluster) -> bool:
    author = cluster.selected.get(key_of(claim))
    return author is not None and author.party is Party.CONTROLLER and author.at > began + GRACE


def _newly_selected(moment: Moment) -> str:
    """Return the node that our controller selects for the claim; empty if it does not."""
    change = moment.change
    if change.kind != "PersistentVolumeClaim" or moment.write.party is not Party.CONTROLLER:
        return ""
    node = annotation(change.after, SELECTED) or ""
    return node if node != annotation(change.before, SELECTED) else ""


def _on(node: str, cluster: Cluster) -> Iterator[Object]:
    """Yield the claims whose volume is on the node, or for which we selected it."""
    for claim in cluster.claims.values():
        if facts.class_name(claim) != POOL_CLASS or _place(claim, cluster) != node:
            continue
        author = cluster.selected.get(key_of(claim))
        if facts.volume_name(claim) or (author is not None and author.party is Party.CONTROLLER):
            yield claim


def _place(claim: Object, cluster: Cluster) -> str:
    """Return the node of the claim's volume, or the one that is selected for it; empty if there is none."""
    volume = cluster.volumes.get(facts.volume_name(claim))
    if volume is not None:
        return next((name for name, node in cluster.nodes_ever.items() if facts.reachable_from(volume, node)), "")
    return annotation(claim, SELECTED) or ""


def _claims(pod: Object, cluster: Cluster) -> Iterator[Object]:
    """Yield the pod's claims whose volumes are made."""
    for key in facts.claim_keys(pod):
        claim = cluster.claims.get(key)
        if claim is not None and facts.class_name(claim) == POOL_CLASS:
            yield claim


def _pods_of(claim_key: str, cluster: Cluster) -> list[Object]:
    consumers = cluster.consumers[claim_key].values()
    return [cluster.pods[each.key] for each in consumers if each.gone_at is None and each.key in cluster.pods]
