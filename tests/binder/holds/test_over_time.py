"""Sets with a required spread over zones that are scaled up and down and restarted: no pod waits for a zone.

Holds are planned, and nodes allowed, by the rules of the product; the StatefulSet controller, the scheduler's choice
among the allowed nodes, and the binding of volumes are played here.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest

from kube.objects.constraints import Constraints, SpreadConstraint
from kube.objects.labels import LabelSelector
from kube.objects.model import Claim, Pod, Volume
from kube.pod_topology.topology_spread import spread_verdicts
from scheduler.state.cluster import view_of
from tests.binder.holds.sets import PREBIND, ZONES, held, nodes, passed, running, stateful_set
from tests.binder.views import view
from tests.builders import EPOCH, ZONE, pod, volume

MOST = 9
LABELS = {"app": "db"}
SPREAD = Constraints(spread=(SpreadConstraint(1, ZONE, selector=LabelSelector((("app", "db"),))),))
TEMPLATE = pod("db", labels=LABELS, constraints=SPREAD)


@dataclass
class Life:
    """A set of which all replicas are created and restarted at once, in any order, and its volumes.

    `bound` has the zone of each replica that has ever had a volume: claims outlive a scale-down.
    """

    random: Random
    free: dict[str, int]
    bound: dict[int, str] = field(default_factory=dict)
    running: set[int] = field(default_factory=set)
    held: dict[int, str] = field(default_factory=dict)

    def hold(self) -> None:
        """One pass of the hold controller, and what it writes."""
        owner = stateful_set(hold=str(MOST), template=TEMPLATE)
        plan = passed([*self._records(), *self._volumes()], owner)
        for ending in plan.endings:
            zone = self.held.pop(int(ending.claim.rpartition("-")[2]))
            self.free[zone] += 1
        for each in plan.holds:
            self.held[each.replica.ordinal] = each.zone
            self.free[each.zone] -= 1

    def schedule(self, wanted: set[int]) -> set[int]:
        """Schedule these replicas in any order, as often as that helps; return those that stay Pending."""
        while True:
            pending = self.random.sample(sorted(wanted - self.running), len(wanted - self.running))
            if not any(self._place(ordinal) for ordinal in pending):
                return set(pending)

    def _place(self, ordinal: int) -> bool:
        allowed = self._allowed(ordinal)
        own = self.bound.get(ordinal) or self.held.get(ordinal)
        zones = [zone for zone in ([own] if own else ZONES) if zone in allowed and (own or self.free[zone])]
        if not zones:
            return False
        zone = self.random.choice(zones)
        if ordinal not in self.bound:
            self.free[zone] -= self.held.pop(ordinal, None) is None
            self.bound[ordinal] = zone
        self.running.add(ordinal)
        return True

    def _allowed(self, ordinal: int) -> set[str]:
        """The zones that the spread allows."""
        cluster = view_of(view(PREBIND, *nodes(), *self._records()), EPOCH)
        (verdict,) = spread_verdicts(pod(f"db-{ordinal}", labels=LABELS, constraints=SPREAD), cluster)
        return {dict(each.labels)[ZONE] for number, each in enumerate(cluster.nodes) if verdict.allowed >> number & 1}

    def _records(self) -> Iterator[Claim | Pod | Volume]:
        owner = stateful_set(template=TEMPLATE)
        for ordinal, zone in self.bound.items():
            runs, *rest = running(owner, ordinal, zone)
            yield from rest
            if ordinal in self.running:
                assert isinstance(runs, Pod)
                claims = [claim.name for claim in runs.claims]
                yield pod(runs.name, claims=claims, node=runs.node_name, phase="Running", labels=LABELS)

    def _volumes(self) -> Iterator[Volume]:
        for ordinal, zone in self.held.items():
            yield held(f"held-{ordinal}", f"data-db-{ordinal}", zone)
        for zone, count in self.free.items():
            yield from (volume(f"free-{zone}-{number}", zone=zone) for number in range(count))


def pending_in(seed: int, *, holds: bool) -> int:
    """Return how many pods stay Pending for their zone in a random life of a set; volumes there are exactly enough."""
    random = Random(seed)
    life = Life(random, dict.fromkeys(ZONES, MOST // len(ZONES)))
    replicas, pending = 0, 0
    for _ in range(12):
        if holds:
            life.hold()
        match random.choice(("up", "down", "restart")):
            case "up":
                replicas = random.randint(replicas, MOST)
            case "down":
                replicas = random.randint(0, replicas)
                life.running = {ordinal for ordinal in life.running if ordinal < replicas}
            case "restart":
                # From the highest ordinal down, each when the one before runs (RollingUpdate).
                for ordinal in sorted(life.running, reverse=True):
                    life.running.discard(ordinal)
                    stuck = life.schedule({ordinal})
                    pending += len(stuck)
                    if stuck:
                        break
        pending += len(life.schedule(set(range(replicas))))
    assert set(life.bound) >= life.running
    return pending


@pytest.mark.parametrize("seed", range(100))
def test_no_pod_of_a_set_with_holds_waits_for_a_zone(seed: int) -> None:
    assert pending_in(seed, holds=True) == 0


def test_without_holds_pods_of_some_of_these_sets_do() -> None:
    stuck = [seed for seed in range(100) if pending_in(seed, holds=False)]
    assert len(stuck) > 10, stuck
