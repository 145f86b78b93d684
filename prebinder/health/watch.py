"""Follows the health of volumes in a cluster and prints what changes."""

import asyncio
import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Final

from binder.health.node_storage import NodeStorage
from binder.health.published_sweeps import PublishedSweep
from binder.health.reported_health import reported
from binder.reservation.contract import Annotations
from csi.client.endpoint import Endpoint
from csi.drivers import Drivers
from csi.health.verdict import Verdict
from kube.client.api import KubeApi
from kube.clock import SystemClock
from kube.objects.api_resource import CLAIMS, CSI_NODES, NODES, VOLUMES, Resource
from kube.objects.model import Volume
from kube.store.snapshot import Snapshot
from prebinder.command_line.output import Output, write_document, write_list
from prebinder.health.rows import HEADERS, WIDE_HEADERS, HealthRow, health_row
from prebinder.health.sweep_reports import SWEEP_POLL_SECONDS, LatestSweeps
from prebinder.metrics.unobserved import Unobserved
from prebinder.runtime.following import first_of, following
from prebinder.runtime.signals import stop_requested
from why.rendering.tables import GrowingTable, console_for

PROBE_INTERVAL_SECONDS: Final = 5.0
"""Seconds after which drivers are probed again: they cannot be watched."""
GATHERING: Final = 0.1
"""Seconds during which changes are collected, so that one that shows in two objects is printed once."""
_AT_ONCE: Final = 8
_MAX_AGE: Final = timedelta(seconds=0.9 * PROBE_INTERVAL_SECONDS)
"""A change in the cluster in between does not cause all drivers to be probed again."""
REPORTING: Final = frozenset({VOLUMES, CLAIMS, CSI_NODES, NODES})
"""The kinds that report the health of volumes."""


class Clinic:
    """Returns the health of volumes, probing drivers that have an endpoint. Close it at the end."""

    def __init__(self, endpoints: Sequence[Endpoint], annotations: Annotations) -> None:
        self.annotations = annotations
        self.probed_drivers = frozenset(endpoint.driver for endpoint in endpoints)
        self._node_storage = NodeStorage()
        self._clock = SystemClock()
        self._drivers = Drivers(endpoints, self._clock, Unobserved())

    async def rows(
        self, snapshot: Snapshot, volumes: Collection[Volume], sweeps: Sequence[PublishedSweep]
    ) -> list[HealthRow]:
        """Return a row for each volume, by name. `sweeps` is what others reported who probe drivers."""
        verdicts = await self._probe([volume for volume in volumes if volume.driver in self.probed_drivers])
        now = self._clock.now()
        return [
            health_row(
                volume,
                verdicts.get(volume.name),
                reported(volume, snapshot, self._node_storage, self.annotations, self.probed_drivers, now),
                self.annotations,
                now,
                sweeps,
            )
            for volume in sorted(volumes, key=lambda volume: volume.name)
        ]

    async def close(self) -> None:
        await self._drivers.close()

    async def _probe(self, volumes: Sequence[Volume]) -> Mapping[str, Verdict]:
        """Return the drivers' results by volume name, with limited concurrency."""
        turns = asyncio.Semaphore(_AT_ONCE)

        async def verdict_of(volume: Volume) -> Verdict:
            async with turns:
                return await self._drivers.verdict(volume.driver, volume.handle, _MAX_AGE)

        verdicts = await asyncio.gather(*map(verdict_of, volumes))
        return {volume.name: verdict for volume, verdict in zip(volumes, verdicts, strict=True)}


class HealthPrinter:
    """Prints rows that have changed: first the whole table, then only rows; for programs one document, or with
    `watching` one for each row.
    """

    def __init__(self, output: Output, *, watching: bool) -> None:
        self._output = output
        self._watching = watching
        self._seen: dict[str, HealthRow] = {}
        self._began = False
        self._table = GrowingTable(*(WIDE_HEADERS if output.form == "wide" else HEADERS), headed=output.headers)

    @property
    def any_unhealthy(self) -> bool:
        """Whether any volume was unhealthy when last printed."""
        return any(row.unhealthy for row in self._seen.values())

    def show(self, rows: Sequence[HealthRow]) -> None:
        """Print what has changed in these rows, which are all there are."""
        here = {row.volume for row in rows}
        gone = [self._seen.pop(name).deleted() for name in sorted(self._seen.keys() - here)]
        news = [row for row in rows if not row.same_news(self._seen.get(row.volume))]
        self._seen.update({row.volume: row for row in rows})
        if self._output.is_document and not self._watching:
            write_list("HealthReport", [row.document() for row in news], self._output)
        elif self._output.is_document:
            for row in (*gone, *news):
                write_document(row.document(), self._output, one_of_many=True)
            sys.stdout.flush()
        else:
            self._print([*gone, *news])
        self._began = True

    def _print(self, rows: Sequence[HealthRow]) -> None:
        if rows:
            self._table.print([row.cells(wide=self._output.form == "wide") for row in rows])
        elif not self._began:
            console_for().print("There are no PersistentVolumes.")
            sys.stdout.flush()


async def watch(
    api: KubeApi,
    clinic: Clinic,
    sweeps: LatestSweeps,
    printer: HealthPrinter,
    names: Collection[str],
    denied: Collection[Resource],
) -> None:
    """Print changes of these volumes (all, if none is named) until interrupted."""
    with stop_requested() as stop:
        async with following(api, clinic.annotations.prefix, REPORTING.difference(denied)) as (store, changed):
            while not stop.is_set():
                changed.clear()
                snapshot = store.snapshot()
                volumes = [volume for volume in snapshot.volumes.values() if not names or volume.name in names]
                printer.show(await clinic.rows(snapshot, volumes, await sweeps.about(volumes)))
                await first_of(changed, stop, PROBE_INTERVAL_SECONDS if clinic.probed_drivers else SWEEP_POLL_SECONDS)
                await asyncio.sleep(GATHERING)
