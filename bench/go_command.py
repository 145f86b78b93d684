"""Runs Go for a measurement: the toolchain of the development cluster, in a module of this folder."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from devcluster.build import toolchain
from devcluster.build.binaries import cache_directory


def run_go(arguments: Sequence[str], module: Path, variables: Mapping[str, str] | None = None) -> str:
    """Run `go` in the folder of a go.mod and return its output.

    Raises ClusterError when there is no Go, and subprocess.CalledProcessError when the command fails; what it has
    written to the standard error output is there already.
    """
    required = toolchain.required_version((module / "go.mod").read_text(encoding="utf-8"))
    go = toolchain.find(required, cache_directory(), _install)
    environment = toolchain.environment() | dict(variables or {})
    command = [str(go), *arguments]
    return subprocess.run(command, cwd=module, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def _install(command: list[str], what: str) -> None:
    sys.stderr.write(f"{what}\n")
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
