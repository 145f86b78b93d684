"""A probe as the source of a verdict: where it came from and when, our own reasons, and a driver's texts cut to size.

Apart from `csi.health.interpret` so that what knows of probes, but makes none, does not load protocol buffers.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from csi.health.verdict import HealthState, Segment, Verdict

BUSY: Final = "DriverBusy"
"""Nothing was sent, because other calls used all slots."""
MALFORMED: Final = "MalformedAnswer"
TOO_LARGE: Final = "AnswerTooLarge"
"""It exceeds a limit of the CSI specification, or of ours where that sets none: csi.client.size_limits."""
NOT_FOUND: Final = "VolumeNotFound"
NO_CAPABILITY: Final = "NoHealthCapability"
NO_CAPABILITY_MESSAGE: Final = "the driver offers no call that reports volume health"
MAX_MESSAGE_CHARACTERS: Final = 1024
"""Characters kept of a driver's message: as many as KEP-1432 allows in `healthConditions[].message`."""

MAX_REASON_CHARACTERS: Final = 256
"""Characters kept of a driver's reason: as many as KEP-1432 allows in `healthConditions[].reason`."""


@dataclass(frozen=True, slots=True)
class ReportSource:
    """Source and time: what every verdict of a probe has in common."""

    source: str
    at: datetime

    def verdict(
        self, state: HealthState, reason: str, message: str, topology: tuple[Segment, ...] | None = None
    ) -> Verdict:
        return Verdict(state, reason, printable(message), self.source, self.at, topology)


def printable(message: str, longest: int = MAX_MESSAGE_CHARACTERS) -> str:
    """Return a driver's message as one line of bounded length: it is used in Events, tables and logs."""
    line = " ".join(message[: 2 * longest].split())
    if not line.isprintable():
        line = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in line)
    return line if len(line) <= longest else line[: longest - 1] + "…"
