"""How well a directory volume is, from what was seen of its directory; how that is reported is not known here.

Judged by mode bits and not by trying to write: root may write everywhere, and tests run as root.
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
    """What was seen: permission bits, None if there is no directory, and the bytes its files claim to hold."""

    path: str
    mode: int | None
    used: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, and the sentence that says so."""

    fault: VolumeFault
    message: str


def diagnose(seen: DirectoryState, capacity: int) -> Finding | None:
    """Return what is wrong with a volume of `capacity` bytes, the worst first, or None."""
    if seen.mode is None:
        return Finding(VolumeFault.GONE, f"directory {seen.path} is gone")
    if not seen.mode & _READABLE:
        return Finding(VolumeFault.UNREADABLE, f"directory {seen.path} cannot be read (mode {seen.mode:04o})")
    if not seen.mode & _WRITABLE:
        return Finding(VolumeFault.READ_ONLY, f"directory {seen.path} is read-only (mode {seen.mode:04o})")
    if seen.used >= capacity:
        return Finding(VolumeFault.FULL, f"directory {seen.path} is full: {seen.used} of {capacity} bytes")
    return None
