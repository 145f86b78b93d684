"""The two formats of what `match` reports about pods: JSON, one node a line, and tables for people."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

import msgspec
from rich.console import Console
from rich.text import Text

from binder.matching.rejection import Reason, Rejection
from scheduler.volumes.node_answer import NodeAnswer
from why.match.pods import PodAnswer
from why.rendering.lines import json_of
from why.rendering.tables import PlainTable, plain, print_unbroken

_MAX_VOLUMES_NAMED = 3


class _Rejection(msgspec.Struct):
    reason: str
    wanted: str
    offered: str


class _Node(msgspec.Struct):
    node: str
    fits: bool
    volumes: dict[str, str]
    provision: list[str]
    rejections: list[_Rejection]


def write_pods(answers: Iterable[PodAnswer], out: BinaryIO) -> None:
    """Write the pods as a JSON list, one node a line. At most one pod is held in memory."""
    out.write(b"[")
    for number, answer in enumerate(answers):
        out.write(b",\n" if number else b"\n")
        reason = answer.rejection.reason if answer.rejection is not None else None
        head = json_of({"pod": answer.pod.key, "rejected": reason})
        out.write(head[:-1] + b',"nodes":[')
        for position, node in enumerate(answer.nodes):
            out.write((b",\n  " if position else b"\n  ") + json_of(_row(node)))
        out.write(b"]}")
    out.write(b"\n]")


def _row(answer: NodeAnswer) -> _Node:
    volumes = {claim.name: volume.name for claim, volume in answer.volumes}
    rejections = [_Rejection(rejection.reason, rejection.wanted, rejection.offered) for rejection in answer.rejections]
    return _Node(answer.node, answer.fits, volumes, [claim.name for claim in answer.provision], rejections)


def print_pods(answers: Sequence[PodAnswer], console: Console) -> None:
    """Print on how many nodes each pod's volumes let it run, and then for each pod why not on the others."""
    console.print()
    overview = PlainTable("POD", "NODES", "FOR EXAMPLE", "VOLUMES")
    for answer in answers:
        fitting = [node for node in answer.nodes if node.fits]
        count = "not evaluated" if answer.rejection is not None else f"{len(fitting)} of {len(answer.nodes)}"
        overview.add_texts(Text(answer.pod.key), count, *_example(answer, fitting))
    print_unbroken(overview, console)
    for answer in answers:
        rejected = list(_tallies(answer))
        if rejected:
            console.print()
            console.print(plain(f"{answer.pod.key}: why nodes are rejected", style="bold"))
            print_unbroken(_rejections(rejected), console)


def _example(answer: PodAnswer, fitting: Sequence[NodeAnswer]) -> tuple[Text, Text]:
    if answer.rejection is not None:
        return Text("-", style="yellow"), Text(str(answer.rejection))
    if not fitting:
        return Text("-", style="yellow"), Text("-")
    return Text(fitting[0].node, style="green"), Text(_volumes(fitting[0]))


def _volumes(answer: NodeAnswer) -> str:
    taken = [f"{claim.name}: {volume.name}" for claim, volume in answer.volumes]
    made = [f"{claim.name}: a new volume" for claim in answer.provision]
    names = [*taken, *made]
    more = len(names) - _MAX_VOLUMES_NAMED
    return ", ".join(names[:_MAX_VOLUMES_NAMED]) + (f" and {more} more" if more > 0 else "") or "as bound"


def _tallies(answer: PodAnswer) -> Iterator[tuple[Rejection, int]]:
    """Yield the first rejection for each reason and how many nodes have it, the most common reason first."""
    counts: Counter[Reason] = Counter()
    first: dict[Reason, Rejection] = {}
    for rejection in (rejection for node in answer.nodes for rejection in node.rejections):
        counts[rejection.reason] += 1
        first.setdefault(rejection.reason, rejection)
    for reason, count in counts.most_common():
        yield first[reason], count


def _rejections(rejected: Iterable[tuple[Rejection, int]]) -> PlainTable:
    table = PlainTable("REASON", "NODES", "FIRST", "WANTED", "FOUND")
    table.columns[1].justify = "right"
    for rejection, count in rejected:
        row = Text(rejection.subject), Text(rejection.wanted), Text(rejection.offered)
        table.add_texts(rejection.reason, str(count), *row)
    return table
