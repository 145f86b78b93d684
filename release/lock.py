"""Reads image/runtime.lock: the packages that the image and the plugin's archives contain, and nothing else."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LOCK: Final = Path("image") / "runtime.lock"
_REQUIREMENT: Final = re.compile(
    r"^(?P<name>[a-z0-9][a-z0-9.-]*)==(?P<version>[^ \\;]+)(?: *; *(?P<marker>[^\\]+))?", re.I
)
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Pin:
    """One package: the hashes of every file of that version that may be installed, and in which environments it is."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]

    @property
    def purl(self) -> str:
        """Return the package URL (github.com/package-url/purl-spec, type pypi)."""
        return f"pkg:pypi/{self.name}@{self.version}"


def pins(text: str) -> Iterator[Pin]:
    """Yield the packages of a file of requirements that uv has pinned."""
    for block in re.split(r"\n(?=\S)", text):
        found = _REQUIREMENT.match(block)
        if found:
            marker = (found["marker"] or "").strip()
            yield Pin(found["name"], found["version"], marker, tuple(_HASH.findall(block)))
