"""Which volume Kubernetes itself would pick for each claim of a dump, and on which nodes pods find their volumes."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import BinaryIO, Final

from binder.matching.controller_match import match_as_controller
from binder.matching.match import Match
from binder.matching.rejection import Reason
from binder.matching.scheduler_match import match_pod_as_scheduler
from kube.objects.model import Claim, Node, Pod, StorageClass, Volume
from kube.store.snapshot import Snapshot
from why.errors import WhyError
from why.match.claim_report import print_table, write_claims
from why.match.pod_report import print_pods, write_pods
from why.match.pods import PodAnswer, pod_answers, waiting
from why.reading.dump import Dump, read_dump
from why.rendering.lines import write_line
from why.rendering.tables import console_for

_AS_IT_SHOULD: Final = frozenset(
    {None, Reason.WAIT_FOR_FIRST_CONSUMER, Reason.DYNAMIC_CLASS, Reason.PROVISIONING_CHOSEN}
)
_MAX_NODES_NAMED: Final = 10
_ALWAYS_COUNTED: Final = ("PersistentVolume", "PersistentVolumeClaim", "Pod", "Node", "StorageClass")

Chosen = Callable[[Claim | Pod], bool]
"""Whether a claim or pod of the input is to be reported."""


def report_matches(
    filenames: Sequence[str],
    node: str | None,
    chosen: Chosen,
    *,
    document_to: BinaryIO | None,
    complain: Callable[[str], None],
) -> bool:
    """Print the report on these files, and return whether every claim has a volume or waits normally. With
    `document_to` it is written there as JSON.

    `node` is the name of a node for which kube-scheduler's choice is reported, None for that of the PV controller.
    Raises WhyError for files that cannot be read, and for a node that they do not have.
    """
    dump = read_dump(filenames, sys.stdin.buffer, datetime.now(UTC))
    known = None if node is None else _node(node, dump.of(Node))
    for line in (*dump.faults, *dump.duplicates):
        complain(line)
    report = _Report(dump, known, chosen)
    if document_to is not None:
        report.write(document_to)
    else:
        report.print()
        write_line("")
        write_line(_summary(dump))
    return report.well and not dump.faults


class _Report:
    """Computes the results one after another, so that none has to be kept, and records whether every claim gets a
    volume.
    """

    def __init__(self, dump: Dump, node: Node | None, chosen: Chosen) -> None:
        self.well = True
        self._dump = dump
        self._node = node
        self._chosen = chosen
        self._volumes = list(dump.of(Volume).values())
        self._pods = [pod for pod in dump.of(Pod).values() if chosen(pod)]

    def write(self, out: BinaryIO) -> None:
        write_claims(self._matches(), self._volumes, self._node, out)
        if self._pods:
            out.write(b',"pods":')
            write_pods(self._pod_answers(), out)
        out.write(b"}\n")

    def print(self) -> None:
        console = console_for()
        print_table(list(self._matches()), self._volumes, console)
        if waiting(self._pods):
            print_pods(list(self._pod_answers()), console)

    def _matches(self) -> Iterator[Match]:
        for match in matches(self._dump, self._node):
            if self._chosen(match.claim):
                self.well = self.well and match.reason in _AS_IT_SHOULD
                yield match

    def _pod_answers(self) -> Iterator[PodAnswer]:
        nodes = [self._node] if self._node else list(self._dump.of(Node).values())
        for answer in pod_answers(waiting(self._pods), nodes, self._dump.facts.snapshot):
            stuck = bool(answer.nodes) and not any(node.fits for node in answer.nodes)
            # An unbound Immediate claim is evaluated as a claim: it may be about to be bound.
            rejected = answer.rejection is not None and answer.rejection.reason is not Reason.IMMEDIATE_CLAIM
            self.well = self.well and not (rejected or (stuck and self._node is None))
            yield answer


def matches(dump: Dump, node: Node | None) -> Iterator[Match]:
    """Yield the result for each claim, in the order of the input."""
    claims, volumes, classes = dump.of(Claim), dump.of(Volume), dump.of(StorageClass)
    if node is None:
        for claim in claims.values():
            yield match_as_controller(claim, classes, volumes)
        return
    answered: dict[str, Match] = {}
    for key in claims:
        if key not in answered:
            together = [claims[each] for each in _together(key, dump.facts.snapshot) if each not in answered]
            pod_matches = match_pod_as_scheduler(together, node, classes, volumes)
            answered |= {match.claim.key: match for match in pod_matches}
        yield answered[key]


def _together(claim: str, snapshot: Snapshot) -> Sequence[str]:
    """Return the claims that are matched together with this one: those of a pod that uses it, the first by name."""
    pod = min(snapshot.pods_by_claim.get(claim, ()), default=None)
    keys = (claim,) if pod is None else snapshot.pods[pod].claim_keys
    return [key for key in keys if key in snapshot.claims]


def _node(name: str, nodes: Mapping[str, Node]) -> Node:
    if name in nodes:
        return nodes[name]
    if not nodes:
        raise WhyError(f"--node {name}: the input has no Node. Add the output of: kubectl get node -o json")
    named = ", ".join(sorted(nodes)[:_MAX_NODES_NAMED])
    more = len(nodes) - _MAX_NODES_NAMED
    raise WhyError(f"--node {name}: no such Node in the input; it has {named}{f' and {more} more' if more > 0 else ''}")


def _summary(dump: Dump) -> str:
    """Return in one line what was read and what was not."""
    counts = {kind: len(dump.records.get(kind, ())) for kind in _ALWAYS_COUNTED}
    counts |= {kind: len(records) for kind, records in dump.records.items() if records}
    read = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    ignored = ", ".join(f"{count} {kind}" for kind, count in sorted(dump.ignored.items()))
    return f"Read {read}." + (f" Ignored: {ignored}." if ignored else "")
