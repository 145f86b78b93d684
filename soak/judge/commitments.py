"""The rule that no pod is committed where committed pods have left no room.

Checked when the controller commits a volume, and when it lets a pod go whose volumes are all bound or committed. What
another party did less than GRACE before our request counts as not yet seen.
"""

from collections.abc import Iterator

from soak.judge import facts
from soak.judge.cluster import Cluster
from soak.judge.facts import GATE, key_of, reference, uid
from soak.judge.history import Object
from soak.judge.room import Waiting, all_that_fit, by_node, placeable, takes, usable
from soak.judge.rules import GRACE, Moment, Violation
from soak.judge.writes import Party

NO_ROOM = "no pod is committed without room"


def committed_where_there_is_room(moment: Moment) -> Iterator[Violation]:
    change, cluster = moment.change, moment.cluster
    if moment.write.party is not Party.CONTROLLER:
        return
    if change.kind == "PersistentVolume" and moment.commits_anew:
        named = reference(change.after)
        assert named is not None
        pods = waiting_users(named[0], cluster)
        if pods and not any(_has_room(pod, moment) for pod in pods):
            names = ", ".join(map(key_of, pods))
            text = f"committed for {names}, for which committed pods, or others, have left no room"
            yield moment.violation(NO_ROOM, text)
    elif change.kind == "Pod" and change.after is not None:
        let_go = GATE in facts.gates(change.before) and not facts.gates(change.after)
        # That pods on nodes leave it no room, kube-scheduler reports, and it may preempt them.
        judged = let_go and _is_committed(change.after, cluster) and _has_room(change.after, moment, alone=True)
        if judged and not _has_room(change.after, moment):
            yield moment.violation(NO_ROOM, "let go where pods to which volumes are committed have left no room")


def judge_stuck(cluster: Cluster) -> Iterator[Violation]:
    """Check the final state: a pod that kube-scheduler calls unschedulable must not have lost its room to pods let go
    after it that could go nowhere else.
    """
    there = by_node(cluster.pods.values(), lambda _: True)
    for pod in cluster.pods.values():
        released = cluster.released.get(uid(pod))
        if released is None or released.party is not Party.CONTROLLER or not facts.reported_unschedulable(pod):
            continue
        if pod["spec"].get("nodeName") or facts.gates(pod) or not _is_committed(pod, cluster):
            continue
        for name in _possible(pod, cluster, usable_since=float("inf")):
            later = [other for other in there.get(name, ()) if _came_later(other, pod, name, cluster)]
            left = [other for other in there.get(name, ()) if other not in later]
            if later and takes(cluster.nodes[name], left, pod):
                names = ", ".join(map(key_of, later))
                text = f"kube-scheduler has no node for pod {key_of(pod)}: {names} were let go after it, to {name}"
                yield Violation(NO_ROOM, text, (released.revision,))


def _came_later(other: Object, pod: Object, node: str, cluster: Cluster) -> bool:
    first, second = cluster.released.get(uid(pod)), cluster.released.get(uid(other))
    if first is None or second is None or second.party is not Party.CONTROLLER or second.at <= first.at:
        return False
    return _is_committed(other, cluster) and _possible(other, cluster, usable_since=float("inf")) == (node,)


def waiting_users(claim_key: str, cluster: Cluster) -> list[Object]:
    """Return the pods without a node that use the claim."""
    keys = sorted({each.key for each in cluster.consumers[claim_key].values() if each.gone_at is None})
    pods = [cluster.pods[key] for key in keys if key in cluster.pods]
    return [pod for pod in pods if not pod["spec"].get("nodeName") and not facts.finished(pod)]


def _has_room(pod: Object, moment: Moment, *, alone: bool = False) -> bool:
    """Whether the pod has a place beside the committed pods that have one; `alone`: beside pods on nodes only."""
    cluster, known = moment.cluster, moment.write.received - GRACE

    def was_placed(each: Object) -> bool:
        placed = cluster.placed.get(uid(each))
        return placed is None or placed.at < known

    there = by_node(cluster.pods.values(), was_placed)
    mine = Waiting(pod, _possible(pod, cluster, known))
    others = [] if alone else [each for each in _committed(moment) if uid(each.pod) != uid(pod)]
    nodes = cluster.nodes_ever
    return placeable([*all_that_fit(others, nodes, there), mine], nodes, there)


def _committed(moment: Moment) -> list[Waiting]:
    """Return the committed pods that wait for a node, as far as they were known to, in the order of their release."""
    cluster, known = moment.cluster, moment.write.received - GRACE
    pods = []
    for pod in cluster.pods.values():
        released, placed = cluster.released.get(uid(pod)), cluster.placed.get(uid(pod))
        waits = not pod["spec"].get("nodeName") or (placed is not None and placed.at >= known)
        if not waits or facts.deleting(pod) or facts.finished(pod) or facts.gates(pod):
            continue
        if released is not None and moment.was_there(released) and _is_committed(pod, cluster, moment):
            pods.append((released.at, Waiting(pod, _possible(pod, cluster, known))))
    return [waiting for _, waiting in sorted(pods, key=lambda each: each[0])]


def _is_committed(pod: Object, cluster: Cluster, moment: Moment | None = None) -> bool:
    """Whether a volume is bound or committed for each of the pod's claims, and was known to be at that moment."""
    for key in facts.claim_keys(pod):
        claim = cluster.claims.get(key)
        if claim is None or facts.deleting(claim) or not facts.may_use(pod, claim):
            return False
        held = [volume for volume in cluster.volumes_of(claim) if facts.refers_to(volume, claim)]
        if not held:
            return False
        if moment is not None and not moment.was_there(cluster.references.get(facts.name(held[0]))):
            return False
    return True


def _possible(pod: Object, cluster: Cluster, usable_since: float) -> tuple[str, ...]:
    """Return the nodes that could take the pod if they were empty, from which all volumes held for it are accessible.

    Nodes that were usable until after `usable_since` are among them.
    """
    claims = [cluster.claims[key] for key in facts.claim_keys(pod) if key in cluster.claims]
    volumes = [volume for claim in claims for volume in cluster.volumes_of(claim)[:1]]
    return tuple(
        name
        for name, node in sorted(cluster.nodes_ever.items())
        if usable(cluster.nodes.get(name)) or cluster.usable_until.get(name, 0.0) >= usable_since
        if all(facts.reachable_from(volume, node) for volume in volumes)
    )
