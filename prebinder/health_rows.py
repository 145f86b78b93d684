"""What `pvc-prebinder health` says of one volume. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from binder.published_health import published_health
from binder.quarantine import in_quarantine
from binder.reservation import format_time
from csi.verdict import SICK, HealthState, Verdict
from kube.model import Volume
from kube.topology import volume_zone

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
    def sick(self) -> bool:
        return self.health in SICK

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

    def same_news(self, other: "HealthRow | None") -> bool:
        """Whether nothing changed but the time of asking."""
        return other is not None and self.document() | {"probed": None} == other.document() | {"probed": None}


def health_row(volume: Volume, asked: Verdict | None, prefix: str) -> HealthRow:
    """Say how a volume is: what its driver just answered, else what its annotations say.

    A volume without either was never reported sick, which is not the same as healthy.
    """
    said = published_health(volume, prefix)
    if asked is not None:
        state, reason, source, message = asked.state, asked.reason, asked.source, asked.message
    elif said is not None:
        state, reason, source, message = said.state, said.reason, "annotations of the volume", ""
    else:
        state, reason, source, message = HealthState.UNKNOWN, "NotReported", "", ""
    quarantined = in_quarantine(volume, prefix)
    reference = None if quarantined else volume.claim
    return HealthRow(
        volume=volume.name,
        health=state,
        reason=reason,
        since=_time(said.since) if said is not None and said.state is state else "",
        zone=volume_zone(volume),
        claim=f"{reference.namespace}/{reference.name}" if reference is not None else "",
        quarantined=quarantined,
        source=source,
        probed=_time(asked.observed_at) if asked is not None else "",
        driver=volume.driver,
        handle=volume.handle,
        message=message,
    )


def _time(moment: datetime | None) -> str:
    return format_time(moment) if moment is not None else ""
