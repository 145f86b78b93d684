"""A control plane to try things on, from `up` until `down`; `pvc-prebinder dev devcluster` runs these functions."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

from devcluster.build import binaries, image
from devcluster.cluster import modules
from devcluster.control_plane.components import Options
from devcluster.errors import ClusterError
from devcluster.keeper import READY, REAL
from devcluster.node import images, isolation, prerequisites
from devcluster.processes.state import is_owned, owner_pid, remove_if_abandoned
from devcluster.progress import Progress

_STOP_SECONDS = 30.0


def up(directory: Path, nodes: int, real_node: bool = False) -> None:
    """Start a cluster that lives until `down`; ClusterError if there is one already or it does not start.

    `nodes` is the number of nodes simulated by kwok; a real node replaces them.
    """
    if is_owned(directory):
        raise ClusterError(
            f"a cluster is already running in {directory}; `{command('env', directory)}` prints how to use it"
        )
    if real_node:
        prerequisites.require(prerequisites.PROGRAMS)
    options = Options(kwok=nodes > 0, real_node=real_node)
    binaries.ensure(modules(options))
    progress = Progress(f"starting a control plane{' and a node' if real_node else ''} in {directory}")
    keeper = subprocess.Popen(
        [sys.executable, "-m", "devcluster.keeper", str(directory), str(nodes), *([REAL] if real_node else [])],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Ctrl-C in the terminal is not for the cluster.
        start_new_session=True,
    )
    assert keeper.stdout is not None
    assert keeper.stderr is not None
    try:
        ready = keeper.stdout.read() == READY
    except BaseException:
        keeper.terminate()
        raise
    progress.done("done" if ready else "failed")
    if not ready:
        raise ClusterError(keeper.stderr.read().strip())


def check(base: str | None = None) -> None:
    """Raise ClusterError with one line if a real node, or an image for it on this base, is not possible here."""
    programs = prerequisites.PROGRAMS
    if base is not None:
        programs = programs | image.programs(base)
    prerequisites.require(programs)
    isolation.require()


def down(directory: Path) -> None:
    """Stop the cluster in this directory and remove the directory; ClusterError if there is none."""
    owner = owner_pid(directory)
    if owner is None:
        if not remove_if_abandoned(directory):
            raise ClusterError(f"no cluster in {directory}; `--directory` names another one")
        return
    os.kill(owner, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while directory.exists():
        if time.monotonic() > deadline:
            raise ClusterError(f"{directory} still exists {_STOP_SECONDS:.0f} s after process {owner} was ended")
        time.sleep(0.05)


def load(directory: Path, archive: Path) -> None:
    """Load the images of an archive into the real node of the cluster in this directory; ClusterError if it has
    none.
    """
    node = directory / "node"
    if not is_owned(directory) or not node.exists():
        start = command("up --node real", directory)
        raise ClusterError(f"no cluster with a real node in {directory}; start one with `{start}`")
    images.load(node, archive)


def env(directory: Path) -> str:
    """Return shell commands that point kubectl at the cluster in this directory; ClusterError if there is none."""
    if not is_owned(directory):
        raise ClusterError(f"no cluster in {directory}; start one with `{command('up', directory)}`")
    kubeconfig = shlex.quote(str(directory / "admin.kubeconfig"))
    return f"export KUBECONFIG={kubeconfig}\nexport PATH={shlex.quote(str(directory / 'bin'))}:$PATH\n"


def command(action: str, directory: Path) -> str:
    """Return the command line for that action on the cluster in this directory."""
    named = "" if directory == default_directory() else f" --directory {shlex.quote(str(directory))}"
    return f"pvc-prebinder dev devcluster {action}{named}"


def default_directory() -> Path:
    """Return where `up` creates a cluster by default: below XDG_STATE_HOME, or ~/.local/state."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "pvc-prebinder" / "devcluster"
