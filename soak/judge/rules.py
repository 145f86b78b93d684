"""The rules, applied to every change that one of ours made. The cluster has applied the change, but not its author.

Two objects cannot be written in one transaction, so a write that was decided correctly can arrive after another party's
write to another object. GRACE is how long ago that write must have been for ours to be wrong; our own earlier writes
and the object itself, whose resourceVersion the write names, get none.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Final

from soak.judge import facts
from soak.judge.cluster import LOOK_BACK, Author, Cluster
from soak.judge.facts import BIND_COMPLETED, BOUND_BY_CONTROLLER, GATE, PREFIX, key_of, reference, refers_to, uid
from soak.judge.history import Change, Object
from soak.judge.writes import Party, Write

GRACE: Final = 3.0
_COMMITTING: Final = frozenset({"prebind", "complete"})
_HOLDING: Final = _COMMITTING | {"annotate"}


@dataclass(frozen=True, slots=True)
class Violation:
    """What must not have happened. `revisions` are those of the writes that matter, the offending one last."""

    rule: str
    text: str
    revisions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Moment:
    """A change that one of ours made, the write that made it, and the cluster right after."""

    change: Change
    write: Write
    cluster: Cluster

    def violation(self, rule: str, text: str, *earlier: int) -> Violation:
        who = f"{self.write.party} wrote {self.change.kind} {self.change.key}"
        return Violation(rule, f"{who}: {text}", (*earlier, self.change.revision))

    def was_there(self, author: Author | None) -> bool:
        """Whether the content of another object could be known when this write was decided."""
        if author is None:
            return False
        return author.party is self.write.party or author.at < self.write.received - GRACE

    @property
    def commits_anew(self) -> bool:
        """Whether the claimRef names another claim than before, which is not a placeholder of quarantine, nor bound to
        the volume already.
        """
        before, after = reference(self.change.before), reference(self.change.after)
        if after is None or self.change.after is None or facts.is_placeholder(self.change.after):
            return False
        claim = self.cluster.claims.get(after[0])
        if claim is not None and facts.bind_completed(claim) and facts.volume_name(claim) == self.change.key:
            return False
        return before is None or before[0] != after[0]


def one_claim_never_holds_two_volumes(moment: Moment) -> Iterator[Violation]:
    change, cluster = moment.change, moment.cluster
    named = reference(change.after)
    if change.kind != "PersistentVolume" or named is None or reference(change.before) == named:
        return
    claim = cluster.claims.get(named[0])
    if claim is None or not refers_to(change.after, claim):
        return
    for other in sorted(cluster.referring[named[0]] - {change.key}):
        author = cluster.references.get(other)
        if _serves(cluster.volumes[other], claim) and author is not None and moment.was_there(author):
            text = f"claimRef to {named[0]}, to which {other} refers since {author.revision}"
            yield moment.violation("one claim, one volume", text, author.revision)


def one_claim_never_has_two_reservations(moment: Moment) -> Iterator[Violation]:
    change, cluster = moment.change, moment.cluster
    named = facts.reserved_for(change.after)
    if change.kind != "PersistentVolume" or named is None or named == facts.reserved_for(change.before):
        return
    for other, volume in cluster.volumes.items():
        author = cluster.reservations.get(other)
        ours = author is not None and author.party is moment.write.party
        if other != change.key and facts.reserved_for(volume) == named and author is not None and ours:
            text = f"reserves it for {named[0]}, for which {other} is reserved since {author.revision}"
            yield moment.violation("one claim, one reservation", text, author.revision)


def a_second_volume_never_becomes_bound(moment: Moment) -> Iterator[Violation]:
    change, cluster = moment.change, moment.cluster
    if change.kind != "PersistentVolume" or facts.phase(change.after) != "Bound":
        return
    named = reference(change.after)
    if facts.phase(change.before) == "Bound" or named is None:
        return
    claim = cluster.claims.get(named[0])
    if claim is None or not refers_to(change.after, claim):
        return
    for other in sorted(cluster.referring[named[0]] - {change.key}):
        volume, author = cluster.volumes[other], cluster.phases.get(other)
        if refers_to(volume, claim) and facts.phase(volume) == "Bound" and moment.was_there(author):
            text = f"phase Bound for {named[0]}, for which {other} is Bound"
            yield moment.violation("one claim, one Bound volume", text, *([author.revision] if author else []))


def one_volume_never_has_two_claims(moment: Moment) -> Iterator[Violation]:
    change, cluster = moment.change, moment.cluster
    name = facts.volume_name(change.after)
    if change.kind == "PersistentVolumeClaim" and name and name != facts.volume_name(change.before):
        for other in sorted(cluster.naming[name] - {change.key}):
            yield moment.violation("one volume, one claim", f"volumeName {name}, which claim {other} has")


def a_claim_ref_is_never_taken_over(moment: Moment) -> Iterator[Violation]:
    """The uid that a party itself added to the name of a claim it may take back."""
    before, after = reference(moment.change.before), reference(moment.change.after)
    if moment.change.kind != "PersistentVolume" or before is None or after is None:
        return
    completed = moment.cluster.completed.get(moment.change.key)
    if before[0] == after[0] and not after[1] and completed is not None and completed.party is moment.write.party:
        return
    if before[0] != after[0] or (before[1] and before[1] != after[1]):
        author = moment.cluster.references.get(moment.change.key)
        text = f"claimRef {_shown(before)} becomes {_shown(after)}"
        yield moment.violation("no claimRef is replaced", text, *([author.revision] if author else []))


def a_volume_fits_its_claim(moment: Moment) -> Iterator[Violation]:
    """Checked when a claim gets the volume by uid: a recreated claim of that name may differ from what was known."""
    change, cluster = moment.change, moment.cluster
    if change.kind != "PersistentVolume" or change.after is None:
        return
    named, reserved = reference(change.after), facts.reserved_for(change.after)
    taken = named is not None and moment.commits_anew
    if not taken and (reserved is None or reserved == facts.reserved_for(change.before)):
        return
    exact = {each for each in (named if taken else None, reserved) if each is not None and each[1]}
    for key, its_uid in sorted(exact):
        claim = cluster.claims.get(key)
        if claim is not None and uid(claim) == its_uid and not facts.fits(change.after, claim):
            yield moment.violation("a volume fits its claim", f"given to {key}, which it does not fit")


def no_unhealthy_volume_is_taken(moment: Moment) -> Iterator[Violation]:
    """The version that the write was conditional on is unhealthy."""
    change = moment.change
    if change.kind != "PersistentVolume" or not facts.unhealthy(change.before):
        return
    state = facts.annotation(change.before, PREFIX + "health")
    reserved = facts.reserved_for(change.after)
    if moment.commits_anew:
        yield moment.violation("no unhealthy volume", f"committed although published as {state}")
    elif reserved is not None and reserved != facts.reserved_for(change.before):
        yield moment.violation("no unhealthy volume", f"reserved although published as {state}")
    elif facts.phase(change.after) == "Bound" and facts.phase(change.before) != "Bound":
        yield moment.violation("no unhealthy volume", f"phase Bound although published as {state}")


def volume_name_is_written_whole_and_in_mode_complete(moment: Moment) -> Iterator[Violation]:
    change, cluster = moment.change, moment.cluster
    claim, name = change.after, facts.volume_name(change.after)
    if change.kind != "PersistentVolumeClaim" or claim is None or not name or name == facts.volume_name(change.before):
        return
    modes = cluster.recent_modes(facts.class_name(claim), change.at)
    if "complete" not in modes:
        yield moment.violation("volumeName", f"written in mode {sorted(modes)}")
    if facts.annotation(claim, BIND_COMPLETED) is None:
        yield moment.violation("volumeName", "written without bind-completed")
    if reference(cluster.volumes.get(name)) != (change.key, uid(claim)):
        ended = cluster.unreferenced_at.get((name, uid(claim)))
        if ended is None or ended < moment.write.received - GRACE:
            shown = _shown(reference(cluster.volumes.get(name)))
            yield moment.violation("volumeName", f"volume {name} does not refer to the claim but to {shown}")


def only_those_are_committed_who_may_be(moment: Moment) -> Iterator[Violation]:
    """The controller commits for gated pods, and for those that a scheduler has reported unschedulable."""
    change, cluster = moment.change, moment.cluster
    if change.kind != "PersistentVolume" or not moment.commits_anew or moment.write.party is not Party.CONTROLLER:
        return
    named = reference(change.after)
    assert named is not None
    modes = cluster.recent_modes(facts.class_name(change.object), change.at)
    if not modes & _COMMITTING:
        yield moment.violation(
            "only gated or unschedulable pods are committed", f"claimRef to {named[0]} in mode {sorted(modes)}"
        )
    if facts.held_for(change.after) == named[0]:
        return  # For a replica to come: soak.judge.to_come.holds.
    consumers = cluster.recent_consumers(named[0], change.at)
    if not any(each.gated_until >= change.at - LOOK_BACK or each.unschedulable for each in consumers):
        pods = [each.key for each in consumers]
        text = f"claimRef to {named[0]}, whose pods {pods} are neither gated nor reported unschedulable"
        yield moment.violation("only gated or unschedulable pods are committed", text)


def a_claim_ref_of_others_is_never_cleared(moment: Moment) -> Iterator[Violation]:
    change, cluster = moment.change, moment.cluster
    before = reference(change.before)
    if change.kind != "PersistentVolume" or before is None or reference(change.after) is not None:
        return
    author = cluster.references.get(change.key)
    if author is not None and author.party not in {moment.write.party, None}:
        text = f"claimRef {_shown(before)} cleared, which {author.party} wrote in {author.revision}"
        yield moment.violation("claimRefs of others stay", text, author.revision)
    claim = cluster.claims.get(before[0])
    bound = claim is not None and before[1] == uid(claim) and facts.volume_name(claim) == change.key
    if claim is not None and bound and moment.was_there(cluster.bound.get(uid(claim))):
        yield moment.violation("a bind is never undone", f"claimRef {_shown(before)} cleared, whose claim is bound")


def what_a_claim_is_bound_to_is_never_given_to_another(moment: Moment) -> Iterator[Violation]:
    """Also if the volume lost its claimRef in the moment in which its claim was bound."""
    change, cluster = moment.change, moment.cluster
    if change.kind != "PersistentVolume" or not moment.commits_anew:
        return
    for key in sorted(cluster.naming[change.key]):
        claim = cluster.claims[key]
        if facts.bind_completed(claim) and moment.was_there(cluster.bound.get(uid(claim))):
            yield moment.violation("one volume, one claim", f"committed although claim {key} is bound to it")


def volumes_of_a_pod_are_in_one_topology(moment: Moment) -> Iterator[Violation]:
    """Checked when the controller commits a volume, and when it removes a gate with a claim that is not bound.

    A pod may be created with claims that are bound already, to volumes that no node has in common.
    """
    change, cluster = moment.change, moment.cluster
    if moment.write.party is not Party.CONTROLLER:
        return
    if change.kind == "PersistentVolume" and moment.commits_anew:
        named = reference(change.after)
        assert named is not None
        keys = {each.key for each in cluster.recent_consumers(named[0], change.at) if each.gone_at is None}
        pods = [cluster.pods[key] for key in sorted(keys)]
    elif change.kind == "Pod" and change.after is not None and GATE in facts.gates(change.before):
        claims = [cluster.claims.get(key) for key in facts.claim_keys(change.after)]
        pods = [] if all(map(facts.bind_completed, claims)) else [change.after]
    else:
        return
    for pod in pods:
        volumes = _settled_volumes(pod, moment)
        if not facts.in_one_topology(volumes, cluster.nodes_ever.values()):
            names = sorted(map(facts.name, volumes))
            yield moment.violation(
                "one topology", f"pod {key_of(pod)} has volumes {names}, which are accessible from no node"
            )


def a_gate_is_lifted_when_all_volumes_are_held(moment: Moment) -> Iterator[Violation]:
    """Or when there is nothing to hold: a mode that holds nothing, or one of a moment ago, explains it too."""
    change, cluster = moment.change, moment.cluster
    if change.kind != "Pod" or change.after is None or GATE not in set(facts.gates(change.before)):
        return
    if GATE in facts.gates(change.after) or moment.write.party is not Party.CONTROLLER:
        return
    for key in facts.claim_keys(change.after):
        claim = cluster.claims.get(key)
        if cluster.claims_gone_at.get(key, -inf) >= moment.write.received - GRACE:
            continue  # Recreated at once, or not.
        if claim is None:
            yield moment.violation("gated is guaranteed", f"gate removed although claim {key} does not exist")
            continue
        modes = cluster.recent_modes(facts.class_name(claim), change.at)
        if modes <= _HOLDING and not cluster.volumes_of(claim):
            ended = cluster.released_at.get((key, uid(claim)))
            if ended is None or ended < moment.write.received - GRACE:
                yield moment.violation("gated is guaranteed", f"gate removed although nothing is held for claim {key}")


def only_our_fields_are_written(moment: Moment) -> Iterator[Violation]:
    if moment.change.before is None or moment.change.after is None:
        return
    allowed = _FIELDS[moment.write.party].get(moment.change.kind)
    if allowed is None:
        return
    for path in facts.changed_fields(
        _without_bookkeeping(moment.change.before), _without_bookkeeping(moment.change.after)
    ):
        if not path.startswith(allowed):
            yield moment.violation("only our fields", f"{path} changed")


def of_a_pod_only_our_gate_is_lifted(moment: Moment) -> Iterator[Violation]:
    change = moment.change
    if change.kind != "Pod" or moment.write.party is not Party.CONTROLLER:
        return
    lost = set(facts.gates(change.before)) - set(facts.gates(change.after)) - {GATE}
    if lost and change.after is not None:
        yield moment.violation("only our gate", f"gates {sorted(lost)} removed")


RULES: Final[tuple[Callable[[Moment], Iterator[Violation]], ...]] = (
    one_claim_never_holds_two_volumes,
    one_claim_never_has_two_reservations,
    a_second_volume_never_becomes_bound,
    one_volume_never_has_two_claims,
    a_claim_ref_is_never_taken_over,
    a_volume_fits_its_claim,
    no_unhealthy_volume_is_taken,
    volume_name_is_written_whole_and_in_mode_complete,
    only_those_are_committed_who_may_be,
    a_claim_ref_of_others_is_never_cleared,
    what_a_claim_is_bound_to_is_never_given_to_another,
    volumes_of_a_pod_are_in_one_topology,
    a_gate_is_lifted_when_all_volumes_are_held,
    only_our_fields_are_written,
    of_a_pod_only_our_gate_is_lifted,
)

_ANNOTATIONS: Final = "metadata.annotations."
_SELECTED: Final = _ANNOTATIONS + facts.SELECTED
_PROVISIONER: Final = tuple(_ANNOTATIONS + name for name in facts.NAMED_BY)
_ON_VOLUME: Final = (
    _ANNOTATIONS + PREFIX,
    _ANNOTATIONS + BOUND_BY_CONTROLLER,
    "spec.claimRef",
    "status.phase",
    "status.lastPhaseTransitionTime",
)
_ON_CLAIM: Final = (
    _ANNOTATIONS + PREFIX,
    _ANNOTATIONS + BIND_COMPLETED,
    _ANNOTATIONS + BOUND_BY_CONTROLLER,
    "spec.volumeName",
    "status.phase",
    "status.accessModes",
    "status.capacity",
)
_FIELDS: Final[dict[Party, dict[str, tuple[str, ...]]]] = {
    Party.CONTROLLER: {
        "PersistentVolume": _ON_VOLUME,
        "PersistentVolumeClaim": (*_ON_CLAIM, _SELECTED, *_PROVISIONER),
        # Removing a gate also makes the API server change the pod's condition and its generation.
        "Pod": ("spec.schedulingGates", "status.", "metadata.generation"),
    },
    Party.SCHEDULER: {
        "PersistentVolume": _ON_VOLUME,
        "PersistentVolumeClaim": (_SELECTED,),
    },
    Party.OTHER: {},
}


def _serves(volume: Object, claim: Object) -> bool:
    """Whether it refers to the claim and can be bound to it: Kubernetes skips others, whatever they refer to."""
    fits = facts.class_name(volume) == facts.class_name(claim) and facts.capacity(volume) >= facts.requested(claim)
    return fits and refers_to(volume, claim)


def _settled_volumes(pod: Object, moment: Moment) -> list[Object]:
    """Return the volumes held for the pod's claims, without what others wrote so recently that it was not known.

    Once a volume is committed for one of them, hints for the others decide nothing: those are committed next.
    """
    cluster, volumes = moment.cluster, []
    for key in facts.claim_keys(pod):
        claim = cluster.claims.get(key)
        held = [each for each in cluster.volumes_of(claim) if facts.may_hold(each, claim)] if claim is not None else []
        if moment.change.kind == "PersistentVolume":
            held = [volume for volume in held if reference(volume) is not None]
        for volume in held:
            name = facts.name(volume)
            author = cluster.references.get(name) or cluster.reservations.get(name)
            if name == moment.change.key or moment.was_there(author):
                volumes.append(volume)
    return volumes


def _without_bookkeeping(subject: Object) -> Object:
    metadata = {key: value for key, value in subject["metadata"].items() if key != "managedFields"}
    return {**subject, "metadata": metadata}


def _shown(named: tuple[str, str] | None) -> str:
    return "nobody" if named is None else f"{named[0]} ({named[1] or 'no uid'})"
