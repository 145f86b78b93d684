"""Which volume Kubernetes itself would pick for each claim of a dump, and on which nodes pods find their volumes."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Final

from binder.matching.controller_match import match_as_controller
from binder.matching.match import Match
from binder.matching.rejection import Reason
from binder.matching.scheduler_match import match_pod_as_scheduler
from kube.objects.model import Claim, Node, Pod
from why.errors import WhyError
from why.match.claim_report import print_table, write_claims
from why.match.pod_report import print_pods, write_pods
from why.match.pods import PodAnswer, pod_answers, waiting
from why.reading.dump import Objects, read_objects
from why.rendering.lines import write_line
from why.rendering.tables import console_for

_AS_IT_SHOULD: Final = frozenset(
    {None, Reason.WAIT_FOR_FIRST_CONSUMER, Reason.DYNAMIC_CLASS, Reason.PROVISIONING_CHOSEN}
)
_MAX_NODES_NAMED: Final = 10

Chosen = Callable[[Claim | Pod], bool]
"""Whether a claim or pod of the input is to be reported."""


def report_matches(
    filenames: Sequence[str], node: str | None, chosen: Chosen, *, as_json: bool, complain: Callable[[str], None]
) -> bool:
    """Print the report on these files, and return whether every claim has a volume or waits normally.

    `node` is the name of a node for which kube-scheduler's choice is reported, None for that of the PV controller.
    Raises WhyError for files that cannot be read, and for a node that they do not have.
    """
    objects = read_objects(filenames, sys.stdin.buffer)
    known = None if node is None else _node(node, objects)
    for line in objects.faults + objects.duplicates:
        complain(line)
    report = _Report(objects, known, chosen)
    if as_json:
        report.write(sys.stdout.buffer)
    else:
        report.print()
    return report.well


class _Report:
    """Computes the results one after another, so that none has to be kept, and records whether every claim gets a
    volume.
    """

    def __init__(self, objects: Objects, node: Node | None, chosen: Chosen) -> None:
        self.well = not objects.faults
        self._objects = objects
        self._node = node
        self._chosen = chosen
        self._volumes = list(objects.volumes.values())
        self._pods = [pod for pod in objects.pods.values() if chosen(pod)]

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
        write_line("")
        write_line(self._objects.summary())

    def _matches(self) -> Iterator[Match]:
        for match in matches(self._objects, self._node):
            if self._chosen(match.claim):
                self.well = self.well and match.reason in _AS_IT_SHOULD
                yield match

    def _pod_answers(self) -> Iterator[PodAnswer]:
        nodes = [self._node] if self._node else list(self._objects.nodes.values())
        for answer in pod_answers(waiting(self._pods), nodes, self._objects.snapshot()):
            stuck = bool(answer.nodes) and not any(node.fits for node in answer.nodes)
            # An unbound Immediate claim is evaluated as a claim: it may be about to be bound.
            rejected = answer.rejection is not None and answer.rejection.reason is not Reason.IMMEDIATE_CLAIM
            self.well = self.well and not (rejected or (stuck and self._node is None))
            yield answer


def matches(objects: Objects, node: Node | None) -> Iterator[Match]:
    """Yield the result for each claim, in the order of the input."""
    if node is None:
        for claim in objects.claims.values():
            yield match_as_controller(claim, objects.classes, objects.volumes)
        return
    answered: dict[str, Match] = {}
    for claim in objects.claims.values():
        if claim.key not in answered:
            together = _claims_of_pod(claim, objects, answered)
            pod_matches = match_pod_as_scheduler(together, node, objects.classes, objects.volumes)
            answered |= {match.claim.key: match for match in pod_matches}
        yield answered[claim.key]


def _claims_of_pod(claim: Claim, objects: Objects, answered: dict[str, Match]) -> list[Claim]:
    """Return the claims that are matched together with this one: those of the first pod that uses it."""
    users = (pod for pod in objects.pods.values() if claim.key in pod.claim_keys and not pod.finished)
    pod = next(users, None)
    keys = (claim.key,) if pod is None else pod.claim_keys
    return [objects.claims[key] for key in keys if key in objects.claims and key not in answered]


def _node(name: str, objects: Objects) -> Node:
    node = objects.nodes.get(name)
    if node is not None:
        return node
    if not objects.nodes:
        raise WhyError(f"--node {name}: the input has no Node. Add the output of: kubectl get node -o json")
    named = ", ".join(sorted(objects.nodes)[:_MAX_NODES_NAMED])
    more = len(objects.nodes) - _MAX_NODES_NAMED
    raise WhyError(f"--node {name}: no such Node in the input; it has {named}{f' and {more} more' if more > 0 else ''}")
