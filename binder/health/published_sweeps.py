"""Sweep reports as an annotation of a Lease, and what they mean for a volume without health annotations.

Volumes that were never unhealthy have no annotations (binder.health.published_health). That they were probed and are
healthy is recorded on the Lease of the process that probed them, where it takes no extra write. The controller decides
nothing by it: it is for display, and for `replace`, which needs a loss to be reported by two complete sweeps.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from binder.health.published_health import published_health
from binder.reservation.contract import Annotations, format_time, parse_time
from csi.health.complete_sweep import MAX_NAMED, CompleteSweep, SweepReport
from csi.health.health import UNCONFIRMED, HealthFinding
from csi.health.report_source import NO_CAPABILITY, NO_CAPABILITY_MESSAGE
from csi.health.verdict import UNHEALTHY, HealthState
from kube.objects.model import Volume

_MAX_INTERVAL_SECONDS: Final = timedelta(days=7).total_seconds()
_VERSION_DIGITS: Final = 20


@dataclass(frozen=True, slots=True)
class PublishedSweep:
    """A report, and the Lease (namespace/name) that carries it."""

    report: SweepReport
    lease: str


@dataclass(frozen=True, slots=True)
class SweptHealth:
    """The last sweep's result for one volume; Unknown if no recent sweep covers it. `ended` is when the sweep did."""

    finding: HealthFinding
    ended: datetime

    @property
    def covered(self) -> bool:
        """Whether a recent sweep found the volume healthy, or the driver unable to tell."""
        return self.finding.state is not HealthState.UNKNOWN


class _Report(msgspec.Struct, rename="camel"):
    driver: str
    began: str
    ended: str
    interval_seconds: float
    resource_version: str
    volumes: int
    unhealthy: int
    unknown: int
    unsupported: int
    exceptions: list[str] | None
    lost: int = 0
    lost_twice: list[str] | None = None
    """Null, or absent as older versions write it: nothing is proven."""


_REPORTS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_REPORT: Final = msgspec.json.Decoder(_Report)


def unpublished_exceptions(
    sweep: CompleteSweep, volumes: Iterable[Volume], annotations: Annotations
) -> frozenset[str] | None:
    """Return the exceptions of a sweep that no volume itself reports as unhealthy; None if too many to be named."""
    left = set(sweep.exceptions)
    if len(left) == sweep.volumes and set(sweep.exceptions.values()) <= {HealthState.UNSUPPORTED}:
        # The driver reports no health at all, and no volume has to be named.
        return frozenset()
    if left:
        left -= {
            volume.handle
            for volume in volumes
            if volume.handle in left and volume.driver == sweep.driver and _annotated_unhealthy(volume, annotations)
        }
    return frozenset(left) if len(left) <= MAX_NAMED else None


def sweeps_annotation(reports: Mapping[str, SweepReport], annotations: Annotations) -> dict[str, str]:
    """Return the annotation that carries these reports, none if there are none."""
    if not reports:
        return {}
    wire = [_written(reports[driver]) for driver in sorted(reports)]
    return {annotations.sweeps: msgspec.json.encode(wire).decode()}


def published_sweeps(text: str, lease: str) -> list[PublishedSweep]:
    """Read the annotation; invalid entries are skipped."""
    try:
        items = _REPORTS.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return []
    reports = map(_read, items)
    return [PublishedSweep(report, lease) for report in reports if report is not None]


def swept_health(
    volume: Volume, sweeps: Sequence[PublishedSweep], annotations: Annotations, now: datetime
) -> SweptHealth | None:
    """Return what the last sweeps of the volume's driver report of it, None if there are none or it has annotations.

    If several processes probe a driver, each must have found the volume healthy; the latest is named.
    """
    own = [sweep for sweep in sweeps if sweep.report.driver == volume.driver]
    if not own or not volume.handle or _annotated_unhealthy(volume, annotations):
        return None
    recent = [sweep for sweep in own if sweep.report.recent(now)]
    covering = [sweep for sweep in recent if sweep.report.covers(volume.resource_version, volume.created)]
    latest = max(covering or recent or own, key=lambda sweep: (sweep.report.ended, sweep.lease))
    words = _words_of({sweep.report.state_of(volume.handle) for sweep in covering}, outdated=not recent)
    source = f"CSI driver {latest.report.driver}, as reported on Lease {latest.lease}"
    return SweptHealth(HealthFinding(*words, source, now), latest.report.ended)


def _words_of(states: Collection[HealthState], *, outdated: bool) -> tuple[HealthState, str, str]:
    """Return state, reason and message; `states` are those of the sweeps that cover the volume."""
    if outdated:
        return HealthState.UNKNOWN, "SweepOutdated", "the last complete sweep is too old to count"
    if not states:
        return HealthState.UNKNOWN, "NotSweptYet", "new or changed since the last complete sweep began"
    if HealthState.UNKNOWN in states:
        return HealthState.UNKNOWN, UNCONFIRMED, "the last complete sweep did not find the volume healthy"
    if HealthState.HEALTHY in states:
        return HealthState.HEALTHY, "Probed", ""
    return HealthState.UNSUPPORTED, NO_CAPABILITY, NO_CAPABILITY_MESSAGE


def _annotated_unhealthy(volume: Volume, annotations: Annotations) -> bool:
    published = published_health(volume, annotations)
    return published is not None and published.state in UNHEALTHY


def _written(report: SweepReport) -> _Report:
    return _Report(
        driver=report.driver,
        began=format_time(report.began),
        ended=format_time(report.ended),
        interval_seconds=report.interval.total_seconds(),
        resource_version=str(report.version),
        volumes=report.volumes,
        unhealthy=report.unhealthy,
        unknown=report.unknown,
        unsupported=report.unsupported,
        exceptions=None if report.exceptions is None else sorted(report.exceptions),
        lost=report.lost,
        lost_twice=None if report.lost_twice is None else sorted(report.lost_twice),
    )


def _read(raw: msgspec.Raw) -> SweepReport | None:
    try:
        wire = _REPORT.decode(raw)
    except msgspec.DecodeError:
        return None
    began, ended = parse_time(wire.began), parse_time(wire.ended)
    if began is None or ended is None or ended < began:
        return None
    if not wire.resource_version.isdecimal() or len(wire.resource_version) > _VERSION_DIGITS:
        return None
    if not 0 <= wire.interval_seconds <= _MAX_INTERVAL_SECONDS:
        return None
    return SweepReport(
        driver=wire.driver,
        began=began,
        ended=ended,
        interval=timedelta(seconds=wire.interval_seconds),
        version=int(wire.resource_version),
        volumes=wire.volumes,
        unhealthy=wire.unhealthy,
        unknown=wire.unknown,
        unsupported=wire.unsupported,
        exceptions=None if wire.exceptions is None else frozenset(wire.exceptions),
        lost=wire.lost,
        lost_twice=None if wire.lost_twice is None else frozenset(wire.lost_twice),
    )
