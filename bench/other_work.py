"""How much other work the machine does during a measurement."""

import os
from pathlib import Path
from time import monotonic
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_BUSY: Final = (0, 1, 2, 5, 6, 7)
"""user, nice, system, irq, softirq and steal, what a hypervisor gave to others, among the fields of a core: proc(5)."""


class OtherWork:
    """Counts from its creation on."""

    def __init__(self) -> None:
        self._began, self._before = monotonic(), _seconds()

    def cores(self) -> float:
        """Return how many cores were busy on average with anything but this process and those it started.

        These must have ended: their processor time is known to us from then on.
        """
        return max(0.0, _seconds() - self._before) / (monotonic() - self._began)


def _seconds() -> float:
    """Return the processor time spent on others since the machine started, on the cores that we may use."""
    ours = os.times()
    return busy_seconds(Path("/proc/stat").read_text(encoding="ascii"), os.sched_getaffinity(0)) - sum(ours[:4])


def busy_seconds(stat: str, cores: set[int]) -> float:
    """Return the processor time that the text of /proc/stat reports for these cores together."""
    by_name = {name: fields for name, *fields in map(str.split, stat.splitlines())}
    return sum(int(by_name[f"cpu{core}"][at]) for core in cores for at in _BUSY) / _TICKS
