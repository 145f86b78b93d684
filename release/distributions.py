"""The wheel and the source distribution, and the chart."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from release.errors import ReleaseError
from release.source import Source


def distributions(source: Source, directory: Path) -> list[Path]:
    """Build the wheel and the source distribution. The same commit makes the same files."""
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(source.time)}
    before = set(directory.iterdir())
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(directory)]
    _run(command, source.directory, "the distributions", environment)
    return sorted(set(directory.iterdir()) - before)


def chart(source: Source, helm: Path, directory: Path) -> Path:
    """Package the chart with Helm."""
    before = set(directory.iterdir())
    command = [str(helm), "package", str(source.directory / "manifests" / "chart"), "--destination", str(directory)]
    _run(command, source.directory, "the chart")
    (made,) = set(directory.iterdir()) - before
    return made


def _run(command: Sequence[str], directory: Path, what: str, environment: dict[str, str] | None = None) -> None:
    ended = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, env=environment)
    if ended.returncode != 0:
        raise ReleaseError(f"{what}: {ended.stdout}{ended.stderr}".strip())
