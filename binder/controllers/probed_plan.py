"""The decision about a pod whose volumes have all been probed: plan, probe the chosen volumes, plan again."""

from typing import Final

from binder.controllers.planner import Planner
from binder.model.decision import Decision, Finish, Reject, Reserve
from binder.writers.health_gate import MAX_SLOW, PATIENCE, HealthGate
from kube.clock import Clock

ROUNDS: Final = 10
"""Plans with probes in between, before the pod yields to others: together far shorter than an Unknown is believed, so
that none of them offers a volume that was Unknown in an earlier one.
"""
MAX_PROBE_SECONDS: Final = PATIENCE
"""Seconds that probes may take without making the plan too old to execute."""


async def probed_decision(planner: Planner, gate: HealthGate, clock: Clock, key: str) -> Decision | None:
    """Plan until every chosen volume has a recent verdict; None if that takes too long or the pod is gone.

    If it takes too long because drivers do not report on volumes, the pod is rejected for that.
    """
    withheld: Reject | None = None
    for _ in range(ROUNDS):
        decision = await planner.decide(key)
        if not isinstance(decision, Reserve | Finish):
            return decision
        began = clock.monotonic()
        try:
            # After a first volume without a verdict, those that may be chosen next are probed as well.
            spare = () if withheld is None else await planner.spare(decision, MAX_SLOW)
            probed = await gate.probe(decision.volumes, clock.now(), spare)
        except BaseException:
            planner.settled(key)
            raise
        if not probed or (clock.monotonic() - began <= MAX_PROBE_SECONDS and planner.stands(decision)):
            return decision
        withheld = planner.withheld(decision) or withheld
    planner.settled(key)
    return withheld
