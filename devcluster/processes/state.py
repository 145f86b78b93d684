"""The directory that holds all of one cluster, who owns it, and what a crash left behind.

A directory is owned by the process that holds the lock on its `owner.lock`; the system releases the lock when that
process ends in whatever way. The pid of everything started for the cluster is written to `pids`, with the time at which
the system started it: together they name one process only, also when the number is used again.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from devcluster.errors import ClusterError
from devcluster.processes.reaper import remove

_LOCK, _PIDS = "owner.lock", "pids"
_STOP_SECONDS = 15.0


class State:
    """An owned directory and the process group of everything that works on it; see `reaper` for how they end."""

    def __init__(self, directory: Path) -> None:
        """Take the directory, which must be missing, empty or abandoned; ClusterError has the reason if it is not."""
        self.directory = directory
        self._lock = _acquire(directory)
        os.write(self._lock, str(os.getpid()).encode())
        self._started: list[subprocess.Popen[bytes]] = []
        self._reaper = self._start_reaper()

    @property
    def group(self) -> int:
        """The process group to start every process of this cluster in."""
        return self._reaper.pid

    def record(self, process: subprocess.Popen[bytes]) -> None:
        """Record a process started for this cluster, so that it is found even if owner and reaper are both killed."""
        self._started.append(process)
        with (self.directory / _PIDS).open("a", encoding="ascii") as file:
            file.write(f"{process.pid} {_started_at(process.pid)}\n")

    def release(self) -> None:
        """Kill what still runs, remove the directory and release the lock."""
        assert self._reaper.stdin is not None
        assert self._reaper.stdout is not None
        self._reaper.stdin.close()
        # The reaper's last child holds the other end of this pipe until the directory is gone.
        self._reaper.stdout.read()
        self._reaper.stdout.close()
        # All of them are killed by now; without this they would stay zombies for as long as this process lives.
        for process in self._started:
            process.wait(_STOP_SECONDS)
        os.close(self._lock)

    def _start_reaper(self) -> subprocess.Popen[bytes]:
        script = Path(__file__).with_name("reaper.py")
        # Isolated mode (-I) and no site (-S): it starts in 20 ms and imports nothing but the standard library.
        reaper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script), str(self.directory), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,
        )
        self.record(reaper)
        return reaper


def default_parent() -> Path:
    """Return the parent of clusters without a directory of their own: one per user, so that leftovers are found."""
    return Path(tempfile.gettempdir()) / f"pvc-prebinder-{os.getuid()}"


def new_directory() -> Path:
    """Return a new directory under the default parent, after removing what crashed clusters left there."""
    parent = default_parent()
    parent.mkdir(mode=0o700, exist_ok=True)
    if parent.stat().st_uid != os.getuid():
        raise ClusterError(f"{parent} belongs to another user: set TMPDIR to a directory of your own")
    for directory in parent.iterdir():
        remove_if_abandoned(directory)
    return Path(tempfile.mkdtemp(prefix="", dir=parent))


def is_owned(directory: Path) -> bool:
    """Whether a live process owns the cluster in this directory."""
    if not _was_taken(directory):
        return False
    try:
        lock = _try_lock(directory)
    except FileNotFoundError:  # another process has just removed it
        return False
    if lock is None:
        return True
    os.close(lock)
    return False


def owner_pid(directory: Path) -> int | None:
    """Return the process that owns the cluster in this directory, or None if there is no cluster."""
    return int((directory / _LOCK).read_text(encoding="ascii")) if is_owned(directory) else None


def remove_if_abandoned(directory: Path) -> bool:
    """Kill what is left of a cluster whose owner is gone and remove its directory; False if there is none."""
    if not _was_taken(directory):
        return False
    try:
        lock = _try_lock(directory)
    except FileNotFoundError:  # another process has just removed it
        return False
    if lock is None:
        return False
    for pid in _recorded(directory):
        with suppress(ProcessLookupError):  # it ended by itself, or another process ended it
            os.kill(pid, signal.SIGKILL)
    remove(directory)
    os.close(lock)
    return True


def discard(directory: Path) -> None:
    """Remove the directory of a process that has ended, whether or not it became the owner of a cluster there."""
    if not remove_if_abandoned(directory) and not is_owned(directory):
        shutil.rmtree(directory, ignore_errors=True)


def _acquire(directory: Path) -> int:
    try:
        return _take(directory)
    except OSError as error:
        problem = f"{error.strerror}; choose another directory"
        raise ClusterError(f"cannot start a cluster in {directory}: {problem}") from error


def _take(directory: Path) -> int:
    remove_if_abandoned(directory)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = None
    if all(each.name == _LOCK for each in directory.iterdir()):
        lock = _try_lock(directory, os.O_CREAT)
    elif not (directory / _LOCK).exists():
        raise ClusterError(f"cannot start a cluster in {directory}: it holds something else; choose another directory")
    if lock is None:
        raise ClusterError(f"cannot start a cluster in {directory}: one is running there; stop it first")
    return lock


def _was_taken(directory: Path) -> bool:
    """Whether a process owns the directory or did: an owner writes its pid as soon as it has the lock.

    While the file is empty, to try the lock would keep that process from getting it.
    """
    try:
        return (directory / _LOCK).stat().st_size > 0
    except FileNotFoundError:
        return False


def _try_lock(directory: Path, create: int = 0) -> int | None:
    """Return the locked file's descriptor, or None if another process has the lock. Raises FileNotFoundError."""
    lock = os.open(directory / _LOCK, os.O_RDWR | create, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _recorded(directory: Path) -> Iterator[int]:
    """Yield the recorded processes that still exist. Without /proc there are none: only the reaper cleans up."""
    try:
        lines = (directory / _PIDS).read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return
    for pid, _, started_at in (line.partition(" ") for line in lines):
        if started_at and started_at == _started_at(int(pid)):
            yield int(pid)


def _started_at(pid: int) -> str:
    """Return when the process was started, in ticks since the system was, empty if it is gone or there is no /proc.

    Its arguments would not do to know it again: a process that is just being started does not have them yet.
    """
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The name, in parentheses, may contain anything. starttime is the 22nd field, see proc_pid_stat(5).
    return status.rpartition(")")[2].split()[19]
