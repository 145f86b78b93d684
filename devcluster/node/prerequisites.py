"""What a real node and its images need from the machine."""

import os
import shutil
import sys
from collections.abc import Callable

from devcluster.errors import ClusterError

PROGRAMS = {"unshare": "util-linux", "mount": "mount", "runc": "runc"}
"""The programs that the node needs from the machine, each with its Debian package."""

IMAGE_PROGRAMS = {"buildah": "buildah"}
BASE_PROGRAMS = {"mmdebstrap": "mmdebstrap"}


def require(
    programs: dict[str, str],
    platform: str = sys.platform,
    user: int | None = None,
    which: Callable[[str], str | None] = shutil.which,
) -> None:
    """Raise ClusterError with one line that names all that is missing."""
    if platform != "linux":
        raise ClusterError(f"this needs Linux; this is {platform}")
    if (os.geteuid() if user is None else user) != 0:
        raise ClusterError("this needs root: it mounts file systems and makes namespaces")
    missing = {name: package for name, package in programs.items() if which(name) is None}
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        raise ClusterError(f"this needs {', '.join(missing)} on PATH; on Debian: apt-get install {packages}")
