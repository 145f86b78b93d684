"""What is said and counted about volumes that are held for replicas to come: one Event on the set for each news."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from binder.holds.ending import HoldCause, HoldEnding
from binder.reporting.hold_words import HELD, NOT_HELD, ordinals_text
from binder.reporting.rejection_note import NOTE_BYTES, shortened
from kube.client.event_recorder import EventDraft, EventSink, ObjectRef
from kube.objects.stateful_set import StatefulSet

if TYPE_CHECKING:
    from binder.holds.hold_pass import HoldPlan, UnheldReplica

REPEATED: Final = timedelta(minutes=30)
"""After that time a replica that still gets none is reported again: the API server forgets Events after an hour."""


class HoldMetrics:
    """Gauges are those of the last pass of the leader; without one they are 0."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._held = Gauge(
            "pvc_prebinder_held_replicas",
            "Replicas to come of StatefulSets for which all volumes are held.",
            registry=registry,
        )
        self._unheld = Gauge(
            "pvc_prebinder_unheld_stateful_sets",
            "StatefulSets that want volumes held for a replica, which gets none.",
            registry=registry,
        )
        self._ended = Counter(
            "pvc_prebinder_holds_ended_total", "Volumes whose hold ended, by cause.", ["cause"], registry=registry
        )
        for cause in HoldCause:
            self._ended.labels(cause)

    def passed(self, held: int, unheld: int) -> None:
        """A pass left so many replicas with their volumes, and so many sets with one that gets none."""
        self._held.set(held)
        self._unheld.set(unheld)

    def ended(self, cause: HoldCause) -> None:
        self._ended.labels(cause).inc()


class HoldAnnouncer:
    """Publishes an Event when what is held for a set changes, or why a replica gets none; the latter again while it
    lasts.
    """

    def __init__(self, sink: EventSink) -> None:
        self._sink = sink
        self._published: dict[str, tuple[str, datetime]] = {}

    def passed(
        self, plan: "HoldPlan", held: Mapping[str, Iterable[int]], owners: Mapping[str, StatefulSet], now: datetime
    ) -> None:
        """Report on every set: `held` are by its key the ordinals that have all volumes after the pass."""
        unheld = {each.owner.key: each for each in plan.unheld}
        reported = {key for key, owner in owners.items() if owner.uid in self._published}
        for key in sorted({*held, *unheld, *reported}):
            owner = owners.get(key)
            if owner is not None:
                self._report(owner, sorted(held.get(key, ())), unheld.get(key), plan.endings, now)
        known = {each.uid for each in owners.values()}
        self._published = {uid: published for uid, published in self._published.items() if uid in known}

    def _report(
        self,
        owner: StatefulSet,
        held: list[int],
        unheld: "UnheldReplica | None",
        endings: Iterable[HoldEnding],
        now: datetime,
    ) -> None:
        note = f"Volumes are held for {ordinals_text(held)}" if held else "No volumes are held"
        if unheld is not None:
            which = "any replica" if unheld.ordinal is None else f"replica {unheld.ordinal}"
            note = f"{note}; none for {which}: {unheld.why}"
        elif not held:
            note = f"{note}: no replica to come needs any"
        lost = [
            f"{each.volume.name} ({each.cause}{f': {each.why}' if each.why else ''})"
            for each in endings
            if each.cause in {HoldCause.UNHEALTHY, HoldCause.NO_NODE} and f"-{owner.name}-" in each.claim
        ]
        if lost:
            note = f"{note}; given up: {', '.join(lost)}"
        before, since = self._published.get(owner.uid, ("", now))
        if before == note and (unheld is None or now - since < REPEATED):
            return
        self._published[owner.uid] = (note, now)
        kind, reason = ("Normal", HELD) if unheld is None else ("Warning", NOT_HELD)
        regarding = ObjectRef("apps/v1", "StatefulSet", owner.name, owner.namespace, owner.uid)
        self._sink.publish(EventDraft(regarding, None, kind, reason, "Hold", shortened(note, NOTE_BYTES)))
