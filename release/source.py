"""The tree of one commit that a release is made from, with the names of the domain of who releases it."""

import re
import subprocess
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

from release.errors import ReleaseError

ROOT: Final = Path(__file__).parents[1]
PLACEHOLDERS: Final = {
    "pvc-prebinder.cloud.example": "pvc-prebinder.{domain}",
    "scheduler.cloud.example": "scheduler.{domain}",
    "config.pvc-prebinder": "config.{domain}",
}
"""What the repository has -> what a release with a domain has: the chart's address, the annotation prefix, the group of
the configuration files.
"""
_DOMAIN: Final = re.compile(r"(?=.{4,200}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")


@dataclass(frozen=True, slots=True)
class Source:
    """A tree of files: `revision` is its commit, `time` when that was made, in seconds since 1970, `origin` where the
    repository is.
    """

    directory: Path
    revision: str
    time: int
    origin: str
    domain: str | None


def source_of(directory: Path, *, domain: str | None, origin: str) -> Source:
    """Write the tree of HEAD to a directory that does not exist. Raises ReleaseError for changes that are not in it."""
    if domain is not None and not _DOMAIN.fullmatch(domain):
        raise ReleaseError(f"domain {domain!r}: expected a name such as example.com, in lower case")
    changed = _git("status", "--porcelain")
    if changed:
        raise ReleaseError(f"a release is made from a commit: commit or remove {changed.splitlines()[0][3:]} first")
    directory.mkdir()
    packed = subprocess.run(["git", "-C", ROOT, "archive", "HEAD"], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(directory, filter="data")
    if domain is not None:
        rename(directory, domain)
    return Source(directory, _git("rev-parse", "HEAD"), int(_git("log", "-1", "--format=%ct")), origin, domain)


def rename(directory: Path, domain: str) -> None:
    """Replace the placeholders in every text file below the directory."""
    for path in sorted(directory.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        renamed = text
        for placeholder, name in PLACEHOLDERS.items():
            renamed = renamed.replace(placeholder, name.format(domain=domain))
        if renamed != text:
            path.write_text(renamed, encoding="utf-8")


def _git(*arguments: str) -> str:
    answer = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise ReleaseError(f"git {arguments[0]}: {answer.stderr.strip()}")
    return answer.stdout.strip()
