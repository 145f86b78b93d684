"""`pvc-prebinder simulate`: schedules pods on a cluster in memory, made up or dumped, and answers "what if"."""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from binder.index import VolumeIndex
from binder.view import View
from kube.model import Pod
from kube.snapshot import Snapshot
from kube.store import snapshot_of
from prebinder.errors import CommandError, ExitCode, UsageError
from prebinder.match_input import read_objects
from prebinder.nearest import did_you_mean
from prebinder.simulate_chart import chart
from prebinder.simulate_report import Report, WhatIf, print_report
from scheduler.catalog import REGISTRY, default_data
from scheduler.cluster import ClusterView, view_of
from scheduler.profile import Profile, build
from scheduler.simulated_cluster import Entry, SimulatedCluster
from scheduler.simulated_workload import START, Workload, workload
from scheduler.simulation import Simulation
from scheduler.simulation_summary import Summary, summarise
from scheduler.what_if import drain, zone_down

DESCRIPTION = """\
Schedule pods on a cluster in memory, with the plugins of the scheduler and the rules by which volumes are chosen, and
say how it went. Without --filename the cluster is made up; the same --seed gives the same result to the byte. With it
the cluster is a dump of a real one, and the pods are those that have no node.

Times are simulated: a decision takes 2 ms and 1 us for each node, a write to the API server 2 to 8 ms. All pods are
there from the start.
"""

EPILOG = """\
examples:
  pvc-prebinder simulate --nodes=16 --pods=2000 --concurrent=8
  pvc-prebinder simulate --zones=3 --volumes-per-node=4 --zone-down zone-b --chart spread.svg
  kubectl get node,pod,pv,pvc,sc,csinode,csidriver -A -o json | pvc-prebinder simulate -f - --drain node-7
  pvc-prebinder simulate --weights BinPack=5,LeastAllocated=0 -o json
  pvc-prebinder simulate --seed 7 --trace run && pvc-prebinder simulate --seed 7 --replay run --drain node-00001

exit codes:
  0 every pod has a place   1 error   2 usage   3 a pod has none, or an object could not be read
"""


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command `simulate`."""
    parser = subparsers.add_parser("simulate", description=DESCRIPTION, epilog=EPILOG)
    made, run_as = parser.add_argument_group("a made-up cluster"), parser.add_argument_group("how it is scheduled")
    made.add_argument("--nodes", type=_positive, default=16, metavar="N", help="default 16")
    made.add_argument("--pods", type=_positive, default=2000, metavar="N", help="default 2000")
    made.add_argument("--zones", type=_positive, default=3, metavar="N", help="default 3")
    made.add_argument("--volumes-per-node", type=_natural, default=2, metavar="N", help="in its zone; default 2")
    run_as.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of everything that is left to chance; default 1"
    )
    run_as.add_argument(
        "--concurrent", type=_positive, default=8, metavar="N", help="workers deciding at once; default 8"
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
    """Simulate and report. Raises UsageError for a plugin, node or zone there is none of."""
    profile = profile_of(arguments.plugins, arguments.weights)
    snapshot, well = _objects(arguments)
    storage = View(snapshot, VolumeIndex.of(snapshot.volumes.values()))
    cluster = _begun(view_of(storage, START), arguments.replay)
    placed = cluster.state.placed
    unplaced = (pod for key, pod in sorted(snapshot.pods.items()) if not (pod.node_name or key in placed))
    waiting = [pod for pod in unplaced if not (pod.finished or pod.deleting)]

    def simulate(pods: list[Pod]) -> Summary:
        with _progress(len(pods)) as advance:
            outcome = Simulation(cluster, profile, arguments.concurrent, arguments.seed).run(pods, advance)
        return summarise(outcome, len(pods), cluster.state.view)

    report = Report(seed=arguments.seed, concurrent=arguments.concurrent, result=simulate(waiting))
    displaced = _displaced(cluster, arguments)
    if arguments.drain or arguments.zone_down:
        changes = WhatIf(tuple(arguments.drain), tuple(arguments.zone_down), len(displaced), simulate(displaced))
        report = msgspec.structs.replace(report, what_if=changes)
    _write(arguments, report, cluster)
    failed = report.result.failed + (report.what_if.result.failed if report.what_if else 0)
    return ExitCode.PROBLEM_FOUND if failed or not well else ExitCode.FINE


def profile_of(plugins: str | None, weights: str | None) -> Profile:
    """Return the default profile with some plugins only and other weights. Raises UsageError for an unknown name."""
    data = default_data("simulated")
    known = [*REGISTRY.filters, *REGISTRY.scores]
    if plugins is not None:
        chosen = [_known(name, known) for name in plugins.split(",") if name]
        scores = {name: data.scores.get(name, 1) for name in chosen if name in REGISTRY.scores}
        data = replace(data, filters=tuple(name for name in data.filters if name in chosen), scores=scores)
    if weights is not None:
        changed = dict(_weight(pair) for pair in weights.split(",") if pair)
        scores = {name: weight for name, weight in {**data.scores, **changed}.items() if weight}
        data = replace(data, scores=scores)
    return build(data, REGISTRY)


def _weight(pair: str) -> tuple[str, int]:
    name, _, weight = pair.partition("=")
    if not weight.isdigit():
        raise UsageError(f"--weights {pair}: expected NAME=N, with a whole number from 0 on")
    return _known(name, REGISTRY.scores), int(weight)


def _known(name: str, names: Mapping[str, object] | list[str]) -> str:
    if name not in names:
        raise UsageError(f'no plugin "{name}"{did_you_mean(name, list(names))} There are {", ".join(sorted(names))}')
    return name


def _objects(arguments: argparse.Namespace) -> tuple[Snapshot, bool]:
    if not arguments.filename:
        size = Workload(arguments.nodes, arguments.pods, arguments.zones, arguments.volumes_per_node)
        return snapshot_of(workload(size, arguments.seed)), True
    objects = read_objects(arguments.filename, sys.stdin.buffer)
    for line in objects.faults + objects.duplicates:
        sys.stderr.write(f"pvc-prebinder simulate: {line}\n")
    return objects.snapshot(), not objects.faults


def _begun(view: ClusterView, trace: str | None) -> SimulatedCluster:
    """Return the cluster at its beginning, or where an earlier run of the same beginning left it."""
    cluster = SimulatedCluster(view)
    if trace is None:
        return cluster
    try:
        lines = Path(trace).read_bytes().splitlines()
    except OSError as error:
        raise CommandError(f"cannot read {trace}: {error.strerror}") from error
    for number, line in enumerate(lines, start=1):
        try:
            cluster.apply(msgspec.json.decode(line, type=Entry))
        except msgspec.DecodeError as error:
            raise CommandError(f"{trace}, line {number}: expected a change as --trace writes it: {error}") from error
        except KeyError as error:
            raise CommandError(
                f"{trace}, line {number}: there is no {error.args[0]}; replay a trace with the --seed, --nodes, "
                "--pods, --zones and --volumes-per-node, or the dump, that it was written with"
            ) from error
    return cluster


def _displaced(cluster: SimulatedCluster, arguments: argparse.Namespace) -> list[Pod]:
    pods: list[Pod] = []
    for flag, names, change in (
        ("--drain", arguments.drain, drain),
        ("--zone-down", arguments.zone_down, zone_down),
    ):
        for name in names:
            try:
                pods += change(cluster, name)
            except KeyError:
                raise CommandError(f"{flag} {name}: there is none of that name") from None
    return pods


@contextmanager
def _progress(pods: int) -> Iterator[Callable[[], None]]:
    """Show on a terminal how many pods are through; nothing anywhere else."""
    columns = ("[progress.description]{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("scheduling", total=pods)
        yield lambda: progress.advance(task)


def _write(arguments: argparse.Namespace, report: Report, cluster: SimulatedCluster) -> None:
    try:
        if arguments.trace:
            Path(arguments.trace).write_bytes(b"".join(msgspec.json.encode(entry) + b"\n" for entry in cluster.log))
        if arguments.chart:
            Path(arguments.chart).write_text(chart(report, cluster.log), encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {error.filename}: {error.strerror}") from error
    if arguments.output == "json":
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n")
    else:
        print_report(report)


def _positive(text: str) -> int:
    number = _natural(text)
    if not number:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from 1 on")
    return number


def _natural(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from 0 on")
    return int(text)
