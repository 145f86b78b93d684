"""The two formats of `match`'s result: JSON, one rejection at a time, and tables for people."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import BinaryIO, Final

import msgspec
from rich.console import Console
from rich.text import Text

from binder.matching.evidence import quantity_text
from binder.matching.match import Match
from binder.matching.matching import class_of
from binder.matching.rejection import Reason, Rejection
from kube.objects.model import Node, Volume
from why.rendering.lines import json_of
from why.rendering.tables import PlainTable, plain, print_unbroken

HEADER: Final = b'{"apiVersion":"pvc-prebinder/v1alpha1","kind":"MatchReport","claims":['

_NEAREST_FIRST: Final = (
    Reason.OTHER_VOLUME_PREBOUND,
    Reason.TIED_WITH_CHOSEN,
    Reason.LARGER_THAN_CHOSEN,
    Reason.MORE_ACCESS_MODES_THAN_CHOSEN,
    Reason.TAKEN_BY_OTHER_CLAIM_OF_POD,
    Reason.DELAYED_BINDING,
    Reason.NODE_AFFINITY_MISMATCH,
    Reason.SELECTOR_MISMATCH,
    Reason.SELECTOR_TOO_LARGE,
    Reason.NOT_AVAILABLE,
    Reason.VOLUME_DELETING,
    Reason.ATTRIBUTES_CLASS_MISMATCH,
    Reason.VOLUME_MODE_MISMATCH,
    Reason.TOO_SMALL,
    Reason.CLAIMED_BY_OTHER,
    Reason.ACCESS_MODES_MISMATCH,
    Reason.CLASS_MISMATCH,
)
"""Roughly the rules in reverse: a volume that failed a late rule came close."""

_IN_WORDS: Final[Mapping[Reason, str]] = {
    Reason.NO_VOLUME_FITS: "no volume fits",
    Reason.SELECTOR_MISMATCH: "its selector is invalid",
    Reason.SELECTOR_TOO_LARGE: "its selector is too large to be evaluated here",
    Reason.WAIT_FOR_FIRST_CONSUMER: "waits for a pod; see --node for what the scheduler would take",
    Reason.DYNAMIC_CLASS: "none fits; the provisioner of the class creates one",
    Reason.PROVISIONING_CHOSEN: "a new volume is already being provisioned for the selected node",
    Reason.CLASS_NOT_FOUND: "its StorageClass is not in the input, and no volume fits",
    Reason.BINDING_MODE_MISSING: "its StorageClass has no volumeBindingMode",
    Reason.REQUESTED_VOLUME_MISSING: "the volume it requests is not in the input",
    Reason.REQUESTED_VOLUME_MISMATCH: "the volume it requests cannot be bound to it",
    Reason.CLAIM_LOST: "lost: the volume it was bound to is gone or bound to another claim",
}


class _Row(msgspec.Struct):
    volume: str
    reason: str
    wanted: str
    offered: str


def write_claims(matches: Iterable[Match], volumes: Sequence[Volume], node: Node | None, out: BinaryIO) -> None:
    """Write the report's header and its claims, one rejection a line. At most one line is held in memory."""
    out.write(HEADER)
    for number, match in enumerate(matches):
        out.write(b",\n" if number else b"\n")
        out.write(_opening(match, node))
        for position, rejection in enumerate(match.rejections(volumes)):
            row = _Row(rejection.subject, rejection.reason, rejection.wanted, rejection.offered)
            out.write((b",\n  " if position else b"\n  ") + json_of(row))
        out.write(b"]}")
    out.write(b"\n]")


def _opening(match: Match, node: Node | None) -> bytes:
    head = {
        "claim": match.claim.key,
        "node": node.name if node else None,
        "bindingMode": match.binding_mode,
        "volume": match.volume.name if match.volume else None,
        "reason": match.reason,
    }
    return json_of(head)[:-1] + b',"rejections":['


@dataclass(slots=True)
class ReasonTally:
    """The rejections for one claim and reason: how many, and the volume nearest in size."""

    reason: Reason
    volumes: list[Volume] = field(default_factory=list)

    def nearest(self, request: int, count: int) -> list[Volume]:
        return nsmallest(count, self.volumes, key=lambda volume: (abs(volume.capacity - request), volume.name))


def tallies(match: Match, volumes: Iterable[Volume]) -> list[ReasonTally]:
    """Return the rejections of a claim grouped by reason, the most informative first."""
    by_reason: dict[Reason, ReasonTally] = {}
    for volume, reason in match.rejected_volumes(volumes):
        by_reason.setdefault(reason, ReasonTally(reason)).volumes.append(volume)
    order = {reason: place for place, reason in enumerate(_NEAREST_FIRST)}
    return sorted(by_reason.values(), key=lambda tally: order.get(tally.reason, -1))


def print_table(matches: Sequence[Match], volumes: Sequence[Volume], console: Console) -> None:
    """Print what each claim gets, and then for each claim why it does not get the others."""
    if not matches:
        console.print("The input has no PersistentVolumeClaim. Add the output of: kubectl get pvc -A -o json")
        return
    print_unbroken(_answers(matches, volumes), console)
    for match in matches:
        rejected = tallies(match, volumes)
        if rejected:
            console.print()
            console.print(_heading(match, sum(len(tally.volumes) for tally in rejected)))
            print_unbroken(_rejections(match, rejected), console)


def answer_text(match: Match, volumes: Iterable[Volume]) -> str:
    """Return in words what the claim gets, and which rule decided between these volumes."""
    if match.reason is not None:
        return _IN_WORDS[match.reason]
    if match.claim.bind_completed:
        return "bound"
    if match.claim.volume_name:
        return "requested by name"
    if match.volume is not None and match.volume.claim is not None:
        return "reserved for it by its claimRef"
    if match.volume is not None and _modes_decided(match, match.volume, volumes):
        return "the smallest that fits, of those with the fewest access modes"
    return "the smallest that fits"


def _modes_decided(match: Match, chosen: Volume, volumes: Iterable[Volume]) -> bool:
    """Whether a volume of that size or smaller fits too, and was not chosen because it offers more access modes."""
    rivals = (volume for volume in volumes if volume.capacity <= chosen.capacity and volume.name != chosen.name)
    return any(match.why_not(volume) is Reason.MORE_ACCESS_MODES_THAN_CHOSEN for volume in rivals)


def _answers(matches: Sequence[Match], volumes: Sequence[Volume]) -> PlainTable:
    table = PlainTable("CLAIM", "CLASS", "REQUEST", "BINDING", "VOLUME", "SIZE", "WHY")
    for match in matches:
        volume = match.volume
        table.add_texts(
            Text(match.claim.key),
            Text(class_of(match.claim) or "-"),
            quantity_text(match.claim.request),
            match.binding_mode or ("no such class" if match.reason is Reason.CLASS_NOT_FOUND else "-"),
            Text(volume.name if volume else "-", style="green" if volume else "yellow"),
            quantity_text(volume.capacity) if volume else "-",
            answer_text(match, volumes),
        )
    return table


def _heading(match: Match, count: int) -> Text:
    where = f" on node {match.node.name}" if match.node else ""
    others = "other volume" if match.volume else "volume"
    return plain(f"{match.claim.key}{where}: why not the {count} {others}{'' if count == 1 else 's'}", style="bold")


def _rejections(match: Match, rejected: Iterable[ReasonTally]) -> PlainTable:
    table = PlainTable("REASON", "VOLUMES", "NEAREST", "WANTED", "FOUND")
    table.columns[1].justify = "right"
    for rejection, count in _nearest(match, rejected):
        table.add_texts(
            rejection.reason, str(count), Text(rejection.subject), Text(rejection.wanted), Text(rejection.offered)
        )
    return table


def _nearest(match: Match, rejected: Iterable[ReasonTally]) -> Iterator[tuple[Rejection, int]]:
    for tally in rejected:
        nearest = tally.nearest(match.claim.request, 1)
        yield next(match.rejections(nearest)), len(tally.volumes)
