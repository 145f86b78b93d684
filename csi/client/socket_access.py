"""Why this process cannot open a driver's unix socket, and what to set in the pod so that it can.

Connecting requires write permission on the socket and search permission on each directory above it: unix(7). Sidecars
usually run as root and never notice; without root the only message is gRPC's "Permission denied".
"""

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_WRITE: Final = 0o2
_SEARCH: Final = 0o1


@dataclass(frozen=True, slots=True)
class Owned:
    """A socket or a directory: its owner and permission bits. `needed` is the permission that is required, of 0o7."""

    what: str
    uid: int
    gid: int
    mode: int
    needed: int

    def __str__(self) -> str:
        return f"{self.what} has uid {self.uid}, gid {self.gid} and mode {self.mode:04o}"

    def opens_for(self, uid: int, groups: Iterable[int]) -> bool:
        """Whether the permission bits grant access to this user: only those of the first matching class count."""
        if uid == self.uid:
            return bool(self.mode >> 6 & self.needed)
        return bool(self.mode >> (3 if self.gid in groups else 0) & self.needed)


def access_trouble(path: str) -> str | None:
    """Describe who cannot open the socket, its permissions and what to set; None if that is not the reason."""
    # Root may bypass permission bits, unless its capabilities were dropped: only the kernel knows.
    if os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        return None
    uid, groups = os.geteuid(), (os.getegid(), *os.getgroups())
    for owned in _way_to(Path(path)):
        if not owned.opens_for(uid, groups):
            return f"{described(uid, groups)} is not permitted to open it: {owned}; {advice(owned, uid)}"
    return None


def described(uid: int, groups: Iterable[int]) -> str:
    return f"uid {uid} with groups {', '.join(map(str, sorted(set(groups))))}"


def advice(owned: Owned, uid: int) -> str:
    """Return what to set in the pod; pure."""
    if owned.gid and owned.mode >> 3 & owned.needed:
        return f"set fsGroup or supplementalGroups of the pod to {owned.gid}"
    bits = "g+w" if owned.needed == _WRITE else "g+x"
    if owned.uid not in {0, uid} and owned.mode >> 6 & owned.needed:
        return f"set runAsUser of the container to {owned.uid}"
    grant = f"have the driver grant {bits} to a group (umask 0007) and set fsGroup of the pod to that group"
    if owned.uid == 0 and uid != 0:
        return f"{grant}, or set runAsUser of the container to 0"
    return grant


def _way_to(socket: Path) -> Iterable[Owned]:
    """Yield the directories above the socket, outermost first, then the socket, as far as they are visible."""
    directories = [(directory, "the directory", _SEARCH) for directory in reversed(socket.parents)]
    for path, kind, needed in (*directories, (socket, "the socket", _WRITE)):
        try:
            status = path.stat()
        except OSError:
            return
        yield Owned(f"{kind} {path}", status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode), needed)
