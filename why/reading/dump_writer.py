"""Writes a dump for `why -f`: the kinds that the checks read, with the caller's rights, and what could not be read."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import BinaryIO, Final

import msgspec
from msgspec import Raw

from kube.client.api import KubeApi
from kube.errors import Forbidden, NotFound
from kube.objects.api_resource import PODS, Resource
from why.facts.facts import FORBIDDEN, NOT_SERVED, Source
from why.reading.dump_header import DumpHeader
from why.reading.resources import RESOURCES
from why.reading.withheld import Withholding
from why.rendering.lines import json_of
from why.report.report import Skipped

_OPENING: Final = b'{"apiVersion":"v1","kind":"List","items":[\n '

_FIRST: Final = Source.VOLUMES
"""What is withheld of nodes depends on the volumes."""

_PODS_ELSEWHERE: Final = frozenset(each for each in RESOURCES if RESOURCES[each] == PODS) - {Source.PODS}
"""Sources that are pods too, of all namespaces."""

_SYSTEM_NAMESPACES: Final = ("kube-system", "kube-node-lease")
"""Where the Leases of kubelets, of the scheduler and of most drivers are; they are in every cluster."""


class DumpWriter:
    """Writes one dump to `out`, object by object. `namespace` is empty for all; `complain` receives lines for the user.

    Without all namespaces, Leases are those of the namespace and of kube-system and kube-node-lease.
    """

    def __init__(self, api: KubeApi, namespace: str, withholding: Withholding, out: BinaryIO) -> None:
        self._api = api
        self._namespace = namespace
        self._withholding = withholding
        self._out = out
        self._count = 0
        self._skipped: dict[Source, str] = {}

    async def write(self, now: datetime, complain: Callable[[str], None]) -> Mapping[Source, str]:
        """Write everything; return the sources that could not be read, and why. Raises KubeError."""
        for source in sorted(set(RESOURCES) - _PODS_ELSEWHERE, key=lambda each: each is not _FIRST):
            await self._write_kind(source)
        for source, because in self._skipped.items():
            complain(f"left out {source}: {because}")
        if self._namespace:
            part = f"only those of namespace {self._namespace}"
            self._skipped |= dict.fromkeys((*_PODS_ELSEWHERE, Source.NAMESPACES), part)
            self._skipped.setdefault(Source.LEASES, f"{part} and of kube-system")
        elif Source.PODS in self._skipped:
            self._skipped |= dict.fromkeys(_PODS_ELSEWHERE, self._skipped[Source.PODS])
        read = tuple(sorted(set(RESOURCES) - self._skipped.keys()))
        skipped = tuple(Skipped(source, because) for source, because in self._skipped.items())
        self._put(json_of(DumpHeader(self._namespace, now, read, skipped)))
        self._out.write(b"\n]}\n")
        return self._skipped

    async def _write_kind(self, source: Source) -> None:
        resource = RESOURCES[source]
        try:
            if source is Source.NAMESPACES and self._namespace:
                self._take(resource, await self._api.get(resource, self._namespace))
                return
            for namespace in self._namespaces_of(source):
                await self._api.list_all(resource, lambda raw: self._take(resource, raw), namespace=namespace)
        except Forbidden:
            self._skipped[source] = FORBIDDEN
        except NotFound:
            self._skipped[source] = NOT_SERVED

    def _namespaces_of(self, source: Source) -> tuple[str, ...]:
        if source is Source.LEASES and self._namespace:
            return tuple(dict.fromkeys((self._namespace, *_SYSTEM_NAMESPACES)))
        # Capacities are in the namespaces of drivers, which are then withheld.
        is_limited = RESOURCES[source].namespaced and source is not Source.CAPACITIES
        return (self._namespace if is_limited else "",)

    def _take(self, resource: Resource, raw: Raw | bytes) -> None:
        document = {"apiVersion": resource.api_version, "kind": resource.kind, **msgspec.json.decode(raw)}
        self._put(json_of(self._withholding.withheld(resource.kind, document)))

    def _put(self, document: bytes) -> None:
        # Indented, so that no object of a dump that ends too early can be taken for a document of its own.
        # And nothing before the first object, so that a cluster without an answer leaves no half document.
        self._out.write((b",\n " if self._count else _OPENING) + document)
        self._count += 1
