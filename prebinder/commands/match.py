"""`pvc-prebinder match`: which volume Kubernetes itself would pick for each claim, offline, and why it rejects the
others.
"""

import sys
from collections.abc import Iterator
from typing import BinaryIO, Final

import cloup

from binder.matching.controller_match import match_as_controller
from binder.matching.match import Match
from binder.matching.rejection import Reason
from binder.matching.scheduler_match import match_pod_as_scheduler
from kube.objects.model import Claim, Node
from prebinder.command_line.command import Command
from prebinder.command_line.parameters import FILE, OneOf
from prebinder.errors import CommandError, ExitCode
from prebinder.reports.match_input import Objects, read_objects
from prebinder.reports.match_pod_report import print_pods, write_pods
from prebinder.reports.match_pods import PodAnswer, pod_answers, waiting
from prebinder.reports.match_report import console_for, print_table, write_claims

EXAMPLES: Final = """
Examples:
  kubectl get pv,pvc,sc,node,pod -A -o json | pvc-prebinder match -f -
  kubectl get csinode,csidriver,csistoragecapacity,volumeattachment -A -o json > drivers.json
  kubectl get pv,pvc,sc,node,pod -A -o json | pvc-prebinder match -f drivers.json -f -
  pvc-prebinder match -f volumes.json -f claim.yaml --node node-7 -o json

Exit codes:
  0 every claim has a volume, or waits normally   1 error   2 usage
  3 a claim that no volume fits, a pod whose claims or volumes keep it off every node, or an object that could not be
    read
"""

_AS_IT_SHOULD = frozenset({None, Reason.WAIT_FOR_FIRST_CONSUMER, Reason.DYNAMIC_CLASS, Reason.PROVISIONING_CHOSEN})
_MOST_NODES_NAMED = 10


@cloup.command("match", cls=Command, examples=EXAMPLES)
@cloup.option(
    "-f",
    "--filename",
    "filenames",
    type=FILE,
    multiple=True,
    required=True,
    metavar="FILE",
    help="objects as YAML documents, JSON or lists: PersistentVolumes, PersistentVolumeClaims, StorageClasses, Nodes "
    "and Pods; for pods also CSINodes, CSIDrivers, CSIStorageCapacities and VolumeAttachments; - is standard input; "
    "repeatable",
)
@cloup.option("--node", metavar="NAME", help="answer as kube-scheduler does for this node of the input")
@cloup.option(
    "-o", "--output", type=OneOf(("table", "json")), default="table", metavar="FORM", help="table (default) or json"
)
def command(filenames: tuple[str, ...], node: str | None, output: str) -> int:
    """Reports for every claim in the input which volume Kubernetes would pick, and why it rejects each other volume.

    Works offline, from the objects in the input only.

    Without --node the result is that of the PV controller: a claim whose class waits for a pod gets a volume only if
    one is already reserved for it. With --node it is that of kube-scheduler for that node: claims of one pod, if the
    pod is in the input, are matched together, smallest request first, and share no volume; any other claim is matched
    as if it were the only one. Of volumes that Kubernetes treats as equal, the first by name is shown.

    For pods in the input that have no node yet it reports on which nodes their volumes allow them to run, and what each
    claim gets there: the verdicts of kube-scheduler's plugins VolumeBinding, VolumeZone and NodeVolumeLimits. With
    --node only that node is considered.
    """
    objects = read_objects(filenames, sys.stdin.buffer)
    chosen = None if node is None else _node(node, objects)
    for line in objects.faults + objects.duplicates:
        sys.stderr.write(f"pvc-prebinder match: {line}\n")
    report = _Report(objects, chosen)
    if output == "json":
        report.write(sys.stdout.buffer)
    else:
        report.print()
    return ExitCode.FINE if report.well else ExitCode.PROBLEM_FOUND


class _Report:
    """Computes the results one after another, so that none has to be kept, and records whether every claim gets a
    volume.
    """

    def __init__(self, objects: Objects, node: Node | None) -> None:
        self.well = not objects.faults
        self._objects = objects
        self._node = node
        self._volumes = list(objects.volumes.values())

    def write(self, out: BinaryIO) -> None:
        write_claims(self._claims(), self._volumes, self._node, out)
        if self._objects.pods:
            out.write(b',"pods":')
            write_pods(self._pods(), out)
        out.write(b"}\n")

    def print(self) -> None:
        console = console_for()
        print_table(list(self._claims()), self._volumes, console)
        if waiting(self._objects.pods.values()):
            print_pods(list(self._pods()), console)
        sys.stdout.write(f"\n{self._objects.summary()}\n")

    def _claims(self) -> Iterator[Match]:
        for match in matches(self._objects, self._node):
            self.well = self.well and match.reason in _AS_IT_SHOULD
            yield match

    def _pods(self) -> Iterator[PodAnswer]:
        nodes = [self._node] if self._node else list(self._objects.nodes.values())
        for answer in pod_answers(waiting(self._objects.pods.values()), nodes, self._objects.snapshot()):
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
        raise CommandError(f"--node {name}: the input has no Node. Add the output of: kubectl get node -o json")
    named = ", ".join(sorted(objects.nodes)[:_MOST_NODES_NAMED])
    more = len(objects.nodes) - _MOST_NODES_NAMED
    raise CommandError(
        f"--node {name}: no such Node in the input; it has {named}{f' and {more} more' if more > 0 else ''}"
    )
