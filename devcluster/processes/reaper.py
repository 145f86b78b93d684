"""Ends a cluster's processes when its owner has ended in any way, and removes what they leave.

Runs as a process of its own, with nothing but the standard library. It leads a process group that the owner puts every
component into, and reads a pipe whose other end only the owner holds. End of file means that the owner closed the pipe
(an orderly stop) or no longer exists (a crash, kill -9): either way the group is killed and the cluster's directory
removed. A death signal bound to the parent (PR_SET_PDEATHSIG) would not do: it is Linux only and fires when the
parent's *thread* ends.
"""

import hashlib
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
_CGROUPS = Path("/sys/fs/cgroup")


def main(directory: Path, owner: int) -> None:
    """Wait for the owner's end, then kill this process group (with this process in it) and remove the directory."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    _wait_for_end(owner)
    group = os.getpgrp()
    if os.fork() == 0:
        os.setpgid(0, 0)
        os.killpg(group, signal.SIGKILL)
        remove(directory)
        os._exit(0)
    signal.pause()


def _wait_for_end(owner: int) -> None:
    while os.getppid() == owner:
        readable, _, _ = select.select([0], [], [], _PARENT_CHECK_SECONDS)
        if readable and not os.read(0, 1):
            return


def remove(directory: Path) -> None:
    """Remove the directory and the cgroups of its pods.

    Killed processes are in them, and may write, for another moment, so it retries for a while.
    """
    deadline = time.monotonic() + _REMOVAL_SECONDS
    while (directory.exists() or _cgroups(directory)) and time.monotonic() < deadline:
        for cgroup in _cgroups(directory):
            _remove_cgroup(cgroup)
        shutil.rmtree(directory, ignore_errors=True)
        time.sleep(0.01)


def cgroup_of(directory: Path) -> str:
    """Return the name of the cgroup that all pods of a real node of this cluster are in."""
    return f"pvc-prebinder-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]}"


def _cgroups(directory: Path) -> list[Path]:
    """Return that cgroup where it exists: once in version 2, once for each controller in version 1."""
    name = cgroup_of(directory)
    return [path for path in (_CGROUPS / name, *_CGROUPS.glob(f"*/{name}")) if path.is_dir()]


def _remove_cgroup(cgroup: Path) -> None:
    """Remove a cgroup with those in it. Its files cannot be removed and go with it; one in use stays."""
    for parent, _, _ in os.walk(cgroup, topdown=False):
        try:
            os.rmdir(parent)
        except OSError:
            continue


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
