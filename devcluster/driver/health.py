"""The health of a directory volume, by the state of its directory; independent of how that is reported.

Determined by mode bits and not by trying to write: root may write everywhere, and tests run as root.
"""

from dataclasses import dataclass
from enum import StrEnum

_READABLE = 0o444
_WRITABLE = 0o222


class VolumeFault(StrEnum):
    """What can be wrong with a directory."""

    GONE = "gone"
    UNREADABLE = "unreadable"
    READ_ONLY = "read-only"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """The observed state: permission bits, None if there is no directory, and the length of its files in bytes."""

    path: str
    mode: int | None
    used: int


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault, and its description."""

    fault: VolumeFault
    message: str


def diagnose(seen: DirectoryState, capacity: int) -> Finding | None:
    """Return the worst fault of a volume of `capacity` bytes, or None."""
    if seen.mode is None:
        return Finding(VolumeFault.GONE, f"directory {seen.path} is gone")
    if not seen.mode & _READABLE:
        return Finding(VolumeFault.UNREADABLE, f"directory {seen.path} cannot be read (mode {seen.mode:04o})")
    if not seen.mode & _WRITABLE:
        return Finding(VolumeFault.READ_ONLY, f"directory {seen.path} is read-only (mode {seen.mode:04o})")
    if seen.used >= capacity:
        return Finding(VolumeFault.FULL, f"directory {seen.path} is full: {seen.used} of {capacity} bytes")
    return None
