"""Counts what our processes did: a soak in which nothing was bound, or held, would prove nothing of it."""

from collections.abc import Iterator
from typing import Final

from soak.judge import facts
from soak.judge.cluster import Cluster
from soak.judge.facts import GATE, SELECTED, reference
from soak.judge.history import Change, Object
from soak.judge.writes import Party

MADE: Final = "volumes made where we selected"
REPLACED: Final = "volumes replaced"
HOLDS_USED: Final = "holds used by a claim"
DEEDS: Final = (
    *("binds completed", "claimRefs cleared", "claimRefs written", "gates removed"),
    *("reservations", "reservations ended"),
)
"""What takes effect in every soak worth its time. Quarantine depends on the seed."""
DEEDS_OF_SETS: Final = ("holds ended", HOLDS_USED, "holds written", REPLACED)
"""What does in every one with a StatefulSet."""
DEEDS_IN_POOLS: Final = ("nodes selected", MADE)
"""What does in every one with pools."""


def deeds(change: Change) -> Iterator[str]:
    """Name the effect of a change by our controller."""
    before, after = change.before, change.after
    if after is None:
        return
    if change.kind == "PersistentVolume":
        yield from _on_volume(before, after)
    elif change.kind == "PersistentVolumeClaim":
        yield from _on_claim(before, after)
    elif change.kind == "Pod" and GATE in facts.gates(before) and GATE not in facts.gates(after):
        yield "gates removed"


def used(change: Change, cluster: Cluster) -> Iterator[str]:
    """Name what Kubernetes made of a volume that was kept for a claim to come: the claim of that name gets it.

    The cluster's authors are those of the version before.
    """
    if change.kind == "PersistentVolumeClaim" and facts.volume_name(change.after) and change.before is not None:
        selected = cluster.selected.get(change.key)
        made = not facts.volume_name(change.before) and selected is not None and selected.party is Party.CONTROLLER
        yield from (MADE,) if made else ()
    before, after = reference(change.before), reference(change.after)
    if change.kind != "PersistentVolume" or before is None or before[1] or after is None or not after[1]:
        return
    held, committed = cluster.holds.get(change.key), cluster.references.get(change.key)
    if facts.held_for(change.before) == before[0] and held is not None and held.party is Party.CONTROLLER:
        yield HOLDS_USED
    elif committed is not None and committed.party is Party.REPLACE:
        yield REPLACED


def _on_claim(before: Object | None, after: Object) -> Iterator[str]:
    if facts.volume_name(after) != facts.volume_name(before):
        yield "binds completed"
    selected = facts.annotation(after, SELECTED)
    if selected != facts.annotation(before, SELECTED):
        yield "nodes selected" if selected else "selections taken back"


def _on_volume(before: Object | None, after: Object) -> Iterator[str]:
    named, held = reference(after), facts.held_for(after)
    if held != facts.held_for(before):
        yield "holds written" if held else "holds ended"
    elif reference(before) != named:
        if named is None:
            yield "claimRefs cleared"
        elif facts.is_placeholder(after):
            yield "volumes quarantined"
        elif reference(before) is None:
            yield "claimRefs written"
    if facts.reserved_for(after) != facts.reserved_for(before):
        yield "reservations" if facts.reserved_for(after) else "reservations ended"
