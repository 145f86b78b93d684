"""Volumes that are held for replicas to come of a StatefulSet, and volumes that are kept from a replacement."""

from collections.abc import Callable, Iterator
from typing import Final

from soak.judge import facts
from soak.judge.cluster import Cluster
from soak.judge.facts import MAX_HELD, PREFIX, WAS_FOR, reference
from soak.judge.history import Object
from soak.judge.rules import GRACE, Moment, Violation
from soak.judge.writes import Party

HOLDS: Final = "holds are for claims to come"
CAP: Final = "no more is held than allowed"
KEPT: Final = "no kept volume is handed out"
_NOT_YET_BOUND: Final = frozenset({"", "Pending", "Available"})


def a_hold_is_for_a_claim_to_come(moment: Moment) -> Iterator[Violation]:
    """By the name alone, while no claim has it, and no other volume names it."""
    held, cluster = _newly_held(moment), moment.cluster
    if not held:
        return
    if reference(moment.change.after) != (held, ""):
        yield moment.violation(HOLDS, f"held for {held}, and its claimRef is {reference(moment.change.after)}")
    claim = cluster.claims.get(held)
    since = cluster.claims_since.get(held)
    if claim is not None and since is not None and since < moment.write.received - GRACE:
        yield moment.violation(HOLDS, f"held for {held}, which exists")
    for other in sorted(cluster.referring[held] - {moment.change.key}):
        author = cluster.references.get(other)
        if author is not None and moment.was_there(author):
            text = f"held for {held}, to which {other} refers since {author.revision}"
            yield moment.violation(HOLDS, text, author.revision)


def no_more_is_held_than_allowed(moment: Moment) -> Iterator[Violation]:
    """Also after restarts and changes of leaders. What others have just marked as held, or freed, was not known."""
    held, cluster = _newly_held(moment), moment.cluster
    if not held:
        return
    namespace = held.partition("/")[0]
    known = [
        name
        for name, volume in cluster.volumes.items()
        if facts.held_for(volume).startswith(f"{namespace}/") and facts.phase(volume) == "Available"
        if name == moment.change.key
        or (moment.was_there(cluster.holds.get(name)) and moment.was_there(cluster.phases.get(name)))
    ]
    if len(known) > MAX_HELD:
        yield moment.violation(CAP, f"held beside {len(known) - 1} others of namespace {namespace}: {sorted(known)}")


def no_kept_volume_is_handed_out(moment: Moment) -> Iterator[Violation]:
    """The version that the write was conditional on is one that was replaced, and keeps a claim's data."""
    change = moment.change
    if change.kind != "PersistentVolume" or facts.annotation(change.before, WAS_FOR) is None:
        return
    reserved = facts.reserved_for(change.after)
    if moment.commits_anew or (reserved is not None and reserved != facts.reserved_for(change.before)):
        text = f"reserved or committed although it keeps the data of {facts.annotation(change.before, WAS_FOR)}"
        yield moment.violation(KEPT, text)


HOLD_RULES: Final[tuple[Callable[[Moment], Iterator[Violation]], ...]] = (
    a_hold_is_for_a_claim_to_come,
    no_more_is_held_than_allowed,
    no_kept_volume_is_handed_out,
)


def unwanted_hold(volume: Object, cluster: Cluster) -> str:
    """Return why a hold should have ended, in the final state; empty if it is wanted, or there is none.

    A hold outlives its set by ten minutes.
    """
    held, sets = facts.held_for(volume), cluster.objects["StatefulSet"]
    if not held or not sets:
        return ""
    if facts.phase(volume) not in _NOT_YET_BOUND:
        return "although it is not free any more"
    wanted = {
        f"{owner['metadata']['namespace']}/{template['metadata']['name']}-{facts.name(owner)}-{ordinal}"
        for owner in sets.values()
        for ordinal in range(int(facts.annotation(owner, PREFIX + "hold-replicas") or "0"))
        for template in owner["spec"]["volumeClaimTemplates"]
    }
    return "" if held in wanted else "which no StatefulSet wants"


def _newly_held(moment: Moment) -> str:
    """Return for which claim the controller begins to hold the volume; empty if it does not."""
    change = moment.change
    held = facts.held_for(change.after) if change.kind == "PersistentVolume" else ""
    is_new = held != facts.held_for(change.before) and moment.write.party is Party.CONTROLLER
    return held if is_new else ""
