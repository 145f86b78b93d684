"""The command `pvc-prebinder demo`: the whole story on a real control plane, in a minute or two."""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live

from devcluster import build
from devcluster.errors import ClusterError
from devcluster.state import new_directory
from prebinder import demo_scene
from prebinder.demo_backstage import Backstage
from prebinder.demo_stage import Ready
from prebinder.demo_summary import looking_around, refusals, summary
from prebinder.demo_view import ClaimRow, changed_lines, table
from prebinder.demo_watch import Watcher, watching

_DESCRIPTION = """\
Starts a real control plane with 6 nodes in 3 zones and a CSI driver whose volumes are directories, runs the
controller, and creates pods whose claims have to be met together, in one zone, from volumes that are well.
The first run builds Kubernetes from source, which takes some minutes; later ones take about a minute.
"""
_EXIT_INTERRUPTED: Final = 130
_LOOK_SECONDS: Final = 0.25


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "demo",
        help="watch it work on a real control plane on this machine",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--keep", action="store_true", help="leave the cluster up afterwards, and say how to use it")
    parser.add_argument(
        "--timeout", type=float, default=120.0, metavar="SECONDS", help="give up after this long (default %(default)s)"
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    console = Console(highlight=False)
    try:
        build.ensure([build.CONTROL_PLANE, build.KWOK])
        return asyncio.run(_demo(console, arguments.keep, arguments.timeout))
    except ClusterError as error:
        sys.stderr.write(f"pvc-prebinder: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted; the cluster is gone.\n")
        return _EXIT_INTERRUPTED


async def _demo(console: Console, keep: bool, timeout: float) -> int:
    directory = new_directory()
    async with Backstage(directory) as backstage:
        ready = await backstage.ready(lambda doing: console.print(f"- {doing}", style="dim"))
        async with watching(ready.kubeconfig, ready.csi_endpoint) as watcher:
            await _create_scene(ready, directory)
            console.print(f"- created {len(demo_scene.documents())} objects; watching\n", style="dim")
            rows = await _watch(console, watcher, timeout)
            await watcher.ask_about(list(watcher.snapshot.volumes.values()))
            finished = is_over(rows, watcher)
            console.print()
            _print(console, summary(rows, watcher.snapshot, watcher.verdicts))
            _print(console, refusals(watcher.refusals))
        if not finished:
            console.print(f"\nNot finished within {timeout:.0f} s; the end of {ready.controller_log}:", style="red")
            console.print(tail(Path(ready.controller_log)), markup=False, soft_wrap=True)
        if keep:
            backstage.keep()
            console.print()
            _print(console, looking_around(ready, str(directory)))
    return 0 if finished else 1


async def _create_scene(ready: Ready, directory: Path) -> None:
    """Hand the scene to kubectl, as a person would; its file stays beside the cluster to be looked at."""
    scene = directory / "scene.json"
    scene.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": demo_scene.documents()}, indent=1))
    kubectl = await asyncio.create_subprocess_exec(
        ready.kubectl,
        f"--kubeconfig={ready.kubeconfig}",
        "create",
        f"--filename={scene}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await kubectl.communicate()
    if kubectl.returncode:
        raise ClusterError(f"kubectl create failed: {errors.decode(errors='replace').strip()}")


async def _watch(console: Console, watcher: Watcher, timeout: float) -> list[ClaimRow]:
    """Show the table until the story is over or the time is up; return its last rows."""
    rows: list[ClaimRow] = []
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    deadline = watcher.clock.monotonic() + timeout
    with live or nullcontext():
        while watcher.clock.monotonic() < deadline and not is_over(rows, watcher):
            before, rows = rows, await watcher.look()
            if live:
                live.update(table(rows), refresh=True)
            else:
                _print(console, changed_lines(before, rows))
            await watcher.clock.sleep(_LOOK_SECONDS)
    if not live:
        console.print()
        console.print(table(rows))
    return rows


def is_over(rows: Sequence[ClaimRow], watcher: Watcher) -> bool:
    """Whether every pod runs, but for the one that cannot, and that one has been told why."""
    pods = watcher.snapshot.pods.values()
    waiting = [pod.name for pod in pods if pod.phase != "Running"]
    open_claims = {row.pod for row in rows if row.state != "Bound"}
    told = f"{demo_scene.NAMESPACE}/{demo_scene.IMPOSSIBLE_POD}" in watcher.refusals
    return told and waiting == [demo_scene.IMPOSSIBLE_POD] and open_claims == {demo_scene.IMPOSSIBLE_POD}


def tail(log: Path, lines: int = 15) -> str:
    """Return the last lines of a log, or that there is none."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return "(nothing was logged)"


def _print(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
