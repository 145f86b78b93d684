"""The health in a volume's annotations: four keys that change when its state does, and never in between.

A volume that was never unhealthy carries none of them: most volumes are healthy, and ten thousand healthy ones need no
write. A driver that stops responding changes nothing, because a missing response is not a finding.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from binder.reservation.contract import Annotations, format_time, parse_time
from csi.health.health import HealthFinding
from csi.health.verdict import UNHEALTHY, HealthState
from kube.objects.model import Volume, value_of

_UNNAMED: Final = "the volume's annotations"
_WORDS: Final = frozenset(map(str, HealthState))
_FINDINGS: Final = UNHEALTHY | {HealthState.HEALTHY}


@dataclass(frozen=True, slots=True)
class PublishedHealth:
    """State, the driver's reason, since when (None if missing or invalid), and the source."""

    state: HealthState
    reason: str
    since: datetime | None
    source: str = ""


def published_health(volume: Volume, annotations: Annotations) -> PublishedHealth | None:
    """Read the volume's annotations; None if there are none, or the state is unknown."""
    word = value_of(volume.annotations, annotations.health)
    if word is None or word not in _WORDS:
        return None
    reason = value_of(volume.annotations, annotations.health_reason) or ""
    since = parse_time(value_of(volume.annotations, annotations.health_since))
    return PublishedHealth(
        HealthState(word), reason, since, value_of(volume.annotations, annotations.health_source) or ""
    )


def published_finding(volume: Volume, annotations: Annotations, now: datetime) -> HealthFinding | None:
    """Return the annotations as a finding; of `now` if they have no time, None if there are none.

    A state that is no finding, such as Unknown, counts as none.
    """
    published = published_health(volume, annotations)
    if published is None or published.state not in _FINDINGS:
        return None
    source = f"{published.source}, as published on the volume" if published.source else _UNNAMED
    return HealthFinding(published.state, published.reason, "", source, published.since or now)


def unpublished(volume: Volume, finding: HealthFinding | None, annotations: Annotations) -> HealthFinding | None:
    """Return the finding that is not published on the volume yet; None if there is nothing new.

    Only the state counts: a process that restarts would have other messages and times for the same state.
    """
    if finding is None:
        return None
    published = published_health(volume, annotations)
    before = published.state if published is not None else HealthState.HEALTHY
    return None if finding.state is before else finding


def health_annotations(finding: HealthFinding, annotations: Annotations) -> dict[str, str | None]:
    return {
        annotations.health: str(finding.state),
        annotations.health_reason: finding.reason,
        annotations.health_since: format_time(finding.since),
        annotations.health_source: finding.source,
    }
