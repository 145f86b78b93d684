"""What a volume's annotations say of its health: four keys that change when its state does, and never in between.

A volume that was never found unhealthy carries none of them: most volumes are healthy, and ten thousand healthy ones
need no write. A driver that stops answering changes nothing, because silence is not a finding.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from binder.reservation.contract import Annotations, format_time, parse_time
from csi.health.health import Finding
from csi.health.verdict import UNHEALTHY, HealthState
from kube.objects.model import Volume, value_of

_UNNAMED: Final = "the volume's annotations"
_WORDS: Final = frozenset(map(str, HealthState))
_FINDINGS: Final = UNHEALTHY | {HealthState.HEALTHY}


@dataclass(frozen=True, slots=True)
class PublishedHealth:
    """State, the driver's reason, since when (None if the volume does not say, or not readably), and who found it."""

    state: HealthState
    reason: str
    since: datetime | None
    source: str = ""


def published_health(volume: Volume, annotations: Annotations) -> PublishedHealth | None:
    """Read what the volume says; None if it says nothing, or a word that is no state."""
    word = value_of(volume.annotations, annotations.health)
    if word is None or word not in _WORDS:
        return None
    reason = value_of(volume.annotations, annotations.health_reason) or ""
    since = parse_time(value_of(volume.annotations, annotations.health_since))
    return PublishedHealth(
        HealthState(word), reason, since, value_of(volume.annotations, annotations.health_source) or ""
    )


def published_finding(volume: Volume, annotations: Annotations, now: datetime) -> Finding | None:
    """Return what the volume says as a finding; of `now` if it does not say since when, None if it says nothing.

    A word that is no finding, such as Unknown, says nothing.
    """
    published = published_health(volume, annotations)
    if published is None or published.state not in _FINDINGS:
        return None
    source = f"{published.source}, as published on the volume" if published.source else _UNNAMED
    return Finding(published.state, published.reason, "", source, published.since or now)


def unpublished(volume: Volume, finding: Finding | None, annotations: Annotations) -> Finding | None:
    """Return the finding that the volume does not say yet; None when there is nothing new to say.

    Only the state counts: a process that starts anew knows other words and times for what was said already.
    """
    if finding is None:
        return None
    published = published_health(volume, annotations)
    before = published.state if published is not None else HealthState.HEALTHY
    return None if finding.state is before else finding


def health_annotations(finding: Finding, annotations: Annotations) -> dict[str, str | None]:
    """Return the annotations that say it."""
    return {
        annotations.health: str(finding.state),
        annotations.health_reason: finding.reason,
        annotations.health_since: format_time(finding.since),
        annotations.health_source: finding.source,
    }
