"""Volumes that are held for the replicas to come of a StatefulSet, and the replica that gets none (docs/holds.md)."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from binder.matching.rejection import Reason
from binder.reporting.hold_words import HELD, NOT_HELD, ordinals_text
from binder.reservation.pins import pins_of
from kube.objects.model import Volume
from kube.plain_text import shell
from kube.rules.topology import volume_zone
from why.causes.finding import Finding, Step
from why.causes.objects import STATEFUL_SET, volume_object
from why.causes.reported import quoted
from why.facts.details import EventRecord
from why.facts.facts import Facts, Source
from why.report.report import Evidence, Link

_UNHELD: Final = re.compile(r"; none for (any replica|replica \d+): ")
"""In the Event VolumesNotHeld (binder.reporting.hold_reports.HoldAnnouncer)."""

_Held = Mapping[int, Sequence[Volume]]


def held_for_set(facts: Facts, namespace: str, name: str) -> Finding | None:
    """Volumes are held for the set's replicas to come, or one of these gets none, as the controller's last Event says.

    The volumes' annotations tell what is held; None if neither they nor the Events are about the set.
    """
    report = next((each for each in facts.events_of(STATEFUL_SET, f"{namespace}/{name}") if _is_of_holds(each)), None)
    is_known = facts.has(Source.VOLUMES)
    held = _held(facts, namespace, name) if is_known else {}
    links, evidence = (Link(STATEFUL_SET, f"{namespace}/{name}", ""),), tuple(_evidence(held))
    none = "No volumes are held" if is_known else "No volumes are known to be held"
    have = f"Volumes are held for {ordinals_text(sorted(held))}" if held else none
    if report is None or report.reason == HELD:
        # What the Event says was held may be fulfilled, or given up since.
        return Finding(Reason.VOLUMES_HELD, f"{have}.", links, evidence, problem=False) if held else None
    unheld = _UNHELD.search(report.note)
    message = f"{have}; none for {unheld[1] if unheld else 'a replica to come'}."
    return Finding(
        Reason.VOLUMES_NOT_HELD, message, links, (quoted(facts, report), *evidence), (_fill(namespace, name),)
    )


def _is_of_holds(event: EventRecord) -> bool:
    return event.reason in {HELD, NOT_HELD}


def _held(facts: Facts, namespace: str, name: str) -> _Held:
    """Return the volumes that are held for claims which the set will create, by ordinal."""
    held: defaultdict[int, list[Volume]] = defaultdict(list)
    form, stems = re.compile(rf"(?P<stem>.+-{re.escape(name)})-(?P<ordinal>\d+)"), _stems_of_sets(facts, namespace)
    uids = {event.uid for event in facts.events_of(STATEFUL_SET, f"{namespace}/{name}") if event.uid}
    for _, volume in sorted(facts.snapshot.volumes.items()):
        pins = pins_of(volume, facts.annotations) if volume.annotations else None
        if pins is None or pins.hold is None or volume.phase == "Bound":
            continue
        claimed_in, _, claim = pins.hold.claim.partition("/")
        match = form.fullmatch(claim)
        if match is None or claimed_in != namespace:
            continue
        # `data-my-db-3` is of set my-db, or of db with a template data-my: its pods tell, else the uid in an Event.
        owner = stems.get(match["stem"])
        if owner == name or (owner is None and (not uids or pins.hold.set_uid in uids)):
            held[int(match["ordinal"])].append(volume)
    return held


def _stems_of_sets(facts: Facts, namespace: str) -> Mapping[str, str]:
    """Return what the names of claims begin with that pods of a StatefulSet use, and the name of the set."""
    stems: dict[str, str] = {}
    for key, pod in facts.snapshot.pods.items():
        details = facts.pods.get(key) if pod.namespace == namespace else None
        kind, owner = details.owner if details is not None and details.owner is not None else ("", "")
        ordinal = pod.name.removeprefix(f"{owner}-")
        for claim in pod.claim_keys if kind == STATEFUL_SET else ():
            stem = claim.partition("/")[2].removesuffix(f"-{ordinal}")
            if stem.endswith(f"-{owner}"):
                stems[stem] = owner
    return stems


def _evidence(held: _Held) -> Iterator[Evidence]:
    for ordinal in sorted(held):
        for volume in held[ordinal]:
            claim = "" if volume.claim is None else volume.claim.name
            zone = volume_zone(volume)
            yield Evidence(volume_object(volume), "", f"held for claim {claim}{f', zone {zone}' if zone else ''}")


def _fill(namespace: str, name: str) -> Step:
    command = shell("pvc-prebinder simulate -n {} --fill {}", namespace, f"statefulset/{name}")
    note = (
        "says how many more replicas fit if limits and modes do not count: if it fits, raise the limit or set the mode "
        "that the Event names, else add volumes or nodes, or lower hold-replicas"
    )
    return Step(command, note)
