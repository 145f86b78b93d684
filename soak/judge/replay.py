"""Applies every rule to every change of a history."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from soak.judge.cluster import Cluster
from soak.judge.deeds import deeds, used
from soak.judge.history import Change
from soak.judge.placement.commitments import committed_where_there_is_room, note_departure
from soak.judge.requests import LEASES, identities, judge_fencing, judge_request
from soak.judge.rules import RULES, Moment, Violation
from soak.judge.to_come.holds import HOLD_RULES
from soak.judge.to_come.provisioning import PROVISIONING_RULES
from soak.judge.to_come.replacements import REPLACEMENT_RULES
from soak.judge.writes import Authors, Party, Write


@dataclass(slots=True)
class Judged:
    """The result of a replay: the violations, the final state of the cluster, and how much was checked."""

    cluster: Cluster
    violations: list[Violation] = field(default_factory=list)
    states: int = 0
    own_writes: int = 0
    deeds: Counter[str] = field(default_factory=Counter)
    """What the controller did, and what came of it."""
    terms: int = 0
    """How often its Lease changed hands."""


def replay(changes: Iterable[Change], authors: Authors) -> Judged:
    """Check a whole history."""
    judged, known = Judged(Cluster()), identities(authors.writes)
    for request in authors.writes:
        judged.violations += judge_request(request)
    for change in changes:
        judged.states += 1
        judged.terms += _begins_a_term(change)
        note_departure(change, judged.cluster)
        judged.cluster.apply(change)
        judged.deeds.update(used(change, judged.cluster))
        write = _author(change, authors)
        if write is not None and write.party is Party.REPLACE:
            moment = Moment(change, write, judged.cluster)
            for rule in REPLACEMENT_RULES:
                judged.violations += rule(moment)
        elif write is not None and write.party is not Party.OTHER:
            judged.own_writes += 1
            judged.violations += judge_fencing(change, write, judged.cluster.holders, known)
            if write.party is Party.CONTROLLER:
                judged.deeds.update(deeds(change))
            moment = Moment(change, write, judged.cluster)
            for rule in (*RULES, *HOLD_RULES, *PROVISIONING_RULES, committed_where_there_is_room):
                judged.violations += rule(moment)
        judged.cluster.attribute(change, write)
    return judged


def _begins_a_term(change: Change) -> bool:
    if change.key != LEASES[Party.CONTROLLER] or change.after is None:
        return False
    holder = change.after["spec"].get("holderIdentity")
    return bool(holder) and holder != (change.before or {}).get("spec", {}).get("holderIdentity")


def _author(change: Change, authors: Authors) -> Write | None:
    if change.after is None:
        return None
    known = authors.of(change.kind, change.key, change.revision)
    if known is not None or change.kind != "Pod":
        return known
    node = change.after["spec"].get("nodeName")
    assigned = node and not (change.before or {}).get("spec", {}).get("nodeName")
    return authors.of_binding(change.key, str(node), change.at) if assigned else None
