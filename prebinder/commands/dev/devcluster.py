"""`pvc-prebinder dev devcluster`: starts and stops a real control plane on this machine."""

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Final

import click
import cloup

from devcluster.command import check, default_directory, down, env, load, up
from devcluster.command import command as typed
from devcluster.errors import ClusterError
from prebinder.command_line.command import Command, Verbs
from prebinder.command_line.parameters import OneOf, whole_number
from prebinder.errors import CommandError, ExitCode

_MAX_NODES: Final = 10_000
_DEFAULT_NODES: Final = 6

EXAMPLES: Final = """
Examples:
  pvc-prebinder dev devcluster up
  eval "$(pvc-prebinder dev devcluster env)"
  kubectl get nodes
  pvc-prebinder dev devcluster down

Exit codes:
  0 success   1 error   2 usage   3 `check`: not possible on this machine
"""

command: Final = Verbs(
    name="devcluster",
    examples=EXAMPLES,
    help="Runs a real Kubernetes control plane on this machine; kwok simulates its nodes and pods.",
)


def _directory(function: Callable[..., None]) -> Callable[..., int]:
    """Add the flag --directory to an action, and report errors in one line."""

    @wraps(function)
    def run(directory: Path, **others: object) -> int:
        try:
            function(directory=directory.absolute(), **others)
        except ClusterError as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}") from error
        return ExitCode.FINE

    return cloup.option(
        "--directory",
        type=click.Path(path_type=Path),
        default=default_directory(),
        metavar="DIR",
        help=f"directory of the cluster, default {default_directory()}",
    )(run)


@command.command("up", cls=Command, short_help="start a cluster")
@cloup.option(
    "--nodes",
    type=whole_number(0, _MAX_NODES),
    default=None,
    metavar="N",
    help="nodes simulated by kwok in three zones, default 6; 0 starts no kwok",
)
@cloup.option(
    "--node",
    type=OneOf(("kwok", "real")),
    default="kwok",
    metavar="KIND",
    help="kwok simulates nodes and pods (default); real runs containers on one node, which needs Linux and root",
)
@_directory
def up_command(directory: Path, nodes: int | None, node: str) -> None:
    """Starts etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok in the background.

    They listen on free loopback ports and use about 550 MB of memory. The first start builds them from source, which
    takes several minutes; later starts take seconds.

    With --node real, kubelet, containerd and runc run in their own namespaces instead of kwok. That node has no access
    to any network; load its images with `load`.
    """
    real = node == "real"
    if real and nodes is not None:
        raise click.UsageError(
            "--nodes is the number of nodes simulated by kwok; --node real has a single node without kwok"
        )
    up(directory, 0 if real else _DEFAULT_NODES if nodes is None else nodes, real)
    sys.stdout.write(
        f"{env(directory)}\n"
        f'Run the lines above (or: eval "$({typed("env", directory)})"), then look around:\n'
        "  kubectl get nodes -L topology.kubernetes.io/zone\n"
        "  pvc-prebinder controller --dry-run\n"
        f"Logs are in {directory}. It runs until `{typed('down', directory)}`.\n"
    )


@command.command("check", cls=Command, short_help="check whether this machine can run a real node")
@cloup.option(
    "--image-base",
    metavar="IMAGE",
    help="check in addition what `make image BASE=IMAGE` needs; `debian` makes a base from Debian packages",
)
def check_command(image_base: str | None) -> int:
    """Checks whether `up --node real` is possible on this machine, and prints in one line what is missing."""
    try:
        check(image_base)
    except ClusterError as error:
        sys.stderr.write(f"{error}\n")
        return ExitCode.PROBLEM_FOUND
    return ExitCode.FINE


@command.command("load", cls=Command, short_help="load a container image")
@cloup.argument("archive", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@_directory
def load_command(directory: Path, archive: Path) -> None:
    """Loads the images of an archive, as written by `docker save` and `buildah push docker-archive:`, into the real
    node.

    Pods use them with imagePullPolicy IfNotPresent or Never.
    """
    load(directory, archive)


@command.command("down", cls=Command, short_help="stop it")
@_directory
def down_command(directory: Path) -> None:
    """Stops the cluster and removes all its data."""
    down(directory)


@command.command("env", cls=Command, short_help="print its environment variables")
@_directory
def env_command(directory: Path) -> None:
    """Prints the shell commands that configure kubectl."""
    sys.stdout.write(env(directory))
