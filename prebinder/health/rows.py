"""The rows of `pvc-prebinder health`. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final

from binder.health.published_health import published_health
from binder.health.published_sweeps import PublishedSweep, swept_health
from binder.health.quarantine import in_quarantine
from binder.reservation.contract import Annotations, format_time
from csi.health.health import HealthFinding
from csi.health.sources import HealthReport, combined, combined_finding
from csi.health.verdict import UNHEALTHY, HealthState, Verdict
from kube.objects.model import Volume
from kube.rules.duration import age_text
from kube.rules.topology import volume_zone

NOT_REPORTED: Final = "NotReported"
HEADERS: Final = ("VOLUME", "HEALTH", "REASON", "SINCE", "ZONE", "CLAIM")
WIDE_HEADERS: Final = (*HEADERS, "QUARANTINED", "SOURCE", "LAST PROBE", "DRIVER", "HANDLE", "MESSAGE")


@dataclass(frozen=True, slots=True)
class HealthRow:
    """The row of a volume. `since` is empty if unknown, `probed` if its driver was not probed or the time is unknown.

    `age` is how long ago a sweep probed it, which the table shows; empty if the row is not based on a sweep.
    """

    volume: str
    health: HealthState
    reason: str
    since: str
    zone: str
    claim: str
    quarantined: bool
    source: str
    probed: str
    driver: str
    handle: str
    message: str
    age: str = ""

    @property
    def unhealthy(self) -> bool:
        return self.health in UNHEALTHY

    def cells(self, *, wide: bool) -> Sequence[str]:
        """Return the texts below HEADERS or WIDE_HEADERS."""
        reason = f"probed {self.age} ago" if self.age else self.reason
        short = (self.volume, str(self.health), reason, self.since, self.zone, self.claim)
        if not wide:
            return short
        inside = "yes" if self.quarantined else "no"
        return (*short, inside, self.source, self.probed, self.driver, self.handle, self.message)

    def document(self) -> dict[str, Any]:
        """Return it for JSON; what is unknown is null."""
        facts = asdict(self)
        del facts["age"]
        return {name: None if value == "" else value for name, value in facts.items()}

    def deleted(self) -> "HealthRow":
        return replace(
            self, health=HealthState.UNKNOWN, reason="VolumeDeleted", since="", message="", source="", age=""
        )

    def same_news(self, other: "HealthRow | None") -> bool:
        """Whether nothing changed but the time of the probe."""
        return other is not None and self.document() | {"probed": None} == other.document() | {"probed": None}


def health_row(
    volume: Volume,
    verdict: Verdict | None,
    reports: Sequence[HealthFinding],
    annotations: Annotations,
    now: datetime,
    sweeps: Sequence[PublishedSweep] = (),
) -> HealthRow:
    """Return the row of a volume: the worst of its driver's result and of what is reported in the cluster.

    If there is neither, a complete sweep of its driver may have found it healthy. A volume without any of these was
    never reported unhealthy, which is not the same as healthy.
    """
    swept = swept_health(volume, sweeps, annotations, now) if verdict is None else None
    if swept is not None and (swept.covered or not reports):
        reports = (*reports, swept.finding)
    worst: HealthReport | None = combined_finding(reports) if verdict is None else combined(verdict, reports)
    shown = swept is not None and swept.covered and worst is not None and worst.state is swept.finding.state
    quarantined = in_quarantine(volume, annotations)
    reference = None if quarantined else volume.claim
    return HealthRow(
        volume=volume.name,
        health=worst.state if worst is not None else HealthState.UNKNOWN,
        reason=worst.reason if worst is not None else NOT_REPORTED,
        since=_since(volume, worst, reports, annotations, now),
        zone=volume_zone(volume),
        claim=reference.key if reference is not None else "",
        quarantined=quarantined,
        source=worst.source if worst is not None else "",
        probed=_time(verdict.observed_at if verdict is not None else swept.ended if swept is not None else None),
        driver=volume.driver,
        handle=volume.handle,
        message=worst.message if worst is not None else "",
        age=age_text(now - swept.ended) if swept is not None and shown else "",
    )


def _since(
    volume: Volume,
    worst: HealthReport | None,
    reports: Sequence[HealthFinding],
    annotations: Annotations,
    now: datetime,
) -> str:
    """Return since when: as its source reported, else as published when the volume became unhealthy."""
    known = [
        report.since
        for report in reports
        if worst is not None and report.source == worst.source and report.since != now
    ]
    published = published_health(volume, annotations)
    if not known and published is not None and worst is not None and published.state is worst.state:
        return _time(published.since)
    return _time(known[0] if known else None)


def _time(moment: datetime | None) -> str:
    return format_time(moment) if moment is not None else ""
