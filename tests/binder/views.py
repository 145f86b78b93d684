"""What the planning tests share: views from records, and batches with a known solution."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from random import Random

from binder.matching.index import VolumeIndex
from binder.model.decision import Decision, Reserve
from binder.model.view import PlanSettings, View
from binder.planning.plan import plan
from binder.rebalance.integer_program import IntegerProgram, Solution, solve
from csi.health.verdict import Verdict
from kube.objects.labels import LabelSelector
from kube.objects.model import READ_WRITE_ONCE, Pod, Record
from kube.persistent_map import Map
from kube.store.store import snapshot_of
from tests.builders import EPOCH, claim, node, pod, storage_class, volume

NOW = EPOCH
MAX_SOLVED = 150
"""Columns."""


def view(
    *records: Record,
    settings: PlanSettings | None = None,
    verdicts: dict[tuple[str, str], Verdict] | None = None,
) -> View:
    """A view of these objects and a static class `fast` that waits for a pod."""
    snapshot = snapshot_of((storage_class(), *records))
    return View(
        snapshot=snapshot,
        index=VolumeIndex.of(snapshot.volumes.values()),
        settings=settings or PlanSettings(),
        verdicts=Map(verdicts or {}),
    )


def without_a_clock(program: IntegerProgram, _: float, /) -> Solution:
    """Solve what is solved soon on any machine, however long that takes; say of a whole large program nothing."""
    if len(program.start) > MAX_SOLVED:
        return Solution(program.start, inf, 0.0)
    return solve(program, 600.0)


def planned(seen: View) -> dict[str, Decision]:
    """Plan all pods of a view; decisions by the pod's name."""
    return {decision.pod.name: decision for decision in plan(seen, seen.snapshot.pods.values(), NOW)}


def chosen(decision: Decision) -> dict[str, str]:
    """The volume of each claim, by name; empty unless the pod gets volumes."""
    if not isinstance(decision, Reserve):
        return {}
    return {placement.claim.name: placement.volume.name for placement in decision.placements}


@dataclass(frozen=True)
class HiddenSolution:
    """A random batch: each pod's zone and sizes are drawn first, and exactly these volumes exist."""

    seed: int
    pods: int = 100
    zones: str = "abc"
    slack: tuple[int, ...] = (0, 0, 1, 2, 5, 10)
    mixed: bool = False

    def records(self) -> Iterable[Record]:
        random = Random(self.seed)
        for zone in self.zones:
            yield from (node(f"{zone}{number}", zone=zone, allocatable={"pods": "1000"}) for number in range(3))
        for number in range(self.pods):
            zone, names = random.choice(self.zones), []
            for part in range(random.choice((2, 3))):
                names.append(f"pod-{number}-{part}")
                yield from self._pair(random, names[-1], zone)
            yield pod(f"pod-{number}", claims=names)

    def _pair(self, random: Random, name: str, zone: str) -> Iterable[Record]:
        size = random.choice((5, 10, 20, 50, 100))
        labels, selector, modes, offered = {}, None, [READ_WRITE_ONCE], [READ_WRITE_ONCE]
        if self.mixed:
            labels = {"tier": random.choice(("gold", "silver"))}
            selector = LabelSelector(match_labels=tuple(labels.items())) if random.random() < 0.5 else None
            modes += ["ReadOnlyMany"] if random.random() < 0.3 else []
            offered = [*modes] if random.random() < 0.7 else [READ_WRITE_ONCE, "ReadOnlyMany"]
        yield claim(name, size=f"{size}Gi", selector=selector, access_modes=modes)
        capacity = f"{size + random.choice(self.slack)}Gi"
        yield volume(f"v{random.getrandbits(48):x}", size=capacity, zone=zone, labels=labels, access_modes=offered)


def pods_of(seen: View) -> list[Pod]:
    return list(seen.snapshot.pods.values())
