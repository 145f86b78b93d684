"""What an answer of a driver means, as a verdict. Only a well-formed answer makes a volume healthy or sick.

A call that failed says nothing about the volume: it is Unknown, never healthy, never sick, never a recovery. The one
exception is NOT_FOUND from a call that names the volume: the driver answered, and the volume is not there.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from csi.capabilities import HealthProtocol, Negotiation
from csi.proto import csi_v1_pb2 as csi
from csi.topology import segments
from csi.verdict import HealthState, Segment, Verdict

MALFORMED: Final = "MalformedAnswer"
NOT_FOUND: Final = "VolumeNotFound"
LONGEST_MESSAGE: Final = 1024
"""Characters kept of a driver's message: as many as KEP-1432 allows in `healthConditions[].message`."""

_SAYS_NOT_FOUND: Final = re.compile(r"not ?found|does(n't| not) exist|no longer exists", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Witness:
    """Who speaks and when: what every verdict of one probe has in common."""

    source: str
    at: datetime

    def says(
        self, state: HealthState, reason: str, message: str, topology: tuple[Segment, ...] | None = None
    ) -> Verdict:
        return Verdict(state, reason, printable(message), self.source, self.at, topology)


def unsupported(witness: Witness, negotiation: Negotiation) -> Verdict:
    """Return the verdict for volumes of a driver with which no protocol was agreed."""
    if negotiation.offered:
        offered = ", ".join(negotiation.offered)
        return witness.says(HealthState.UNSUPPORTED, "ProtocolNotSpoken", f"the driver offers only {offered}")
    return witness.says(
        HealthState.UNSUPPORTED, "NoHealthCapability", "the driver offers no call that tells a volume's health"
    )


def failed_call(witness: Witness, code: str, details: str) -> Verdict:
    """Return the verdict when a call that does not name the volume failed."""
    return witness.says(HealthState.UNKNOWN, code, details)


def failed_get(witness: Witness, code: str, details: str) -> Verdict:
    """Return the verdict when ControllerGetVolume failed."""
    if code == "NotFound":
        message = f"the driver does not know the volume: {details}"
        return witness.says(HealthState.INACCESSIBLE, NOT_FOUND, message)
    return failed_call(witness, code, details)


def volume(witness: Witness, negotiation: Negotiation, handle: str, answer: csi.ControllerGetVolumeResponse) -> Verdict:
    """Return the verdict that an answer to ControllerGetVolume gives about the volume `handle`."""
    if answer.volume.volume_id != handle:
        message = f"the driver answered about volume {answer.volume.volume_id!r} instead of {handle!r}"
        return witness.says(HealthState.UNKNOWN, MALFORMED, message)
    # Without the capability an empty list is not "everywhere", it is "did not say".
    topology = segments(answer.volume.accessible_topology) if negotiation.topology else None
    reported = answer.status.HasField("volume_condition")
    condition = answer.status.volume_condition
    if reported and condition.abnormal:
        return _abnormal(witness, condition.message, topology)
    if negotiation.protocol is HealthProtocol.EXISTENCE:
        return witness.says(
            HealthState.HEALTHY, "VolumeExists", "the driver knows the volume and reports no condition", topology
        )
    if not reported:
        message = "the driver announces VOLUME_CONDITION and left the condition out of its answer"
        return witness.says(HealthState.UNKNOWN, MALFORMED, message, topology)
    return witness.says(HealthState.HEALTHY, "VolumeConditionNormal", condition.message, topology)


def _abnormal(witness: Witness, message: str, topology: tuple[Segment, ...] | None) -> Verdict:
    """Abnormal says only "not operating optimally", so Degraded, unless the message says the volume is gone."""
    # csi-driver-host-path answers OK for a volume it does not have: pkg/hostpath/controllerserver.go.
    if _SAYS_NOT_FOUND.search(message[:LONGEST_MESSAGE]):
        return witness.says(HealthState.INACCESSIBLE, NOT_FOUND, message, topology)
    return witness.says(HealthState.DEGRADED, "VolumeConditionAbnormal", message, topology)


def printable(message: str) -> str:
    """Return a driver's message as one line of bounded length: it goes into Events, tables and logs."""
    line = " ".join(message[: 2 * LONGEST_MESSAGE].split())
    if not line.isprintable():
        line = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in line)
    return line if len(line) <= LONGEST_MESSAGE else line[: LONGEST_MESSAGE - 1] + "…"
