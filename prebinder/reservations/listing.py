"""Lists reservations, and follows them: the reading and the printing of `pvc-prebinder reservations list`."""

import asyncio
import sys
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Final

from kube.client.api import KubeApi
from kube.clock import SystemClock
from kube.objects.api_resource import CLAIMS, CSI_NODES, NODES, PODS, VOLUMES, Resource
from kube.objects.model import Record
from kube.store.snapshot import Snapshot
from kube.store.store import snapshot_of
from prebinder.command_line.output import Output, write_document, write_list
from prebinder.health.sweep_reports import SWEEP_POLL_SECONDS, LatestSweeps
from prebinder.health.volume_reader import read_kinds, read_volumes
from prebinder.health.watch import GATHERING, Clinic
from prebinder.reservations.rows import HEADERS, ReservationRow, is_listed, reservation_rows
from prebinder.runtime.following import first_of, following
from prebinder.runtime.signals import stop_requested
from why.rendering.tables import GrowingTable, console_for

_BESIDE: Final = (CLAIMS, PODS, CSI_NODES, NODES)
"""The kinds that say more about a reservation than its volume."""


class ReservationListing:
    """Prints the reservations of a cluster; with a namespace only those for its claims. It probes no driver."""

    def __init__(self, api: KubeApi, clinic: Clinic, namespace: str, output: Output) -> None:
        self._api, self._clinic, self._namespace, self._output = api, clinic, namespace, output
        self._clock = SystemClock()
        self._sweeps = LatestSweeps(api, (), clinic.annotations, self._clock)
        self._seen: dict[str, ReservationRow] = {}
        self._table = GrowingTable(*HEADERS, headed=output.headers)

    async def once(self) -> Collection[Resource]:
        """Print all; return the kinds that the user may not read."""
        prefix = self._clinic.annotations.prefix
        volumes = await read_volumes(self._api, (), prefix)
        beside: Mapping[Resource, Sequence[Record] | None] = {}
        if any(is_listed(volume, self._clinic.annotations) for volume in volumes):
            beside = await read_kinds(self._api, _BESIDE, prefix)
        records = chain(volumes, *(read or () for read in beside.values()))
        rows = await self._rows(snapshot_of(records, prefix))
        self._seen = {row.volume: row for row in rows}
        if self._output.is_document:
            write_list("ReservationReport", [row.document() for row in rows], self._output)
        else:
            self._print(rows)
        return [resource for resource, read in beside.items() if read is None]

    async def watch(self, denied: Collection[Resource]) -> None:
        """Print what changes after `once`, until interrupted."""
        resources = {VOLUMES, *_BESIDE}.difference(denied)
        with stop_requested() as stop:
            async with following(self._api, self._clinic.annotations.prefix, resources) as (store, changed):
                while not stop.is_set():
                    changed.clear()
                    self._show(await self._rows(store.snapshot()))
                    await first_of(changed, stop, SWEEP_POLL_SECONDS)
                    await asyncio.sleep(GATHERING)

    async def _rows(self, snapshot: Snapshot) -> list[ReservationRow]:
        annotations = self._clinic.annotations
        reserved = [volume for volume in snapshot.volumes.values() if is_listed(volume, annotations)]
        sweeps = await self._sweeps.about(reserved)
        health = {row.volume: str(row.health) for row in await self._clinic.rows(snapshot, reserved, sweeps)}
        return list(reservation_rows(snapshot, annotations, health, self._clock.now(), self._namespace))

    def _show(self, rows: Sequence[ReservationRow]) -> None:
        here = {row.volume: row for row in rows}
        gone = [row.gone() for name, row in sorted(self._seen.items()) if name not in here]
        news = [*gone, *(row for row in rows if row != self._seen.get(row.volume))]
        self._seen = here
        if self._output.is_document:
            for row in news:
                write_document(row.document(), self._output, one_of_many=True)
        elif news:
            self._print(news)
        sys.stdout.flush()

    def _print(self, rows: Sequence[ReservationRow]) -> None:
        if not rows:
            where = f" for claims in namespace {self._namespace}" if self._namespace else ""
            console_for().print(f"Nothing is reserved{where}.")
            return
        now = self._clock.now()
        self._table.print([row.cells(now) for row in rows])
