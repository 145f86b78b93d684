"""Whether processes that are not children of this one still exist, and waiting for what other processes do."""

import time
from collections.abc import Callable
from pathlib import Path

_SECONDS = 30.0


def is_alive(pid: int) -> bool:
    """Whether the process exists; one that ended and was not waited for yet (a zombie) does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def eventually(condition: Callable[[], bool]) -> bool:
    """Return True as soon as the condition holds, False if it does not within half a minute."""
    deadline = time.monotonic() + _SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
