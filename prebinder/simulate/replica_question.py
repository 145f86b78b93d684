"""The flags --scale and --fill of `simulate`: reads a dump, or the cluster, and prints what fits."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from msgspec import Raw

from kube.client.api import Listing
from kube.decoding.decode import MalformedObject, decoders, tolerant
from kube.objects.api_resource import RESOURCE_QUOTAS, STATEFUL_SETS, WATCHED
from kube.objects.model import Record
from kube.objects.stateful_set import ResourceQuota, StatefulSet
from kube.store.store import snapshot_of
from prebinder.command_line.cluster_access import ClusterAccess, cluster_api
from prebinder.command_line.output import Output, write_document
from prebinder.errors import CommandError, ExitCode, UsageError
from prebinder.simulate.replicas import ReplicaAnswer, replicas_that_fit
from why.reading.dump import read_into
from why.rendering.lines import warn, write_line

_COMMAND: Final = "pvc-prebinder simulate"
_EXPECTED: Final = {"--scale": "statefulset/NAME=N", "--fill": "statefulset/NAME"}


@dataclass(frozen=True, slots=True)
class ReplicaQuestion:
    """Whether `wanted` replicas of a set fit; None: how many do."""

    namespace: str
    name: str
    wanted: int | None


def question_of(scale: str | None, fill: str | None, namespace: str) -> ReplicaQuestion | None:
    """Return what the flags ask; None if neither is given. Raises UsageError for one that cannot be read."""
    if scale is None and fill is None:
        return None
    if scale is not None and fill is not None:
        raise UsageError("--scale and --fill: give one of the two")
    flag, text = ("--scale", scale) if scale is not None else ("--fill", fill)
    named, equals, count = (text or "").partition("=")
    kind, _, name = named.partition("/")
    is_number = count.isdecimal() and 0 < len(count) < 5
    if kind not in {"statefulset", "sts"} or not name or bool(equals) != is_number or is_number == (scale is None):
        raise UsageError(f'{flag}: expected {_EXPECTED[flag]}, found "{(text or "")[:60]}"')
    return ReplicaQuestion(namespace, name, int(count) if is_number else None)


@dataclass(slots=True)
class _Records:
    """The objects of a dump. What is not needed is skipped."""

    decode: dict[str, Callable[[bytes | Raw], Record]]
    faults: list[str] = field(default_factory=list)
    damaged: set[str] = field(default_factory=set)
    items: list[Record] = field(default_factory=list)

    def take(self, raw: bytes | Raw, api: str, kind: str, source: str) -> None:
        """Add an object; `api` does not matter: no other kind of these names has what is read."""
        if kind not in self.decode or (api.count("/") and not api.startswith(("apps/", "storage.k8s.io/"))):
            return
        try:
            self.items.append(self.decode[kind](raw))
        except MalformedObject as error:
            self.faults.append(f"{source}: {error}")
            self.damaged.add(kind)


def answered(
    question: ReplicaQuestion, access: ClusterAccess, files: Sequence[str], now: datetime | None, output: Output
) -> int:
    """Print the answer and return the exit code. Raises CommandError if there is no such set."""
    faults: list[str] = []
    if files:
        records = _Records(dict(decoders(access.annotation_prefix)))
        read_into(records, files, sys.stdin.buffer)
        items, faults = records.items, records.faults
    else:
        items = asyncio.run(_live(access, faults))
    for line in faults:
        warn(line, _COMMAND)
    answer = _answer(question, items, now or datetime.now(UTC), access.annotation_prefix)
    if output.is_document:
        write_document(answer, output)
    else:
        for each in answer.placed:
            volumes = ", ".join(f"{claim} {volume}" for claim, volume in each.volumes.items())
            write_line(f"replica {each.ordinal}{f' in {each.zone}' if each.zone else ''}: {volumes}")
        write_line(str(answer))
    lacking = question.wanted is not None and answer.missing is not None
    return ExitCode.PROBLEM_FOUND if lacking or faults else ExitCode.FINE


def _answer(question: ReplicaQuestion, items: Sequence[Record], now: datetime, prefix: str) -> ReplicaAnswer:
    sets = [record for record in items if isinstance(record, StatefulSet)]
    quotas = [record for record in items if isinstance(record, ResourceQuota)]
    owner = next((each for each in sets if (each.namespace, each.name) == (question.namespace, question.name)), None)
    if owner is None:
        raise CommandError(
            f'there is no StatefulSet "{question.name}" in namespace {question.namespace}; try --namespace'
        )
    return replicas_that_fit(owner, question.wanted, snapshot_of(items, prefix), sets, quotas, now)


async def _live(access: ClusterAccess, faults: list[str]) -> list[Record]:
    items: list[Record] = []
    decode = decoders(access.annotation_prefix)
    async with cluster_api(access) as api:
        for resource in (*WATCHED, STATEFUL_SETS, RESOURCE_QUOTAS):
            take: Callable[[Raw], Record | None] = tolerant(
                decode[resource.kind], lambda error: faults.append(str(error))
            )
            listing: Listing[Record] = await api.list_all(resource, take)
            items += listing.items
    return items
