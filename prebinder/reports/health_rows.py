"""What `pvc-prebinder health` says of one volume. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final

from binder.health.published_health import published_health
from binder.health.quarantine import in_quarantine
from binder.reservation.contract import Annotations, format_time
from csi.health.health import Finding
from csi.health.sources import Saying, combined, combined_finding
from csi.health.verdict import UNHEALTHY, HealthState, Verdict
from kube.objects.model import Volume
from kube.rules.topology import volume_zone

NOT_REPORTED: Final = "NotReported"
HEADERS: Final = ("VOLUME", "HEALTH", "REASON", "SINCE", "ZONE", "CLAIM")
WIDE_HEADERS: Final = (*HEADERS, "QUARANTINED", "SOURCE", "LAST PROBE", "DRIVER", "HANDLE", "MESSAGE")


@dataclass(frozen=True, slots=True)
class HealthRow:
    """One volume. `since` is empty when nobody knows since when, `probed` when no driver was asked just now."""

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

    @property
    def unhealthy(self) -> bool:
        return self.health in UNHEALTHY

    def cells(self, *, wide: bool) -> Sequence[str]:
        """Return the texts below HEADERS or WIDE_HEADERS."""
        short = (self.volume, str(self.health), self.reason, self.since, self.zone, self.claim)
        if not wide:
            return short
        inside = "yes" if self.quarantined else "no"
        return (*short, inside, self.source, self.probed, self.driver, self.handle, self.message)

    def document(self) -> dict[str, Any]:
        """Return it for JSON; what is not known is null."""
        return {name: None if value == "" else value for name, value in asdict(self).items()}

    def deleted(self) -> "HealthRow":
        """Return what is left to say when the volume is gone."""
        return replace(self, health=HealthState.UNKNOWN, reason="VolumeDeleted", since="", message="", source="")

    def same_news(self, other: "HealthRow | None") -> bool:
        """Whether nothing changed but the time of asking."""
        return other is not None and self.document() | {"probed": None} == other.document() | {"probed": None}


def health_row(
    volume: Volume, asked: Verdict | None, reports: Sequence[Finding], annotations: Annotations, now: datetime
) -> HealthRow:
    """Say how a volume is: the worst of what its driver just answered and of what is reported of it.

    A volume without either was never reported unhealthy, which is not the same as healthy.
    """
    worst: Saying | None = combined_finding(reports) if asked is None else combined(asked, reports)
    state = worst.state if worst is not None else HealthState.UNKNOWN
    quarantined = in_quarantine(volume, annotations)
    reference = None if quarantined else volume.claim
    return HealthRow(
        volume=volume.name,
        health=state,
        reason=worst.reason if worst is not None else NOT_REPORTED,
        since=_since(volume, worst, reports, annotations, now),
        zone=volume_zone(volume),
        claim=reference.key if reference is not None else "",
        quarantined=quarantined,
        source=worst.source if worst is not None else "",
        probed=_time(asked.observed_at) if asked is not None else "",
        driver=volume.driver,
        handle=volume.handle,
        message=worst.message if worst is not None else "",
    )


def _since(
    volume: Volume, worst: Saying | None, reports: Sequence[Finding], annotations: Annotations, now: datetime
) -> str:
    """Return since when: as who said it says, else as was published when the volume became so."""
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
