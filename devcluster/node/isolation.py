"""Starts process 1 of a real node in namespaces of its own, and finds out whether this machine allows that."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from devcluster.errors import ClusterError
from devcluster.node import files
from devcluster.processes.reaper import cgroup_of
from devcluster.processes.state import State, new_directory

_UNSHARE: Final = (
    *("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
    "--propagation=private",
)


def command(action: str, plan: Path) -> list[str | Path]:
    """Return the command of process 1: see `inside` for its actions."""
    return [*_UNSHARE, sys.executable, "-I", "-S", Path(__file__).with_name("inside.py"), action, plan]


def require() -> None:
    """Raise ClusterError with one line if the system rejects what a node arranges, as it often does in a container.

    It is tried out, without any program of the node.
    """
    state = State(new_directory())
    directory = state.directory / "node"
    try:
        directory.mkdir()
        plan = directory / "plan.json"
        plan.write_text(json.dumps(files.arrangement(directory, cgroup_of(state.directory))), encoding="utf-8")
        result = subprocess.run(command("rehearse", plan), capture_output=True, text=True, check=False)
    finally:
        state.release()
    if result.returncode != 0:
        reason = " ".join(result.stderr.split())
        raise ClusterError(f"this machine does not let root isolate a node: {reason}")
