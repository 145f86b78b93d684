"""`pvc-prebinder simulate`: schedules pods on a cluster in memory, generated or dumped, and answers "what if"."""

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import cloup
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from binder.matching.index import VolumeIndex
from binder.model.view import PlanSettings, View
from binder.provisioning.tracking import ledger_of
from kube.objects.labels import Pairs
from kube.objects.model import Pod
from kube.store.snapshot import Snapshot
from kube.store.store import snapshot_of
from prebinder.command_line.cluster_access import ClusterAccess, access_flags
from prebinder.command_line.command import Command
from prebinder.command_line.output import Output, output_flags, write_document
from prebinder.command_line.parameters import FILE, WHOLE_NUMBER, whole_number
from prebinder.command_line.standard_input import announce_waiting
from prebinder.errors import CommandError, ExitCode, UsageError
from prebinder.simulate.changes import RequestedChange, changes_of
from prebinder.simulate.chart import chart
from prebinder.simulate.flags import (
    MADE_UP,
    MAX_WORKERS,
    MOMENT,
    check_known,
    reject_size_of_dump,
    workload_of,
)
from prebinder.simulate.limits import unanswered
from prebinder.simulate.profile import Chosen, profile_of
from prebinder.simulate.replica_question import answered, question_of
from prebinder.simulate.report import Needed, Report, WhatIf, needed_of, print_report
from prebinder.simulate.trace import replay, written
from scheduler.framework.profile import Profile
from scheduler.simulator.nodes_needed import nodes_needed
from scheduler.simulator.simulated_cluster import SimulatedCluster
from scheduler.simulator.simulated_nodes import node_kinds
from scheduler.simulator.simulated_workload import START, workload
from scheduler.simulator.simulation import Simulation
from scheduler.simulator.summary import Summary, summarise
from scheduler.state.cluster import ClusterView, view_of
from why.reading.dump import read_dump
from why.rendering.lines import warn

DUMP: Final = "kubectl get node,pod,pv,pvc,sc,csinode,csidriver,csistoragecapacity,volumeattachment,ns -A -o json"

EXAMPLES: Final = f"""
Examples:
  pvc-prebinder simulate --nodes=16 --pods=2000 --concurrent=8
  pvc-prebinder simulate --zones=3 --volumes-per-node=4 --zone-down zone-b --chart spread.svg
  {DUMP} > dump.json
  pvc-prebinder simulate -f dump.json --drain node-7
  pvc-prebinder simulate -f dump.json --zone-down zone-b --nodes-needed
  pvc-prebinder simulate -f dump.json --unhealthy pv/pvc-3f2 --unhealthy driver/csi.example.com
  pvc-prebinder simulate --weights BinPack=5,LeastAllocated=0 -o json
  pvc-prebinder simulate -f dump.json --scale statefulset/db=9 -n web
  pvc-prebinder simulate --fill statefulset/db
      in the cluster of the kubeconfig: how many more replicas its volumes and nodes take
  pvc-prebinder simulate --seed 7 --trace run && pvc-prebinder simulate --seed 7 --replay run --drain node-00001

Not simulated: victims of preemption, autoscalers, the controllers of pods, image locality,
and anything that is not in the dump.

Exit codes:
  0 every pod is placed   1 error   2 usage   3 a pod, or with --scale a replica, is not placed, or an object could not
  be read
"""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of the command. `sizes`: those of a generated cluster, None for the default."""

    sizes: Mapping[str, int | None]
    seed: int
    concurrent: int
    chosen: Chosen
    filename: tuple[str, ...]
    replay: str | None
    now: datetime | None
    drain: tuple[str, ...]
    node_down: tuple[str, ...]
    zone_down: tuple[str, ...]
    unhealthy: tuple[str, ...]
    nodes_needed: bool
    node_like: tuple[str, ...]
    trace: str | None
    chart: str | None
    output: Output


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
        "--concurrent", type=whole_number(1, MAX_WORKERS), default=8, metavar="N", help="parallel workers, default 8"
    ),
    cloup.option("--plugins", metavar="NAME,...", help="run only these filters and scores; default all"),
    cloup.option("--weights", metavar="NAME=N,...", help="weights of scores; 0 disables a score"),
    cloup.option("--config", type=FILE, metavar="FILE", help="take a profile of this scheduler configuration"),
    cloup.option("--profile", metavar="NAME", help="schedulerName of the profile, if the configuration has several"),
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
@cloup.option("--now", type=MOMENT, metavar="TIME", help="time of the dump, for reservations; default the current time")
@cloup.option_group(
    "What if, after that",
    cloup.option("--drain", multiple=True, metavar="NODE", help="this node is drained; repeatable"),
    cloup.option("--node-down", multiple=True, metavar="NODE", help="this node is lost; repeatable"),
    cloup.option("--zone-down", multiple=True, metavar="ZONE", help="this zone is lost; repeatable"),
    cloup.option(
        "--unhealthy",
        multiple=True,
        metavar="pv/NAME|driver/NAME",
        help="this volume, or all storage of this driver, fails; its pods start over with empty claims; repeatable",
    ),
    cloup.option(
        "--nodes-needed", is_flag=True, help="number of additional nodes needed for the pods that are not placed"
    ),
    cloup.option(
        "--node-like", multiple=True, metavar="NODE", help="add only nodes like this one, default any kind; repeatable"
    ),
)
@cloup.option_group(
    "Replicas to come of a StatefulSet",
    cloup.option("--scale", metavar="statefulset/NAME=N", help="whether existing volumes and nodes take N replicas"),
    cloup.option("--fill", metavar="statefulset/NAME", help="how many more replicas they take"),
    cloup.option("-n", "--namespace", default="default", metavar="NAME", help="of the StatefulSet, default default"),
)
@cloup.option("--trace", type=FILE, metavar="FILE", help="write every change of the cluster, one JSON object a line")
@cloup.option("--chart", type=FILE, metavar="FILE", help="draw the result as SVG")
@access_flags
@output_flags("table", tables=False)
def command(access: ClusterAccess, scale: str | None, fill: str | None, namespace: str, **given: Any) -> int:
    """Schedules pods on a cluster in memory, with the scheduler's plugins and volume matching, and reports the result.

    Without --filename the cluster is generated; the same --seed gives byte-identical results. With it the cluster is a
    dump of a real one, and the pods are those that have no node. With --scale or --fill and without --filename it is
    the cluster of the kubeconfig, which is only read.

    Times are simulated: a decision takes 2 ms and 1 us for each node, a write to the API server 2 to 8 ms. All pods
    exist from the start.
    """
    question = question_of(scale, fill, namespace)
    if question is not None:
        return answered(question, access, given["filename"], given["now"], given["output"])
    sizes = {name: given.pop(name) for name in MADE_UP}
    chosen = Chosen(*(given.pop(name) for name in ("plugins", "weights", "config", "profile")))
    return run(Arguments(sizes=sizes, chosen=chosen, **given))


def run(arguments: Arguments) -> int:
    """Simulate and report. Raises UsageError for an unknown plugin, node or zone before anything is run."""
    profile = profile_of(arguments.chosen)
    targets = [Path(name) for name in (arguments.trace, arguments.chart) if name is not None]
    _reject_unwritable(targets)
    beginning, limits, well = _beginning(arguments)
    cluster = SimulatedCluster(beginning)
    if arguments.replay is not None:
        replay(cluster, arguments.replay)
    changes = changes_of(
        cluster.state.view,
        drain=arguments.drain,
        node_down=arguments.node_down,
        zone_down=arguments.zone_down,
        unhealthy=arguments.unhealthy,
    )
    kinds = check_known("--node-like", arguments.node_like, cluster.state.view.numbers)
    answers = _Answers(arguments, cluster, profile)
    result = answers.scheduled(_waiting(cluster))
    report = Report(
        seed=arguments.seed, concurrent=arguments.concurrent, now=beginning.now, limits=limits, result=result
    )
    if changes:
        report = msgspec.structs.replace(report, what_if=answers.after(changes))
    if arguments.nodes_needed:
        report = msgspec.structs.replace(report, nodes_needed=answers.needed(kinds))
    _write(arguments, report, cluster)
    return ExitCode.PROBLEM_FOUND if answers.failed or not well else ExitCode.FINE


@dataclass(slots=True)
class _Answers:
    """Answers questions about a cluster one after the other. `failed` are the pods that are not placed so far."""

    arguments: Arguments
    cluster: SimulatedCluster
    profile: Profile
    failed: list[Pod] = field(default_factory=list)

    def scheduled(self, pods: Sequence[Pod]) -> Summary:
        """Schedule these pods."""
        workers, seed = self.arguments.concurrent, self.arguments.seed
        with _progress(len(pods)) as advance:
            outcome = Simulation(self.cluster, self.profile, workers, seed).run(pods, advance)
        self.failed += [pod for pod in pods if pod.key in outcome.failed]
        return summarise(outcome, len(pods), self.cluster.state.view)

    def after(self, changes: Sequence[RequestedChange]) -> WhatIf:
        """Apply the changes, and schedule the pods that lost their node or their data."""
        hit = [(change, pod) for change in changes for pod in change.made(self.cluster)]
        displaced = list({pod.key: pod for _, pod in hit}.values())
        without_data = sorted({pod.key for change, pod in hit if change.loses_data})
        result = self.scheduled(displaced)
        return WhatIf(tuple(map(str, changes)), len(displaced), tuple(without_data), result)

    def needed(self, like: Collection[str]) -> Needed:
        """Add nodes until no further one lets a pod be placed: like these, or of any existing kind."""
        nodes = self.cluster.state.view.nodes
        kinds = [state for state in nodes if state.name in like] if like else node_kinds(nodes)
        if like and not kinds:
            raise UsageError(f"--node-like {', '.join(like)}: removed by then; expected a remaining node")
        needed = nodes_needed(self.cluster, self.failed, kinds, self.profile, self.arguments.seed)
        return needed_of(needed, len(self.failed))


def _waiting(cluster: SimulatedCluster) -> list[Pod]:
    placed, pods = cluster.state.placed, cluster.state.view.storage.snapshot.pods
    unplaced = (pod for key, pod in sorted(pods.items()) if not (pod.node_name or key in placed))
    return [pod for pod in unplaced if not (pod.finished or pod.deleting)]


def _beginning(arguments: Arguments) -> tuple[ClusterView, tuple[str, ...], bool]:
    """Return the cluster, the limits of what can be answered about it, and whether all of it could be read."""
    if not arguments.filename:
        snapshot = snapshot_of(workload(workload_of(arguments.sizes), arguments.seed))
        return _view(snapshot, arguments.now or START), (), True
    reject_size_of_dump(arguments.sizes)
    announce_waiting(arguments.filename, "pvc-prebinder simulate")
    dump = read_dump(arguments.filename, sys.stdin.buffer, arguments.now or datetime.now(UTC))
    for line in (*dump.faults, *dump.duplicates):
        warn(line, "pvc-prebinder simulate")
    snapshot = dump.facts.snapshot
    if not snapshot.nodes:
        raise CommandError(f"no Node in {', '.join(arguments.filename)}; dump them too: {DUMP}")
    namespaces = dump.facts.namespaces
    limits = unanswered(snapshot, has_namespaces=bool(namespaces))
    return _view(snapshot, arguments.now or datetime.now(UTC), namespaces), limits, not dump.faults


def _view(snapshot: Snapshot, now: datetime, namespaces: Mapping[str, Pairs] | None = None) -> ClusterView:
    settings = PlanSettings()
    pools = ledger_of(snapshot, settings.annotations, now)
    index = VolumeIndex.of(snapshot.volumes.values())
    return view_of(View(snapshot, index, settings=settings, pools=pools), now, namespaces)


@contextmanager
def _progress(pods: int) -> Iterator[Callable[[], None]]:
    """Show on a terminal how many pods are finished; elsewhere print nothing."""
    columns = ("[progress.description]{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("scheduling", total=pods)
        yield lambda: progress.advance(task)


def _reject_unwritable(targets: Iterable[Path]) -> None:
    """Raise CommandError before the run for an error that would otherwise occur only after it."""
    for path in targets:
        if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
            reason = "it is a directory" if path.is_dir() else "no such directory, or it may not be written to"
            raise CommandError(f'cannot write "{path}": {reason}')


def _write(arguments: Arguments, report: Report, cluster: SimulatedCluster) -> None:
    """Print first, so that the result is not lost if a disk is full."""
    if arguments.output.is_document:
        write_document(report, arguments.output)
    else:
        print_report(report)
    if arguments.trace is not None:
        _write_file(arguments.trace, written(cluster.log))
    if arguments.chart is not None:
        _write_file(arguments.chart, chart(report, cluster.log).encode())


def _write_file(path: str, content: bytes) -> None:
    try:
        Path(path).write_bytes(content)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from error
