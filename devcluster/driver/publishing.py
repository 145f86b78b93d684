"""The two ways in which the directory driver makes a volume appear at a path: a link, and a mount.

A link needs no privilege and suffices for csi-sanity and the controller. The kubelet needs a mount: it passes the path
to the container runtime, which sees the machine's file system and not the driver's.
"""

import os
import subprocess
from pathlib import Path
from typing import Final, Protocol

_MOUNTS: Final = Path("/proc/self/mountinfo")
_TARGET_FIELD: Final = 4


class Publisher(Protocol):
    """Makes directories appear at target paths, and reports whether they do."""

    def publish(self, directory: Path, target: Path, read_only: bool) -> str:
        """Publish, again if it is published already; return the problem, or an empty text."""

    def unpublish(self, directory: Path, target: Path) -> None:
        """Undo it, if the target was made by `publish`."""

    def is_published(self, directory: Path, target: Path) -> bool:
        """Whether the directory is published there."""


class Links:
    """Publishes by a symbolic link."""

    def publish(self, directory: Path, target: Path, read_only: bool) -> str:
        if read_only:
            return "a link cannot be made read-only"
        if not os.path.lexists(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(directory)
        return "" if self.is_published(directory, target) else f"{target} is something else"

    def unpublish(self, directory: Path, target: Path) -> None:
        if self.is_published(directory, target):
            target.unlink()

    def is_published(self, directory: Path, target: Path) -> bool:
        return target.is_symlink() and target.readlink() == directory


class Mounts:
    """Publishes by a bind mount, which needs root. The driver's pod needs `mountPropagation: Bidirectional`."""

    def publish(self, directory: Path, target: Path, read_only: bool) -> str:
        if not self.is_published(directory, target):
            target.mkdir(parents=True, exist_ok=True)
            if problem := _run("mount", "--bind", str(directory), str(target)):
                return problem
        # The kernel ignores "read-only" at the bind, and accepts it in a remount.
        return _run("mount", "-o", f"remount,bind,{'ro' if read_only else 'rw'}", str(target))

    def unpublish(self, directory: Path, target: Path) -> None:  # noqa: ARG002 - a volume that is gone is unmounted too
        while str(target) in _mount_points():
            if problem := _run("umount", str(target)):
                raise OSError(problem)
        if target.is_dir() and not target.is_symlink():
            target.rmdir()

    def is_published(self, directory: Path, target: Path) -> bool:  # noqa: ARG002 - the kernel knows it by the target
        return str(target) in _mount_points()


def _mount_points() -> set[str]:
    lines = _MOUNTS.read_bytes().splitlines()
    # The kernel writes blanks in octal.
    return {os.fsdecode(line.split()[_TARGET_FIELD].replace(rb"\040", b" ")) for line in lines}


def _run(*command: str) -> str:
    """Run a command; return its error output, or an empty text."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if result.returncode == 0 else result.stderr.strip() or f"{command[0]}: exit code {result.returncode}"
