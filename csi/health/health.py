"""How the health of a volume develops from observations, one at a time.

Rules, most of them from KEP-1432 (Volume Health Monitor): a failed call is neither a recovery nor a fault; absence from
a list means nothing until a get, or a second complete list, confirms it; contradicting results change a finding only
after enough of them in a row (debounce).
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from csi.health.verdict import UNHEALTHY, HealthState, Verdict, severity

UNCONFIRMED: Final = "Unconfirmed"
NOT_LISTED: Final = "NotListed"
_SAYS_NOTHING: Final = frozenset({HealthState.UNKNOWN, HealthState.UNSUPPORTED})


@dataclass(frozen=True, slots=True)
class Debounce:
    """How many results in a row it takes to change a finding: to a worse one, to a better one, and by absence."""

    worse: int = 1
    better: int = 1
    absences: int = 2


@dataclass(frozen=True, slots=True)
class Absence:
    """A complete list omitted the volume, which means `implied` if the next complete one does so too."""

    implied: Verdict


Observation = Verdict | Absence


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """A state, its reason and source, and since when it has lasted."""

    state: HealthState
    reason: str
    message: str
    source: str
    since: datetime

    @property
    def unhealthy(self) -> bool:
        return self.state in UNHEALTHY


@dataclass(frozen=True, slots=True)
class HealthRecord:
    """Everything known about a volume.

    `finding` is the last one confirmed by results: Healthy or one of the unhealthy states, None before the first.
    `silence` is why nothing is known now: Unknown or Unsupported, with the time it began; None while results arrive.
    `last` is the last result of a call about this very volume, and `checked_at` when anything was last learned.
    `streak` counts results in a row that contradict the finding, positive if they are worse; `absences` counts lists.
    """

    finding: HealthFinding | None
    silence: HealthFinding | None
    last: Verdict
    checked_at: datetime
    streak: int = 0
    absences: int = 0

    @property
    def current(self) -> HealthFinding:
        """What to show: the finding, or why there is none."""
        current = self.silence or self.finding
        assert current is not None, "a record says something or why it does not"
        return current

    @property
    def state(self) -> HealthState:
        return self.current.state

    @property
    def unhealthy(self) -> bool:
        """Whether the last confirmed finding is unhealthy, even if the driver has not responded since."""
        return self.finding is not None and self.finding.unhealthy


def advance(record: HealthRecord | None, observation: Observation, debounce: Debounce) -> HealthRecord:
    """Return the record after another observation; `record` is None for a volume that was not probed before."""
    match observation:
        case Absence():
            return _absent(record, observation.implied, debounce)
        case Verdict() if observation.state in _SAYS_NOTHING:
            return _silent(record, observation)
        case Verdict():
            return _answered(record, observation, debounce)


def reliable_verdict(record: HealthRecord) -> Verdict:
    """Return the last result; or the unhealthy finding, until enough good results end it."""
    finding, last = record.finding, record.last
    if finding is None or not finding.unhealthy or severity(last.state) >= severity(finding.state):
        return last
    now = f"{last.state} ({last.reason})"
    message = f"{finding.message}; since {finding.since:%Y-%m-%dT%H:%M:%SZ}, now {now}, recovery not confirmed yet"
    return replace(last, state=finding.state, reason=finding.reason, message=message, source=finding.source)


def is_transition(old: HealthRecord | None, new: HealthRecord) -> bool:
    """Whether a state changed: the one that is shown, or the finding behind a silence."""
    if old is None:
        return True
    before, after = old.finding, new.finding
    return old.state != new.state or (before and before.state) != (after and after.state)


def _answered(record: HealthRecord | None, verdict: Verdict, debounce: Debounce) -> HealthRecord:
    settled = record.finding if record is not None else None
    # Nothing is known of a new volume, so a single result is enough to call it healthy.
    before = severity(settled.state) if settled is not None else severity(HealthState.HEALTHY)
    difference = severity(verdict.state) - before
    if difference == 0:
        since = settled.since if settled is not None else verdict.observed_at
        return HealthRecord(_finding(verdict, since), None, verdict, verdict.observed_at)
    streak = _longer(record.streak if record is not None else 0, 1 if difference > 0 else -1)
    if abs(streak) >= (debounce.worse if difference > 0 else debounce.better):
        return HealthRecord(_finding(verdict, verdict.observed_at), None, verdict, verdict.observed_at)
    if settled is not None:
        return HealthRecord(settled, None, verdict, verdict.observed_at, streak)
    text = f"{streak} of {debounce.worse} answers needed: {verdict.state} ({verdict.reason}) {verdict.message}"
    unsure = HealthFinding(HealthState.UNKNOWN, UNCONFIRMED, text.rstrip(), verdict.source, verdict.observed_at)
    if record is not None and record.silence is not None:
        unsure = replace(unsure, since=record.silence.since)
    return HealthRecord(None, unsure, verdict, verdict.observed_at, streak)


def _silent(record: HealthRecord | None, verdict: Verdict) -> HealthRecord:
    silence = _finding(verdict, verdict.observed_at)
    if record is None:
        return HealthRecord(None, silence, verdict, verdict.observed_at)
    if record.silence is not None and record.silence.state is silence.state:
        silence = replace(silence, since=record.silence.since)
    return replace(record, silence=silence, last=verdict, checked_at=verdict.observed_at)


def _absent(record: HealthRecord | None, implied: Verdict, debounce: Debounce) -> HealthRecord:
    """Count the absence. `last` stays: a list that omits a volume is not a result about this volume."""
    at = implied.observed_at
    if record is None:
        message = "omitted from one list, not confirmed yet"
        unsure = Verdict(HealthState.UNKNOWN, NOT_LISTED, message, implied.source, at)
        return HealthRecord(None, _finding(unsure, at), unsure, at, absences=1)
    absences = record.absences + 1
    if absences < debounce.absences:
        return replace(record, absences=absences, checked_at=at)
    return replace(_answered(record, implied, debounce), last=record.last, absences=absences)


def _finding(verdict: Verdict, since: datetime) -> HealthFinding:
    return HealthFinding(verdict.state, verdict.reason, verdict.message, verdict.source, since)


def _longer(streak: int, step: int) -> int:
    return streak + step if streak * step > 0 else step
