"""`pvc-prebinder simulate`: schedules pods on a cluster in memory, made up or dumped, and answers "what if"."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from binder.index import VolumeIndex
from binder.view import View
from kube.model import Pod
from kube.snapshot import Snapshot
from kube.store import snapshot_of
from prebinder.errors import CommandError, ExitCode
from prebinder.match_input import read_objects
from prebinder.simulate_chart import chart
from prebinder.simulate_flags import (
    MADE_UP,
    MOST_WORKERS,
    check_known,
    profile_of,
    refuse_size_of_dump,
    seed,
    whole_number,
    workload_of,
)
from prebinder.simulate_report import Report, WhatIf, print_report
from scheduler.cluster import ClusterView, view_of
from scheduler.simulated_cluster import Entry, ImpossibleChange, SimulatedCluster
from scheduler.simulated_workload import START, workload
from scheduler.simulation import Simulation
from scheduler.simulation_summary import Summary, summarise
from scheduler.what_if import drain, zone_down

DESCRIPTION = """\
Schedules pods on a cluster in memory, with the plugins of the scheduler and the rules by which volumes are chosen, and
says how it went. Without --filename the cluster is made up; the same --seed gives the same result to the byte. With it
the cluster is a dump of a real one, and the pods are those that have no node.

Times are simulated: a decision takes 2 ms and 1 us for each node, a write to the API server 2 to 8 ms. All pods are
there from the start.
"""

DUMP = "kubectl get node,pod,pv,pvc,sc,csinode,csidriver -A -o json"

EPILOG = f"""\
examples:
  pvc-prebinder simulate --nodes=16 --pods=2000 --concurrent=8
  pvc-prebinder simulate --zones=3 --volumes-per-node=4 --zone-down zone-b --chart spread.svg
  {DUMP} | pvc-prebinder simulate -f - --drain node-7
  pvc-prebinder simulate --weights BinPack=5,LeastAllocated=0 -o json
  pvc-prebinder simulate --seed 7 --trace run && pvc-prebinder simulate --seed 7 --replay run --drain node-00001

exit codes:
  0 every pod has a place   1 error   2 usage   3 a pod has none, or an object could not be read
"""


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command `simulate`."""
    parser = subparsers.add_parser("simulate", usage="%(prog)s [flags]", description=DESCRIPTION, epilog=EPILOG)
    made, run_as = parser.add_argument_group("a made-up cluster"), parser.add_argument_group("how it is scheduled")
    for name, (least, most, _, text) in MADE_UP.items():
        made.add_argument(f"--{name.replace('_', '-')}", type=whole_number(least, most), metavar="N", help=text)
    run_as.add_argument(
        "--seed", type=seed, default=1, metavar="N", help="of everything that is left to chance; default 1"
    )
    workers = whole_number(1, MOST_WORKERS)
    run_as.add_argument(
        "--concurrent", type=workers, default=8, metavar="N", help="workers deciding at once; default 8"
    )
    run_as.add_argument("--plugins", metavar="NAME,...", help="run only these filters and scores; default all")
    run_as.add_argument("--weights", metavar="NAME=N,...", help="how much scores count; 0 leaves one out")
    parser.add_argument(
        "-f", "--filename", action="append", metavar="FILE", help="a dump, as `match` reads it; - is the standard input"
    )
    parser.add_argument(
        "--replay", metavar="FILE", help="begin with the changes that --trace wrote; the pods left then are scheduled"
    )
    parser.add_argument("--drain", action="append", default=[], metavar="NODE", help="what if this node is drained")
    parser.add_argument("--zone-down", action="append", default=[], metavar="ZONE", help="what if this zone is gone")
    parser.add_argument("--trace", metavar="FILE", help="write every change of the cluster, one JSON object a line")
    parser.add_argument("--chart", metavar="FILE", help="draw the result as SVG")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default table")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Simulate and report. Raises UsageError for a plugin, node or zone there is none of, before anything is run."""
    profile = profile_of(arguments.plugins, arguments.weights)
    targets = [Path(name) for name in (arguments.trace, arguments.chart) if name is not None]
    _refuse_unwritable(targets)
    snapshot, well = _objects(arguments)
    storage = View(snapshot, VolumeIndex.of(snapshot.volumes.values()))
    cluster = _begun(view_of(storage, START), arguments.replay)
    nodes = cluster.state.view.nodes
    drained = check_known("--drain", arguments.drain, {state.name for state in nodes})
    down = check_known("--zone-down", arguments.zone_down, {state.zone for state in nodes if state.zone})
    placed = cluster.state.placed
    unplaced = (pod for key, pod in sorted(snapshot.pods.items()) if not (pod.node_name or key in placed))
    waiting = [pod for pod in unplaced if not (pod.finished or pod.deleting)]

    def simulate(pods: list[Pod]) -> Summary:
        with _progress(len(pods)) as advance:
            outcome = Simulation(cluster, profile, arguments.concurrent, arguments.seed).run(pods, advance)
        return summarise(outcome, len(pods), cluster.state.view)

    report = Report(seed=arguments.seed, concurrent=arguments.concurrent, result=simulate(waiting))
    if drained or down:
        displaced = [pod for node in drained for pod in drain(cluster, node)]
        displaced += [pod for zone in down for pod in zone_down(cluster, zone)]
        report = msgspec.structs.replace(report, what_if=WhatIf(drained, down, len(displaced), simulate(displaced)))
    _write(arguments, report, cluster)
    failed = report.result.failed + (report.what_if.result.failed if report.what_if else 0)
    return ExitCode.PROBLEM_FOUND if failed or not well else ExitCode.FINE


def _objects(arguments: argparse.Namespace) -> tuple[Snapshot, bool]:
    if not arguments.filename:
        return snapshot_of(workload(workload_of(arguments), arguments.seed)), True
    refuse_size_of_dump(arguments)
    objects = read_objects(arguments.filename, sys.stdin.buffer)
    for line in objects.faults + objects.duplicates:
        sys.stderr.write(f"pvc-prebinder simulate: {line}\n")
    snapshot = objects.snapshot()
    if not snapshot.nodes:
        raise CommandError(f"no Node is in {', '.join(arguments.filename)}; dump them too: {DUMP}")
    return snapshot, not objects.faults


def _begun(view: ClusterView, trace: str | None) -> SimulatedCluster:
    """Return the cluster at its beginning, or where an earlier run of the same beginning left it."""
    cluster = SimulatedCluster(view)
    if trace is None:
        return cluster
    try:
        whole, _, cut_off = Path(trace).read_bytes().rpartition(b"\n")
    except OSError as error:
        raise CommandError(f"cannot read {trace}: {error.strerror}") from error
    if cut_off:
        sys.stderr.write(f"pvc-prebinder simulate: {trace}: the last line is cut off and left out\n")
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            cluster.apply(msgspec.json.decode(line, type=Entry))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CommandError(f"{trace}, line {number}: expected a change as --trace writes it: {error}") from error
        except ImpossibleChange as error:
            raise CommandError(
                f"{trace}, line {number}: {error}; replay a trace with the --seed, --nodes, --pods, --zones and "
                "--volumes-per-node, or the dump, that it was written with"
            ) from error
    return cluster


@contextmanager
def _progress(pods: int) -> Iterator[Callable[[], None]]:
    """Show on a terminal how many pods are through; nothing anywhere else."""
    columns = ("[progress.description]{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("scheduling", total=pods)
        yield lambda: progress.advance(task)


def _refuse_unwritable(targets: Iterable[Path]) -> None:
    """Raise CommandError before the run for what would only be found after it."""
    for path in targets:
        if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
            reason = "it is a directory" if path.is_dir() else "no such directory, or it may not be written to"
            raise CommandError(f'cannot write "{path}": {reason}')


def _write(arguments: argparse.Namespace, report: Report, cluster: SimulatedCluster) -> None:
    """Print first: what has been found is not lost when a disk is full."""
    if arguments.output == "json":
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n")
    else:
        print_report(report)
    if arguments.trace is not None:
        _write_file(arguments.trace, b"".join(msgspec.json.encode(entry) + b"\n" for entry in cluster.log))
    if arguments.chart is not None:
        _write_file(arguments.chart, chart(report, cluster.log).encode())


def _write_file(path: str, content: bytes) -> None:
    try:
        Path(path).write_bytes(content)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from error
