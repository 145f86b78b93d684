"""A description of the machine a run was made on, without which its numbers mean little."""

import os
import platform
from pathlib import Path

import msgspec


class Machine(msgspec.Struct):
    """`load` is that of the minute before the run; above the number of cores other work was measured too."""

    processor: str
    cores: int
    memory_gb: float
    kernel: str
    python: str
    load: float


def this_machine() -> Machine:
    """Describe this machine as it is now."""
    return Machine(
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)),
        memory_gb=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        kernel=platform.release(),
        python=platform.python_version(),
        load=round(os.getloadavg()[0], 1),
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
