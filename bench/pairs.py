"""Many pods with one claim each, created at once, and how soon each claim is reserved, bound and its pod placed."""

from dataclasses import dataclass
from statistics import quantiles
from time import monotonic

from bench.documents import NAMESPACE, claim, pod, volume
from bench.progress import say
from bench.stage import Stage, in_parallel, stage
from bench.timeline import Timeline
from devcluster.nodes import DEFAULT_ZONES
from kube.objects.api_resource import CLAIMS, PODS

LONGEST = 600.0
"""Seconds after which a run ends as it is."""


@dataclass(frozen=True, slots=True)
class Case:
    """How pairs are run. No mode means without our controller."""

    pairs: int
    mode: str = ""
    gated: bool = False
    lifted: bool = False
    wait_for_pods: bool = True

    @property
    def title(self) -> str:
        who = f"{self.mode}{', gate' if self.gated else ', no gate'}" if self.mode else "in-tree"
        return f"{self.pairs} pairs, {'lifted' if self.lifted else 'default'} limits, {who}"


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds from the creation of the pod, of those that got there."""

    count: int
    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class Outcome:
    case: Case
    per_second: float
    """Claims bound, over the time from the first request to the last bind."""
    creating: float
    """Seconds until the last pair was created."""
    reserved: Latency
    bound: Latency
    placed: Latency
    conflicts: int
    """Writes of ours that came too late."""


async def run_case(case: Case) -> Outcome:
    """Run one case on a control plane of its own."""
    say(f"{case.title}: starting a control plane")
    async with stage(lifted=case.lifted, pods=case.pairs) as ready:
        zones = DEFAULT_ZONES
        await ready.add_volumes([volume(f"volume-{n:05}", zones[n % len(zones)]) for n in range(case.pairs)])
        controller = await ready.start_controller(case.mode) if case.mode else None
        timeline = Timeline(ready.api)
        say(f"{case.title}: creating and binding")
        async with timeline.following():
            started = monotonic()
            await _create_pairs(ready, timeline, case)
            creating = monotonic() - started
            await timeline.until(lambda seen: len(seen.bound) == case.pairs, LONGEST)
            if case.wait_for_pods:
                await timeline.until(lambda seen: len(seen.placed) == case.pairs, LONGEST)
        conflicts = await controller.total("pvc_prebinder_write_conflicts_total") if controller else 0
    last = max(timeline.bound.values(), default=started)
    return Outcome(
        case,
        per_second=len(timeline.bound) / (last - started) if timeline.bound else 0.0,
        creating=creating,
        reserved=_latency(timeline, timeline.reserved),
        bound=_latency(timeline, timeline.bound),
        placed=_latency(timeline, timeline.placed),
        conflicts=round(conflicts),
    )


async def _create_pairs(ready: Stage, timeline: Timeline, case: Case) -> None:
    async def create(number: int) -> None:
        name = f"pair-{number:05}"
        await ready.api.create(CLAIMS, claim(name), NAMESPACE)
        timeline.created[name] = monotonic()
        await ready.api.create(PODS, pod(name, [name], gated=case.gated), NAMESPACE)

    await in_parallel(create(number) for number in range(case.pairs))


def _latency(timeline: Timeline, moments: dict[str, float]) -> Latency:
    seconds = sorted(moment - timeline.created[name] for name, moment in moments.items() if name in timeline.created)
    if len(seconds) < 2:
        return Latency(len(seconds), *(seconds * 2 or [float("nan")] * 2))
    cuts = quantiles(seconds, n=100, method="inclusive")
    return Latency(len(seconds), cuts[49], cuts[98])
