"""`pvc-prebinder simulate`: schedules pods on a cluster in memory, made up or dumped, and answers "what if"."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cloup
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from binder.index import VolumeIndex
from binder.view import View
from kube.model import Pod
from kube.snapshot import Snapshot
from kube.store import snapshot_of
from prebinder.command import Command
from prebinder.errors import CommandError, ExitCode
from prebinder.match_input import read_objects
from prebinder.parameters import FILE, WHOLE_NUMBER, OneOf, whole_number
from prebinder.simulate_chart import chart
from prebinder.simulate_flags import (
    MADE_UP,
    MOST_WORKERS,
    check_known,
    profile_of,
    refuse_size_of_dump,
    workload_of,
)
from prebinder.simulate_report import Report, WhatIf, print_report
from scheduler.cluster import ClusterView, view_of
from scheduler.simulated_cluster import Entry, ImpossibleChange, SimulatedCluster
from scheduler.simulated_workload import START, workload
from scheduler.simulation import Simulation
from scheduler.simulation_summary import Summary, summarise
from scheduler.what_if import drain, zone_down

DUMP = "kubectl get node,pod,pv,pvc,sc,csinode,csidriver -A -o json"

EXAMPLES: Final = f"""
Examples:
  pvc-prebinder simulate --nodes=16 --pods=2000 --concurrent=8
  pvc-prebinder simulate --zones=3 --volumes-per-node=4 --zone-down zone-b --chart spread.svg
  {DUMP} | pvc-prebinder simulate -f - --drain node-7
  pvc-prebinder simulate --weights BinPack=5,LeastAllocated=0 -o json
  pvc-prebinder simulate --seed 7 --trace run && pvc-prebinder simulate --seed 7 --replay run --drain node-00001

Exit codes:
  0 every pod has a place   1 error   2 usage   3 a pod has none, or an object could not be read
"""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What the user asks for. `sizes`: those of a generated cluster, None where the default holds."""

    sizes: Mapping[str, int | None]
    seed: int
    concurrent: int
    plugins: str | None
    weights: str | None
    filename: tuple[str, ...]
    replay: str | None
    drain: tuple[str, ...]
    zone_down: tuple[str, ...]
    trace: str | None
    chart: str | None
    output: str


@cloup.command("simulate", cls=Command, examples=EXAMPLES)
@cloup.option_group(
    "Generated cluster",
    *(
        cloup.option(f"--{name.replace('_', '-')}", type=whole_number(least, most), metavar="N", help=text)
        for name, (least, most, _, text) in MADE_UP.items()
    ),
)
@cloup.option_group(
    "Scheduling",
    cloup.option("--seed", type=WHOLE_NUMBER, default=1, metavar="N", help="random seed, default 1"),
    cloup.option(
        "--concurrent", type=whole_number(1, MOST_WORKERS), default=8, metavar="N", help="parallel workers, default 8"
    ),
    cloup.option("--plugins", metavar="NAME,...", help="run only these filters and scores; default all"),
    cloup.option("--weights", metavar="NAME=N,...", help="weights of scores; 0 leaves one out"),
)
@cloup.option(
    "-f",
    "--filename",
    type=FILE,
    multiple=True,
    metavar="FILE",
    help="a dump, as `match` reads it; - is standard input",
)
@cloup.option(
    "--replay",
    type=FILE,
    metavar="FILE",
    help="apply the changes that --trace wrote first, then schedule the other pods",
)
@cloup.option("--drain", multiple=True, metavar="NODE", help="what if this node is drained; repeatable")
@cloup.option("--zone-down", multiple=True, metavar="ZONE", help="what if this zone is lost; repeatable")
@cloup.option("--trace", type=FILE, metavar="FILE", help="write every change of the cluster, one JSON object a line")
@cloup.option("--chart", type=FILE, metavar="FILE", help="draw the result as SVG")
@cloup.option(
    "-o", "--output", type=OneOf(("table", "json")), default="table", metavar="FORM", help="table (default) or json"
)
def command(**given: Any) -> int:
    """Schedules pods on a cluster in memory, with the scheduler's plugins and volume matching, and reports the result.

    Without --filename the cluster is generated; the same --seed gives byte-identical results. With it the cluster is a
    dump of a real one, and the pods are those that have no node.

    Times are simulated: a decision takes 2 ms and 1 us for each node, a write to the API server 2 to 8 ms. All pods
    exist from the start.
    """
    sizes = {name: given.pop(name) for name in MADE_UP}
    return run(Arguments(sizes=sizes, **given))


def run(arguments: Arguments) -> int:
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


def _objects(arguments: Arguments) -> tuple[Snapshot, bool]:
    if not arguments.filename:
        return snapshot_of(workload(workload_of(arguments.sizes), arguments.seed)), True
    refuse_size_of_dump(arguments.sizes)
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


def _write(arguments: Arguments, report: Report, cluster: SimulatedCluster) -> None:
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
