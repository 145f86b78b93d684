"""What a process has used so far, by /proc."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_USER, _SYSTEM = 11, 12
"""Places of utime and stime among the fields after the command's name: proc(5)."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Seconds of processor time; megabytes of memory now, and at the peak."""

    processor: float
    memory: float
    peak: float


def usage(pid: int) -> Usage:
    """Return what the process has used since it began."""
    process = Path("/proc") / str(pid)
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    return Usage(
        (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS,
        _megabytes(status["VmRSS"]),
        _megabytes(status["VmHWM"]),
    )


def _megabytes(text: str) -> float:
    return int(text.split(maxsplit=1)[0]) * 1024 / 1e6
