"""The rule that no pod is committed where committed pods have left no room.

Checked when the controller commits a volume, and when it lets a pod go whose volumes are all bound or committed. A
request is right if it was at any moment less than GRACE before: what other parties did since then counts as not seen.

A pod that a scheduler has nominated for a node takes room there like one that is on it (docs/modes.md): the scheduler
keeps that room.
"""

from collections.abc import Iterator
from datetime import datetime
from math import inf
from typing import Final

from soak.judge import facts
from soak.judge.cluster import Author, Cluster
from soak.judge.facts import GATE, key_of, reference, uid
from soak.judge.history import Change, Object
from soak.judge.placement.room import Waiting, all_that_fit, by_node, placeable, takes, usable
from soak.judge.rules import GRACE, Moment, Violation
from soak.judge.writes import Party

NO_ROOM: Final = "no pod is committed without room"
_KEPT: Final = 30.0
"""Seconds for which a gate is kept because of room for others, at most (docs/modes.md, OtherPodPending)."""


def committed_where_there_is_room(moment: Moment) -> Iterator[Violation]:
    change, cluster = moment.change, moment.cluster
    if moment.write.party is not Party.CONTROLLER:
        return
    seen = _moments(moment.write.received, cluster)
    if change.kind == "PersistentVolume" and moment.commits_anew:
        named = reference(change.after)
        assert named is not None
        pods = waiting_users(named[0], cluster)
        fits = any(_has_room(pod, cluster, when) for pod in pods for when in seen)
        if pods and not fits and not _runs_there(named[0], change.after, cluster):
            names = ", ".join(map(key_of, pods))
            text = f"committed for {names}, for which committed pods, or others, have left no room"
            yield moment.violation(NO_ROOM, text)
    elif change.kind == "Pod" and change.after is not None:
        let_go = GATE in facts.gates(change.before) and not facts.gates(change.after)
        committed = let_go and is_committed(change.after, cluster) and not _was_kept(change.after, cluster, change.at)
        if committed and all(_takes_the_room_of_committed(change.after, cluster, when) for when in seen):
            yield moment.violation(NO_ROOM, "let go where pods to which volumes are committed have left no room")


def _moments(received: float, cluster: Cluster) -> list[float]:
    """Return the times less than GRACE before the request with what is known at each of them, the last first: all, and
    what there was before one thing was done.
    """
    authors = (cluster.placed, cluster.nominated, cluster.released, cluster.references, cluster.reservations)
    done = {author.at for each in authors for author in each.values()} | set(cluster.usable_until.values())
    gone = {at for at, _ in cluster.left.values()} | {at for at, _, _ in cluster.departed.values()}
    within = {at for at in done | gone if received - GRACE < at < received}
    return sorted(within | {received, received - GRACE}, reverse=True)


def judge_stuck(cluster: Cluster) -> Iterator[Violation]:
    """Check the final state: a pod that kube-scheduler calls unschedulable must not have lost its room to pods let go
    after it that could go nowhere else.
    """
    there = by_node(cluster.pods.values(), lambda _: True)
    for pod in cluster.pods.values():
        released = cluster.released.get(uid(pod))
        if released is None or released.party is not Party.CONTROLLER or not facts.reported_unschedulable(pod):
            continue
        if pod["spec"].get("nodeName") or facts.gates(pod) or not is_committed(pod, cluster):
            continue
        for name in _possible(pod, cluster, seen=inf):
            later = [other for other in there.get(name, ()) if _came_later(other, pod, name, cluster)]
            left = [other for other in there.get(name, ()) if other not in later]
            first = [other for other in left if _was_there(other, later, cluster)]
            node = cluster.nodes[name]
            if later and takes(node, left, pod) and not takes(node, [*first, *later], pod):
                names = ", ".join(map(key_of, later))
                text = f"kube-scheduler has no node for pod {key_of(pod)}: {names} were let go after it, to {name}"
                yield Violation(NO_ROOM, text, (released.revision,))


def _came_later(other: Object, pod: Object, node: str, cluster: Cluster) -> bool:
    first, second = cluster.released.get(uid(pod)), cluster.released.get(uid(other))
    if first is None or second is None or second.party is not Party.CONTROLLER or second.at <= first.at:
        return False
    return is_committed(other, cluster) and _possible(other, cluster, seen=inf) == (node,)


def _was_there(other: Object, later: list[Object], cluster: Cluster) -> bool:
    """Whether the pod was on its node when the last of the later ones was let go: what came since took room as well."""
    placed = cluster.placed.get(uid(other))
    return placed is None or any(placed.at <= cluster.released[uid(each)].at for each in later)


def waiting_users(claim_key: str, cluster: Cluster) -> list[Object]:
    """Return the pods without a node that use the claim."""
    return [pod for pod in _users(claim_key, cluster) if not pod["spec"].get("nodeName")]


def _users(claim_key: str, cluster: Cluster) -> list[Object]:
    keys = sorted({each.key for each in cluster.consumers[claim_key].values() if each.gone_at is None})
    pods = [cluster.pods[key] for key in keys if key in cluster.pods]
    return [pod for pod in pods if not facts.finished(pod)]


def _runs_there(claim_key: str, volume: Object | None, cluster: Cluster) -> bool:
    """Whether a pod that shares the claim is on a node from which the volume is accessible: it needs no other room."""
    nodes = [cluster.nodes.get(pod["spec"].get("nodeName", "")) for pod in _users(claim_key, cluster)]
    return volume is not None and any(node is not None and facts.reachable_from(volume, node) for node in nodes)


def _was_kept(pod: Object, cluster: Cluster, at: float) -> bool:
    """Whether the pod has waited behind its gate, with all its volumes, for as long as others may hold it up."""
    claims = [cluster.claims[key] for key in facts.claim_keys(pod) if key in cluster.claims]
    bound = [author.at for claim in claims if (author := cluster.bound.get(uid(claim))) is not None]
    return at - max(_created(pod) or at, *bound, 0.0) >= _KEPT


def _takes_the_room_of_committed(pod: Object, cluster: Cluster, seen: float) -> bool:
    """That pods on nodes leave it no room does not count: kube-scheduler reports it, and may preempt them."""
    return _has_room(pod, cluster, seen, alone=True) and not _has_room(pod, cluster, seen)


def _has_room(pod: Object, cluster: Cluster, seen: float, *, alone: bool = False) -> bool:
    """Whether the pod has a place beside the committed pods that have one; `alone`: beside pods on nodes only. `seen`
    is the time since when nothing is known of what other parties did.

    Where others took so much room since that not all committed pods can run, the more urgent ones have a place
    (docs/reservation-contract.md). A pod that has only a part of its volumes, or only reservations, takes the room of
    less urgent ones as well. What a watch shows of pods is not older than the pod itself.
    """
    pods_seen = max(seen, _created(pod))
    there = by_node(cluster.pods.values(), lambda each: _known(cluster.placed.get(uid(each)), pods_seen))
    for each in cluster.pods.values():
        if _is_nominated(each, cluster, pods_seen) and uid(each) != uid(pod):
            there.setdefault(facts.nominated_node(each), []).append(each)
    for gone_at, each in cluster.left.values():
        if gone_at >= pods_seen:
            there.setdefault(str(each["spec"]["nodeName"]), []).append(each)
    mine, nodes = Waiting(pod, _possible(pod, cluster, seen)), cluster.nodes_ever
    others = [] if alone else [each for each in _waiting(cluster, seen, pods_seen) if uid(each.pod) != uid(pod)]
    departed = [] if alone else _departed(cluster, pods_seen)
    committed = [each for each in others if is_committed(each.pod, cluster, seen)]
    tied = [each for each in others if each in committed or _is_tied(each, cluster, seen)]
    orders = (sorted([*each, *departed], key=_urgency) for each in (committed, tied))
    return any(placeable([*all_that_fit(order, nodes, there), mine], nodes, there) for order in orders)


def _urgency(waiting: Waiting) -> tuple[object, ...]:
    """Those of higher priority come first, of these those that can go nowhere else, then the older ones."""
    pod = waiting.pod
    return -pod["spec"].get("priority", 0), len(waiting.nodes) > 1, _created(pod), key_of(pod)


def _created(pod: Object) -> float:
    created = pod["metadata"].get("creationTimestamp")
    return datetime.fromisoformat(created).timestamp() if created else 0.0


def _is_nominated(pod: Object, cluster: Cluster, seen: float) -> bool:
    """Whether the pod waits for a node that is kept for it, as far as is known."""
    waits = not pod["spec"].get("nodeName") and not facts.deleting(pod) and not facts.finished(pod)
    kept = waits and facts.nominated_node(pod) in cluster.nodes
    return kept and _known(cluster.nominated.get(uid(pod)), seen)


def _known(author: Author | None, seen: float) -> bool:
    """Whether that is known to the controller: what it did itself is."""
    return author is None or author.party is Party.CONTROLLER or author.at < seen


def _waiting(cluster: Cluster, seen: float, pods_seen: float) -> list[Waiting]:
    """Return the pods that wait for a node without a gate, as far as they are known."""
    pods = []
    for pod in cluster.pods.values():
        released, placed = cluster.released.get(uid(pod)), cluster.placed.get(uid(pod))
        waits = not pod["spec"].get("nodeName") or not _known(placed, pods_seen)
        if not waits or facts.deleting(pod) or facts.finished(pod) or facts.gates(pod):
            continue
        if _is_nominated(pod, cluster, pods_seen):
            continue
        if released is not None and _known(released, pods_seen):
            pods.append(Waiting(pod, _possible(pod, cluster, seen)))
    return pods


def note_departure(change: Change, cluster: Cluster) -> None:
    """Keep a committed pod that is deleted while it has no node as it is: to be called before the change is applied."""
    pod = change.before
    if change.kind != "Pod" or pod is None or pod["spec"].get("nodeName") or facts.gates(pod) or facts.deleting(pod):
        return
    if (change.after is None or facts.deleting(change.after)) and is_committed(pod, cluster):
        cluster.departed[uid(pod)] = change.at, pod, _possible(pod, cluster, inf)


def _departed(cluster: Cluster, seen: float) -> list[Waiting]:
    """Return the committed pods without a node that were there until after `seen`."""
    return [Waiting(pod, nodes) for at, pod, nodes in cluster.departed.values() if at >= seen]


def is_committed(pod: Object, cluster: Cluster, seen: float = inf) -> bool:
    """Whether a volume is bound or committed for each of the pod's claims, as far as is known."""
    for key in facts.claim_keys(pod):
        claim = cluster.claims.get(key)
        if claim is None or facts.deleting(claim) or not facts.may_use(pod, claim):
            return False
        named = [volume for volume in cluster.volumes_of(claim) if facts.refers_to(volume, claim)]
        held = [volume for volume in named if facts.may_hold(volume, claim)]
        if not held or not _known(cluster.references.get(facts.name(held[0])), seen):
            return False
    return True


def _is_tied(waiting: Waiting, cluster: Cluster, seen: float) -> bool:
    """Whether a part of the pod's volumes is held for it, and its other claims can get volumes where those are."""
    tied, nodes = False, [cluster.nodes_ever[name] for name in waiting.nodes]
    for key in facts.claim_keys(waiting.pod):
        claim = cluster.claims.get(key)
        if claim is None or facts.deleting(claim) or facts.phase(claim) == "Lost":
            return False
        held = cluster.volumes_of(claim)[:1]
        tied = tied or bool(held)
        gets = held or [volume for volume in cluster.volumes.values() if _is_offered(volume, claim, nodes)]
        if not gets or (held and not _is_held(held[0], claim, cluster, seen)) or not facts.may_use(waiting.pod, claim):
            return False
    return tied


def _is_held(volume: Object, claim: Object, cluster: Cluster, seen: float) -> bool:
    """Whether the volume is the claim's, or reserved for it and not expired, as far as is known."""
    if facts.reference(volume) is not None:
        known = _known(cluster.references.get(facts.name(volume)), seen)
        return known and facts.refers_to(volume, claim) and facts.may_hold(volume, claim)
    if facts.reserved_for(volume) != (key_of(claim), uid(claim)) or facts.phase(volume) != "Available":
        return False
    expires = facts.expires_at(volume)
    return expires is not None and expires > seen and _known(cluster.reservations.get(facts.name(volume)), seen)


def _is_offered(volume: Object, claim: Object, nodes: list[Object]) -> bool:
    """Whether a claim without a volume could get this one on one of the nodes."""
    free = facts.reference(volume) is None and facts.phase(volume) == "Available"
    return free and facts.fits(volume, claim) and any(facts.reachable_from(volume, node) for node in nodes)


def _possible(pod: Object, cluster: Cluster, seen: float) -> tuple[str, ...]:
    """Return the nodes that could take the pod if they were empty, from which all volumes held for it are accessible.

    Nodes that were usable until after `seen` are among them.
    """
    claims = [cluster.claims[key] for key in facts.claim_keys(pod) if key in cluster.claims]
    held = [volume for claim in claims for volume in _first_known(cluster.volumes_of(claim), cluster, seen)]
    # Once a volume is committed for one claim, hints for the others decide nothing.
    volumes = [volume for volume in held if facts.reference(volume) is not None] or held
    return tuple(
        name
        for name, node in sorted(cluster.nodes_ever.items())
        if usable(cluster.nodes.get(name)) or cluster.usable_until.get(name, 0.0) >= seen
        if all(facts.reachable_from(volume, node) for volume in volumes)
    )


def _first_known(volumes: list[Object], cluster: Cluster, seen: float) -> list[Object]:
    """Return the first of these volumes whose claimRef was there by then."""
    return [each for each in volumes if _known(cluster.references.get(facts.name(each)), seen)][:1]
