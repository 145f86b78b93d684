"""What other sources than the driver's controller report about a volume, and how several sources combine.

Read from the claim that a volume is bound to: the native field of Kubernetes 1.37 (KEP-1432, `status.healthStatus`),
and the annotations of csi-addons' Volume Condition Reporter, one for each node. Such a report is valid until it is
changed, so it is a finding, not a single observation.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, Protocol

from csi.health.health import HealthFinding
from csi.health.report_source import MAX_REASON_CHARACTERS, printable
from csi.health.verdict import UNHEALTHY, HealthState, Verdict, severity
from kube.objects.model import Claim
from kube.objects.reports import ClaimHealth, StorageCondition

NATIVE: Final = "status.healthStatus of the claim"
STORAGE_UNREACHABLE: Final = "StorageUnreachable"

_UNHEALTHY: Final[Mapping[str, HealthState]] = {str(state): state for state in UNHEALTHY}
STORAGE_STATES: Final[Mapping[str, HealthState]] = {
    STORAGE_UNREACHABLE: HealthState.INACCESSIBLE,
    "StorageDegraded": HealthState.DEGRADED,
}
"""What the values of `storageHealth` mean for a volume that is accessible from nowhere else."""


class HealthReport(Protocol):
    """A verdict or a finding."""

    @property
    def state(self) -> HealthState: ...
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def source(self) -> str: ...


def claim_findings(claim: Claim, now: datetime) -> Iterator[HealthFinding]:
    """Yield every report about a claim's volume on the claim itself; reports without a time are dated `now`."""
    if claim.health is None:
        return
    native = native_finding(claim.health, now)
    if native is not None:
        yield native
    yield from addons_findings(claim.health, now)


def native_finding(health: ClaimHealth, now: datetime) -> HealthFinding | None:
    """Return the finding of healthConditions; None if there are none, or only unknown ones."""
    if health.conditions is None:
        return None
    since = health.since or now
    if not health.conditions:
        return HealthFinding(HealthState.HEALTHY, "NoHealthProblem", "", NATIVE, since)
    known = [condition for condition in health.conditions if condition.status in _UNHEALTHY]
    if not known:
        return None
    worst = max(known, key=lambda condition: severity(_UNHEALTHY[condition.status]))
    state = _UNHEALTHY[worst.status]
    reason = printable(worst.reason, MAX_REASON_CHARACTERS) or str(state)
    return HealthFinding(state, reason, printable(worst.message), NATIVE, since)


def addons_findings(health: ClaimHealth, now: datetime) -> Iterator[HealthFinding]:
    """Yield a finding for each node. "unhealthy" is what VolumeCondition calls abnormal: not operating optimally."""
    for report in health.nodes:
        source = f"csi-addons on {printable(report.node, MAX_REASON_CHARACTERS)}"
        state = HealthState.HEALTHY if report.healthy else HealthState.DEGRADED
        reason = "VolumeConditionNormal" if report.healthy else "VolumeConditionAbnormal"
        yield HealthFinding(state, reason, "", source, report.since or now)


def storage_finding(condition: StorageCondition, node: str, now: datetime) -> HealthFinding | None:
    """Return what a condition of a CSINode means for a volume accessible only from there; None for an unknown one."""
    state = STORAGE_STATES.get(condition.status)
    if state is None:
        return None
    reason = printable(condition.reason, MAX_REASON_CHARACTERS) or condition.status
    message = printable(condition.message)
    return HealthFinding(state, reason, message, f"status.storageHealth of CSINode {node}", condition.since or now)


def combined(verdict: Verdict, others: Iterable[HealthReport]) -> Verdict:
    """Return the worst of all, the driver's own `verdict` among equals; sources that differ are named in the message.

    The topology, which only the driver reports, and the time of the probe are kept.
    """
    reports: list[HealthReport] = [verdict, *others]
    worst, message = _worst(reports)
    return replace(verdict, state=worst.state, reason=worst.reason, message=message, source=worst.source)


def combined_finding(findings: Sequence[HealthFinding]) -> HealthFinding | None:
    """Return the worst, the first among equals, naming sources that differ; None if there is none."""
    if len(findings) < 2:
        return findings[0] if findings else None
    worst, message = _worst(findings)
    since = next(finding.since for finding in findings if finding is worst)
    return HealthFinding(worst.state, worst.reason, message, worst.source, since)


def _worst(reports: Sequence[HealthReport]) -> tuple[HealthReport, str]:
    worst = max(reports, key=lambda report: severity(report.state))
    # A source that cannot report contradicts no other.
    others = [report for report in reports if report.state not in (worst.state, HealthState.UNSUPPORTED)]
    contrary = [f"{report.source} reports {report.state} ({report.reason})" for report in others]
    return worst, printable("; but ".join(filter(None, [worst.message, *contrary])))
