"""Counts what our processes did: a soak in which nothing was bound would prove nothing."""

from collections.abc import Iterator

from soak.judge import facts
from soak.judge.facts import GATE, reference
from soak.judge.history import Change, Object


def deeds(change: Change) -> Iterator[str]:
    """Name the effect of a change by our controller."""
    before, after = change.before, change.after
    if after is None:
        return
    if change.kind == "PersistentVolume":
        yield from _on_volume(before, after)
    elif change.kind == "PersistentVolumeClaim" and facts.volume_name(after) != facts.volume_name(before):
        yield "binds completed"
    elif change.kind == "Pod" and GATE in facts.gates(before) and GATE not in facts.gates(after):
        yield "gates removed"


def _on_volume(before: Object | None, after: Object) -> Iterator[str]:
    named, held = reference(after), facts.held_for(after)
    if held != facts.held_for(before):
        yield "holds" if held else "holds ended"
    elif reference(before) != named:
        if named is None:
            yield "claimRefs cleared"
        elif facts.is_placeholder(after):
            yield "volumes quarantined"
        elif reference(before) is None:
            yield "claimRefs written"
    if facts.reserved_for(after) != facts.reserved_for(before):
        yield "reservations" if facts.reserved_for(after) else "reservations ended"
