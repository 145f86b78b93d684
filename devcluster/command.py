"""The command `pvc-prebinder devcluster`: a control plane to try things on, from `up` until `down`."""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from devcluster import build
from devcluster.errors import ClusterError
from devcluster.keeper import READY
from devcluster.progress import Progress
from devcluster.state import is_owned, owner_pid, remove_if_abandoned

_STOP_SECONDS = 30.0
_DEFAULT_NODES = 6

_UP_HELP = """\
Starts etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok on free loopback ports, in the background.
The first start builds them from source, which takes some minutes; later ones take seconds. About 550 MB of memory.
"""


def up(directory: Path, nodes: int) -> None:
    """Start a cluster that lives until `down`; ClusterError if there is one already or it does not start."""
    if is_owned(directory):
        raise ClusterError(
            f"a cluster is running in {directory} already; `{command('env', directory)}` says how to use it"
        )
    build.ensure([build.CONTROL_PLANE, build.KWOK] if nodes else [build.CONTROL_PLANE])
    progress = Progress(f"starting a control plane in {directory}")
    keeper = subprocess.Popen(
        [sys.executable, "-m", "devcluster.keeper", str(directory), str(nodes)],
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
            raise ClusterError(f"{directory} is still there {_STOP_SECONDS:.0f} s after process {owner} was ended")
        time.sleep(0.05)


def env(directory: Path) -> str:
    """Return shell lines that make kubectl talk to the cluster in this directory; ClusterError if there is none."""
    if not is_owned(directory):
        raise ClusterError(f"no cluster in {directory}; start one with `{command('up', directory)}`")
    kubeconfig = shlex.quote(str(directory / "admin.kubeconfig"))
    return f"export KUBECONFIG={kubeconfig}\nexport PATH={shlex.quote(str(directory / 'bin'))}:$PATH\n"


def command(action: str, directory: Path) -> str:
    """Return what a person types to do that with the cluster in this directory."""
    named = "" if directory == default_directory() else f" --directory {shlex.quote(str(directory))}"
    return f"pvc-prebinder devcluster {action}{named}"


def default_directory() -> Path:
    """Return where `up` puts a cluster unless told otherwise: below XDG_STATE_HOME, or ~/.local/state."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "pvc-prebinder" / "devcluster"


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command `devcluster` and what is below it."""
    parser = subparsers.add_parser(
        "devcluster",
        usage="%(prog)s up|down|env [flags]",
        description="Runs a real Kubernetes control plane on this machine, with nodes and pods played by kwok.",
        epilog='examples:\n  pvc-prebinder devcluster up\n  eval "$(pvc-prebinder devcluster env)"\n'
        "  kubectl get nodes\n  pvc-prebinder devcluster down\n\nexit codes:\n  0 fine   1 error   2 usage",
    )
    actions = parser.add_subparsers(metavar="up|down|env", required=True, prog="pvc-prebinder devcluster")
    starting = _add(actions, "up", "start a cluster", _UP_HELP, _run_up)
    starting.add_argument(
        "--nodes",
        type=_count,
        default=_DEFAULT_NODES,
        metavar="N",
        help="nodes, dealt out to three zones; 0 starts no kwok (default %(default)s)",
    )
    _add(actions, "down", "stop it", "Stops the cluster and removes all its data.", _run_down)
    _add(actions, "env", "say how to reach it", "Prints the shell lines that kubectl needs.", _run_env)


def _add(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    summary: str,
    description: str,
    run: Callable[[argparse.Namespace], None],
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=summary, description=description)
    parser.add_argument(
        "--directory",
        type=lambda text: Path(text).absolute(),
        default=default_directory(),
        metavar="DIR",
        help="holds all of the cluster (default %(default)s)",
    )
    parser.set_defaults(run=lambda arguments: _exit_code(run, arguments))
    return parser


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f'"{text}" is not a number of nodes')
    return int(text)


def _exit_code(run: Callable[[argparse.Namespace], None], arguments: argparse.Namespace) -> int:
    try:
        run(arguments)
    except ClusterError as error:
        sys.stderr.write(f"pvc-prebinder: {error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"pvc-prebinder: {error.filename}: {error.strerror}\n")
        return 1
    return 0


def _run_up(arguments: argparse.Namespace) -> None:
    directory = arguments.directory
    up(directory, arguments.nodes)
    sys.stdout.write(
        f"{env(directory)}\n"
        f'Run the lines above (or: eval "$({command("env", directory)})"), then look around:\n'
        "  kubectl get nodes -L topology.kubernetes.io/zone\n"
        "  pvc-prebinder controller --dry-run\n"
        f"Logs are in {directory}. It runs until `{command('down', directory)}`.\n"
    )


def _run_down(arguments: argparse.Namespace) -> None:
    down(arguments.directory)


def _run_env(arguments: argparse.Namespace) -> None:
    sys.stdout.write(env(arguments.directory))
