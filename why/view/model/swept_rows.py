"""Volumes of which nothing is reported, and whose driver answered that they are healthy in its last complete sweep."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from binder.health.published_sweeps import PublishedSweep, published_sweeps, swept_health
from binder.reservation.contract import Annotations
from kube.objects.model import Volume
from kube.store.snapshot import Snapshot
from why.facts.details import LeaseDetails
from why.view.model.view import VolumeRow

_LOOKED_AT_AGAIN: Final = timedelta(seconds=30)
"""A report becomes too old to count by time alone."""


def sweeps_of(leases: Mapping[str, LeaseDetails]) -> tuple[PublishedSweep, ...]:
    """Return the reports of sweeps that these Leases carry."""
    carrying = [(key, lease.sweeps) for key, lease in sorted(leases.items()) if lease.sweeps]
    return tuple(sweep for key, text in carrying for sweep in published_sweeps(text, key))


class SweptRows:
    """Adds that health to rows that have none, and remembers the results until a sweep or the row is another one."""

    def __init__(self, annotations: Annotations) -> None:
        self._annotations = annotations
        self._sweeps: Sequence[PublishedSweep] = ()
        self._at: datetime | None = None
        self._known: dict[str, tuple[VolumeRow, VolumeRow]] = {}

    def rows(
        self, rows: dict[str, VolumeRow], snapshot: Snapshot, sweeps: Sequence[PublishedSweep], now: datetime
    ) -> dict[str, VolumeRow]:
        """Return the rows with what the sweeps say of those without health."""
        if not sweeps and not self._sweeps:
            return rows
        outdated = self._at is None or sweeps != self._sweeps or not timedelta() <= now - self._at < _LOOKED_AT_AGAIN
        if outdated:
            self._sweeps, self._at = sweeps, now
        known, volumes = self._known, snapshot.volumes
        self._known = {
            name: held
            if not outdated and (held := known.get(name)) is not None and held[0] is row
            else (row, self._swept(row, volumes[name], known.get(name), now))
            for name, row in rows.items()
        }
        return {name: swept for name, (_, swept) in self._known.items()}

    def _swept(
        self, row: VolumeRow, volume: Volume, held: tuple[VolumeRow, VolumeRow] | None, now: datetime
    ) -> VolumeRow:
        health = None if row.health else swept_health(volume, self._sweeps, self._annotations, now)
        swept = row if health is None or not health.covered else replace(row, health=str(health.finding.state))
        # One object for equal rows: who looks for changes compares by identity first.
        return held[1] if held is not None and held[1] == swept else swept
