"""Loads images into a running node: it cannot pull any."""

import subprocess
from pathlib import Path

from devcluster.errors import ClusterError


def socket_in(directory: Path) -> Path:
    """Return where containerd of the node in this directory listens."""
    return directory / "containerd.sock"


def client_in(directory: Path) -> Path:
    """Return containerd's command, linked into the node's directory."""
    return directory / "ctr"


def load(directory: Path, archive: Path) -> None:
    """Load the images of an archive (docker save, OCI) into the node; ClusterError says why that failed."""
    _images(directory, "import", str(archive))


def tag(directory: Path, name: str, other: str) -> None:
    """Give an image of the node another name as well; both in full, with registry and tag."""
    _images(directory, "tag", name, other)


def _images(directory: Path, action: str, *arguments: str) -> None:
    command = [str(client_in(directory)), "--address", str(socket_in(directory)), "--namespace", "k8s.io", "images"]
    result = subprocess.run([*command, action, *arguments], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ClusterError(f"cannot {action} {arguments[0]}: {result.stderr.strip() or result.stdout.strip()}")
