"""The verdict that a driver's response implies. Only a well-formed response makes a volume healthy or unhealthy.

A failed call implies nothing about the volume: its health is Unknown, never healthy, never unhealthy, never a recovery.
The one exception is NOT_FOUND from a call that names the volume: the driver responded, and the volume does not exist.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from csi.health.capabilities import HealthProtocol, Negotiation
from csi.health.report_source import (
    MALFORMED,
    MAX_MESSAGE_CHARACTERS,
    MAX_REASON_CHARACTERS,
    NO_CAPABILITY,
    NO_CAPABILITY_MESSAGE,
    NOT_FOUND,
    ReportSource,
    printable,
)
from csi.health.topology import segments
from csi.health.verdict import HealthState, Segment, Verdict, severity
from csi.proto import csi_v1_pb2 as csi

_SAYS_NOT_FOUND: Final = re.compile(
    r"not ?found|does(n't| not) exist|no longer exists|no such (volume|file)|\bis gone\b", re.IGNORECASE
)
_STATE: Final[Mapping[int, HealthState]] = {
    csi.DEGRADED: HealthState.DEGRADED,
    csi.INACCESSIBLE: HealthState.INACCESSIBLE,
    csi.DATA_LOSS: HealthState.DATA_LOSS,
}
_MAX_ENTRIES: Final = 16
"""Entries of a volume that are included in a message: as many as KEP-1432 allows in `healthConditions`."""


def unsupported(source: ReportSource) -> Verdict:
    """Return the verdict for volumes of a driver with which no protocol could be negotiated."""
    return source.verdict(HealthState.UNSUPPORTED, NO_CAPABILITY, NO_CAPABILITY_MESSAGE)


def failed_call(source: ReportSource, code: str, details: str) -> Verdict:
    """Return the verdict after a failed call that does not name the volume."""
    return source.verdict(HealthState.UNKNOWN, code, details)


def failed_get(source: ReportSource, code: str, details: str) -> Verdict:
    """Return the verdict after a failed call that names the volume."""
    if code == "NotFound":
        message = f"the driver does not know the volume: {details}"
        return source.verdict(HealthState.INACCESSIBLE, NOT_FOUND, message)
    return failed_call(source, code, details)


def volume(
    source: ReportSource,
    negotiation: Negotiation,
    handle: str,
    answer: csi.ControllerGetVolumeResponse | csi.ListVolumesResponse.Entry,
) -> Verdict:
    """Return the verdict on `handle` by a response to ControllerGetVolume, or an entry of ListVolumes."""
    if answer.volume.volume_id != handle:
        return another_volume(source, answer.volume.volume_id, handle)
    # Without the capability an empty list does not mean "everywhere", but "not reported".
    topology = segments(each.segments for each in answer.volume.accessible_topology) if negotiation.topology else None
    reported = answer.status.HasField("volume_condition")
    condition = answer.status.volume_condition
    if reported and condition.abnormal:
        return _abnormal(source, condition.message, topology)
    if negotiation.protocol is HealthProtocol.EXISTENCE:
        return source.verdict(
            HealthState.HEALTHY, "VolumeExists", "the driver knows the volume and reports no condition", topology
        )
    if not reported:
        message = "the driver announces VOLUME_CONDITION but its response has no condition"
        return source.verdict(HealthState.UNKNOWN, MALFORMED, message, topology)
    return source.verdict(HealthState.HEALTHY, "VolumeConditionNormal", condition.message, topology)


def health(source: ReportSource, handle: str, answer: csi.VolumeHealth) -> Verdict:
    """Return the verdict on `handle` by the health calls of CSI 1.13: the worst of its entries.

    Without entries the volume is healthy. Statuses that this version does not know are included in the message and
    never acted on: if there are no others the state is Unknown, which is neither unhealthy nor a recovery.
    """
    if answer.volume_id != handle:
        return another_volume(source, answer.volume_id, handle)
    if not answer.health_statuses:
        return source.verdict(HealthState.HEALTHY, "NoHealthProblem", "the driver reports no problem with the volume")
    worst = max(answer.health_statuses, key=lambda entry: severity(_STATE.get(entry.status, HealthState.UNKNOWN)))
    account = dict.fromkeys(_described(entry) for entry in answer.health_statuses[:_MAX_ENTRIES])
    account = {_described(worst): None} | account
    message = worst.message if len(account) == 1 and worst.status in _STATE else "; also ".join(account)
    if worst.status not in _STATE:
        return source.verdict(HealthState.UNKNOWN, "UnknownHealthStatus", message)
    state = _STATE[worst.status]
    return source.verdict(state, printable(worst.reason, MAX_REASON_CHARACTERS) or str(state), message)


def another_volume(source: ReportSource, returned: str, handle: str) -> Verdict:
    """Return the verdict after a response about another volume."""
    message = f"the driver returned volume {returned[:MAX_REASON_CHARACTERS]!r} instead of {handle!r}"
    return source.verdict(HealthState.UNKNOWN, MALFORMED, message)


def worst_of(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of several verdicts on one volume, the first among equals."""
    return max(verdicts, key=lambda verdict: severity(verdict.state))


def placed(verdict: Verdict, where: Verdict) -> Verdict:
    """Return a verdict of the health calls combined with the response of ControllerGetVolume about the same volume.

    The second call is made for the topology. Its health counts only if it is worse, as when the volume does not exist;
    its failure is ignored.
    """
    if where.unhealthy and severity(where.state) > severity(verdict.state):
        return where
    return replace(verdict, topology=where.topology)


def _described(entry: csi.VolumeHealth.VolumeHealthEntry) -> str:
    state = _STATE.get(entry.status)
    status = str(state) if state is not None else f"status {entry.status}, unknown to this version,"
    reason = f" ({entry.reason[:MAX_REASON_CHARACTERS]})" if entry.reason else ""
    return f"{status}{reason} {entry.message[:MAX_MESSAGE_CHARACTERS]}".rstrip()


def _abnormal(source: ReportSource, message: str, topology: tuple[Segment, ...] | None) -> Verdict:
    """Abnormal means only "not operating optimally", so Degraded, unless the message states that the volume is gone."""
    # csi-driver-host-path responds with OK for a volume it does not have: pkg/hostpath/controllerserver.go.
    if _SAYS_NOT_FOUND.search(message[:MAX_MESSAGE_CHARACTERS]):
        return source.verdict(HealthState.INACCESSIBLE, NOT_FOUND, message, topology)
    return source.verdict(HealthState.DEGRADED, "VolumeConditionAbnormal", message, topology)
