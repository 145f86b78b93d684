"""Ends a cluster's processes when its owner is gone, however it went.

Runs as a process of its own, with nothing but the standard library. It leads a process group that the owner puts
every component into, and reads a pipe whose other end only the owner holds. End of file means that the owner closed
the pipe (an orderly stop) or no longer exists (a crash, kill -9): either way the group is killed and the cluster's
directory removed. A death signal bound to the parent (PR_SET_PDEATHSIG) would not do: it is Linux only and fires when
the parent's *thread* ends.
"""

import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path

# How often to check that the owner still is our parent, in seconds: the pipe alone would stay open if the owner had
# forked a child that outlives it.
_PARENT_CHECK_SECONDS = 1.0
_REMOVAL_SECONDS = 60.0


def main(directory: Path, owner: int) -> None:
    """Wait for the owner's end, then kill this process group (with this process in it) and remove the directory."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    _wait_for_end(owner)
    group = os.getpgrp()
    if os.fork() == 0:
        os.setpgid(0, 0)
        os.killpg(group, signal.SIGKILL)
        _remove(directory)
        os._exit(0)
    signal.pause()


def _wait_for_end(owner: int) -> None:
    while os.getppid() == owner:
        readable, _, _ = select.select([0], [], [], _PARENT_CHECK_SECONDS)
        if readable and not os.read(0, 1):
            return


def _remove(directory: Path) -> None:
    """Remove the directory; killed processes may write to it for another moment, so try again for a while."""
    deadline = time.monotonic() + _REMOVAL_SECONDS
    while directory.exists() and time.monotonic() < deadline:
        shutil.rmtree(directory, ignore_errors=True)
        time.sleep(0.01)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
