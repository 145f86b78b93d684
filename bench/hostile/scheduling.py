"""(k) The scheduler's part: the longest pause of the event loop while it reads the cluster and decides.

In this process, over a store filled from the API's documents: everything from a pod's turn in the queue to its
placement or rejection, choice of victims and diagnosis included. Writes add nothing to the duration of a decision.
"""

import asyncio
import gc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from time import perf_counter
from typing import Final

from bench.control_plane.documents import CLASS, NAMESPACE, Document, claim, pod, storage_class
from bench.hostile.inputs import HOSTNAME, local_volume, nodes, record_of
from bench.in_memory.reader import Pauses
from bench.rows import Row
from binder.model.view import PlanSettings
from kube.clock import SystemClock
from kube.objects.model import Pod
from kube.store.store import Store, store_of
from prebinder.runtime.process import favour_event_loop
from scheduler.cycle.cycle import Unschedulable
from scheduler.cycle.decision_cost import is_short
from scheduler.cycle.diagnosis import diagnose
from scheduler.cycle.memoized_cycle import Decider
from scheduler.framework.plugin import ScheduleResult
from scheduler.framework.profile import Profile
from scheduler.plugins.registry import default_profile
from scheduler.preemption.budgets import Budgets
from scheduler.preemption.preemption import Preemption
from scheduler.standalone.cache import SchedulerCache
from scheduler.standalone.post_filter import Moment, PostFilter
from scheduler.state.cluster import ClusterView

ROUNDS: Final = 3
GOAL_MS: Final = 100.0
MANY_TEMPLATES: Final = 1000
FLAT: Final = 1.5
"""With so many templates in turn a decision may take this many times as long as with a single one, in the median."""
_DRIVER: Final = "made.csi.example"


@dataclass(frozen=True, slots=True)
class Hostile:
    """Pods that arrive one after the other in a cluster; profiles take turns."""

    standing: list[Document]
    arriving: list[Document]
    profiles: int = 1


class _Nobody:
    """Evicts no pod, and writes no status."""

    def going(self) -> frozenset[str]:
        return frozenset()

    async def evict(self, _preemption: Preemption, _preemptor: Pod, _budgets: Budgets) -> str:
        return ""

    def nominate(self, _pod: Pod, _node: str) -> None:
        return


def rows(quick: bool) -> list[Row]:
    """Measure each input three times and take the least; quick: a tenth of its size, once."""
    measured: list[Row] = []
    favour_event_loop()
    for name, (make, size) in _INPUTS.items():
        hostile = make(size // 10 if quick else size)
        rounds = [asyncio.run(scheduling(hostile)) for _ in range(1 if quick else ROUNDS)]
        best = min(rounds, key=lambda outcome: outcome.pause)
        measured.append(Row(f"longest pause: {name}", best.pause * 1e3, "ms", best.detail(), at_most=GOAL_MS))
    return [*measured, *(_flat(nodes // 10 if quick else nodes) for nodes in (1000, 5000))]


def _flat(nodes: int) -> Row:
    """Compare many templates in turn with a single one: as many pods, the same nodes."""
    outcomes = [asyncio.run(scheduling(_in_turn(templates, nodes))) for templates in (1, MANY_TEMPLATES)]
    single, many = (median(outcome.decisions) * 1e3 for outcome in outcomes)
    name = f"a decision with {MANY_TEMPLATES:,} templates in turn, {nodes:,} nodes, to one with a single template"
    return Row(name, many / single, "x", f"medians {many:.2f} and {single:.2f} ms", at_most=FLAT)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`pause` in seconds, `own` the longest in this process's processor time. `decisions` are how many seconds each
    took, `aside` how many of them were made in another thread.
    """

    pause: float
    own: float
    decisions: list[float]
    aside: int

    def detail(self) -> str:
        """Return the rest in words."""
        times = self.decisions
        median_ms, first, longest = (1e3 * each for each in (median(times), times[0], max(times)))
        text = f"{len(times)} decisions: median {median_ms:.2f} ms, first {first:.1f} ms, longest {longest:.1f} ms"
        return f"{text}, {self.aside} aside; {self.own * 1e3:.0f} ms of processor time"


async def scheduling(hostile: Hostile) -> Outcome:
    """Read the cluster as at the start of a term, and decide about the pods in order, as `Attempts` does."""
    store, clock, pauses = _store(hostile.standing), SystemClock(), Pauses()
    live, decider = SchedulerCache(store, PlanSettings()), Decider()
    post_filter = PostFilter(store.budgets, _Nobody(), _Nobody())
    profiles = [replace(default_profile("p"), scheduler_name=f"p{number}") for number in range(hostile.profiles)]
    arriving = [record for document in hostile.arriving if isinstance(record := record_of(document), Pod)]
    gc.collect()
    gc.freeze()
    times, aside = list[float](), 0
    watching = asyncio.create_task(pauses.watch())
    await asyncio.sleep(0)
    await live.current(clock)
    for number, arrived in enumerate(arriving):
        began, view = perf_counter(), await live.current(clock)
        short = is_short(arrived, view)
        work = partial(
            _decide, arrived, view, post_filter, decider, profiles[number % len(profiles)], post_filter.moment(arrived)
        )
        decision = work() if short else await asyncio.to_thread(work)
        if isinstance(decision, ScheduleResult):
            live.assume(decision, [])
        times.append(perf_counter() - began)
        aside += not short
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    watching.cancel()
    gc.unfreeze()
    return Outcome(pauses.longest, pauses.own, times, aside)


def _decide(
    arrived: Pod, view: ClusterView, post_filter: PostFilter, decider: Decider, profile: Profile, moment: Moment
) -> ScheduleResult | Unschedulable:
    decision = post_filter.decide(arrived, view, profile, decider, moment)
    if isinstance(decision, Unschedulable):
        post_filter.victims(decision, view, profile, moment)
        diagnose(decision).text()
    return decision


def _store(documents: Iterable[Document]) -> Store:
    return store_of(map(record_of, documents))


def _with_capacities(count: int) -> Hostile:
    """As many nodes, each with a CSIStorageCapacity of its own that is too small for some of the pods."""
    made = {**storage_class(), "provisioner": _DRIVER}
    driver = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": _DRIVER},
        "spec": {"storageCapacity": True},
    }
    capacities = [_capacity(number) for number in range(count)]
    claims = [claim(f"c{number}", 1 + number) for number in range(20)]
    pods = [pod(f"p{number}", [f"c{number}"], gated=False) for number in range(20)]
    return Hostile([made, driver, *nodes(count), *capacities, *claims], pods)


def _templates(count: int) -> Hostile:
    """As many templates in two profiles, 5,000 nodes, each template again and again."""
    pods = [
        _pod_requesting(f"p{turn}-{number}", {"cpu": f"{number + 1}m"}) for turn in range(3) for number in range(count)
    ]
    return Hostile(list(nodes(5000)), [pod for each in pods for pod in (each, _renamed(each))], profiles=2)


def _in_turn(count: int, size: int = 5000) -> Hostile:
    """Pods of as many templates in turn: on 5,000 nodes 1,000 are more than are cached."""
    pods = [
        _pod_requesting(f"p{number}", {"cpu": f"{number % count + 1}m", "memory": f"{number % count + 1}Mi"})
        for number in range(2 * MANY_TEMPLATES)
    ]
    return Hostile(list(nodes(size)), pods)


def _crowd_apart(count: int) -> Hostile:
    """As many running pods, each keeping its own kind off its host, then plain pods and such pods in turn."""
    standing = [_on(_apart(f"s{number}", f"app-{number}"), number % 1000) for number in range(count)]
    arriving = [_apart(f"p{number}", f"app-{number}") for number in range(20)]
    return Hostile([*nodes(1000), *standing], [*arriving, *(pod(f"q{each}", [], gated=False) for each in range(20))])


def _many_terms(count: int) -> Hostile:
    """As many running pods of one namespace, each with labels of its own, and pods with 64 terms about them."""
    standing = [
        _labelled(_on(pod(f"s{number}", [], gated=False), number % 1000), {"app": f"app-{number}", "tier": "web"})
        for number in range(count)
    ]
    return Hostile([*nodes(1000), *standing], [_apart(f"p{number}", *_APPS) for number in range(10)])


def _full(count: int) -> Hostile:
    """As many nodes filled by pods of low priority, and pods that need preemption."""
    standing = [_on(_pod_requesting(f"s{number}", {"cpu": "60"}), number) for number in range(count)]
    arriving = [_pod_requesting(f"p{number}", {"cpu": "32"}) for number in range(60)]
    for document in arriving:
        document["spec"]["priority"] = 100
    return Hostile([*nodes(count), *standing], arriving)


def _many_claims(count: int) -> Hostile:
    """As many nodes with four local volumes each, and pods with 64 claims."""
    volumes = [local_volume(node, number) for node in range(count) for number in range(4)]
    names = [[f"c{number}-{each}" for each in range(64)] for number in range(5)]
    claims = [claim(name, 1 + each % 9) for owned in names for each, name in enumerate(owned)]
    pods = [pod(f"p{number}", owned, gated=False) for number, owned in enumerate(names)]
    return Hostile([storage_class(), *nodes(count), *volumes, *claims], pods)


def _provisioned(count: int) -> Hostile:
    """As many nodes, each with a CSIStorageCapacity of its own, and pods with 64 claims, half of them too large."""
    few = _with_capacities(count)
    names = [[f"many{number}-{each}" for each in range(64)] for number in range(6)]
    claims = [
        claim(name, 1 + number % 2 * each) for number, owned in enumerate(names) for each, name in enumerate(owned)
    ]
    pods = [pod(f"many{number}", owned, gated=False) for number, owned in enumerate(names)]
    return Hostile([*few.standing, *claims], pods)


def _excluding_pods(terms: int) -> Hostile:
    """Pods with as many terms of anti-affinity about 10,000 pods, each of which has a label of its own."""
    standing = _many_terms(10_000).standing
    selectors = [[_not_in("app", f"x{number}-{each}") for each in range(terms)] for number in range(3)]
    arriving = [pod(f"p{number}", [], gated=False) for number in range(3)]
    for document, wanted in zip(arriving, selectors, strict=True):
        about = [{"topologyKey": HOSTNAME, "labelSelector": {"matchExpressions": [each]}} for each in wanted]
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": about}}
        document["spec"]["affinity"] = affinity
    return Hostile(standing, arriving)


def _spread(constraints: int) -> Hostile:
    """Pods with as many topology spread constraints over 10,000 pods, each of which has a label of its own."""
    standing = _many_terms(10_000).standing
    arriving = [pod(f"p{number}", [], gated=False) for number in range(3)]
    for document in arriving:
        document["spec"]["topologySpreadConstraints"] = [
            {
                "maxSkew": 1 + number,
                "topologyKey": HOSTNAME,
                "whenUnsatisfiable": "DoNotSchedule" if number % 2 else "ScheduleAnyway",
                "labelSelector": {"matchExpressions": [_not_in("app", f"x{number}")]},
            }
            for number in range(constraints)
        ]
    return Hostile(standing, arriving)


def _excluding_nodes(terms: int) -> Hostile:
    """Pods with as many terms of node affinity, required and preferred, each of which excludes one of 5,000 nodes."""
    arriving = [pod(f"p{number}", [], gated=False) for number in range(3)]
    for number, document in enumerate(arriving):
        wanted = [{"matchExpressions": [_not_in(HOSTNAME, f"x{number}-{each}")]} for each in range(terms)]
        preferred = [{"weight": 1, "preference": each} for each in wanted]
        document["spec"]["affinity"] = {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": wanted},
                "preferredDuringSchedulingIgnoredDuringExecution": preferred,
            }
        }
    return Hostile(list(nodes(5000)), arriving)


def _outspoken(pods: int) -> Hostile:
    """As many running pods with 60 KB of anti-affinity each, which has to be evaluated for every other pod."""
    standing = [_on(_apart_by_many(f"s{number}"), number % 1000) for number in range(pods)]
    return Hostile([*nodes(1000), *standing], [pod(f"p{number}", [], gated=False) for number in range(3)])


def _apart_by_many(name: str) -> Document:
    document = pod(name, [], gated=False)
    values = [[f"{name}-{term}-{each}" for each in range(17)] for term in range(200)]
    terms = [
        {
            "topologyKey": HOSTNAME,
            "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": each}]},
        }
        for each in values
    ]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    document["spec"]["affinity"] = affinity
    return document


def _resources(count: int) -> Hostile:
    """Pods that request as many extended resources, which none of 5,000 nodes has."""
    arriving = [
        _pod_requesting(f"p{number}", {f"example.com/r{number}-{each}": "1" for each in range(count)})
        for number in range(3)
    ]
    return Hostile(list(nodes(5000)), arriving)


def _not_in(key: str, value: str) -> Document:
    return {"key": key, "operator": "NotIn", "values": [value]}


_APPS: Final = tuple(f"app-{number}" for number in range(64))

_INPUTS: Final[dict[str, tuple[Callable[[int], Hostile], int]]] = {
    "1,500 nodes with a CSIStorageCapacity each": (_with_capacities, 1500),
    "200 templates in two profiles, 5,000 nodes": (_templates, 200),
    "1,000 templates in turn, 5,000 nodes": (_in_turn, 1000),
    "10,000 pods with anti-affinity to their kind by host": (_crowd_apart, 10_000),
    "64 terms of anti-affinity, 10,000 pods in the namespace": (_many_terms, 10_000),
    "60 pods that preempt on 1,000 full nodes": (_full, 1000),
    "5 pods with 64 claims, 1,000 nodes with 4 local volumes": (_many_claims, 1000),
    "6 pods with 64 claims, 1,500 nodes with a CSIStorageCapacity each": (_provisioned, 1500),
    "64 terms NotIn of anti-affinity, 10,000 different pods": (_excluding_pods, 64),
    "32 topology spread constraints, 10,000 different pods": (_spread, 32),
    "200 terms NotIn of node affinity, required and preferred, 5,000 nodes": (_excluding_nodes, 200),
    "200 running pods with 60 KB of anti-affinity each": (_outspoken, 200),
    "500 requested resources, 5,000 nodes": (_resources, 500),
}


def _pod_requesting(name: str, requests: dict[str, str]) -> Document:
    document = pod(name, [], gated=False)
    document["spec"]["containers"][0]["resources"] = {"requests": requests}
    return document


def _renamed(document: Document) -> Document:
    return {**document, "metadata": {**document["metadata"], "name": f"{document['metadata']['name']}-b"}}


def _labelled(document: Document, labels: dict[str, str]) -> Document:
    return {**document, "metadata": {**document["metadata"], "labels": labels}}


def _on(document: Document, node: int) -> Document:
    return {**document, "spec": {**document["spec"], "nodeName": f"node-{node:04}"}}


def _apart(name: str, *apps: str) -> Document:
    terms = [{"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}} for app in apps]
    document = _labelled(pod(name, [], gated=False), {"app": apps[0]})
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return {**document, "spec": {**document["spec"], "affinity": affinity}}


def _capacity(number: int) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": f"made-{number}", "namespace": NAMESPACE},
        "storageClassName": CLASS,
        "nodeTopology": {"matchLabels": {HOSTNAME: f"node-{number:04}"}},
        "capacity": "10Gi",
    }
