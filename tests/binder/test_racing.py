"""Who may be committed: a pod whose claims kube-scheduler could take at the same time is only given a hint."""

import pytest

from binder.decision import Mode, Reserve
from binder.reservation import gate_name
from binder.view import PlanSettings
from kube.model import LabelSelector, Record
from tests import builders
from tests.binder.planning import planned, view

TRAP: tuple[Record, ...] = (
    # Smallest first gives the 10Gi claim the nvme volume, and then nothing is left for the claim that needs nvme.
    builders.volume("nvme", size="10Gi", zone="zone-a", labels={"media": "nvme"}),
    builders.volume("disk", size="20Gi", zone="zone-a"),
    builders.claim("any", size="5Gi"),
    builders.claim("fast", size="10Gi", selector=LabelSelector(match_labels=(("media", "nvme"),))),
)
PLAIN: tuple[Record, ...] = (
    builders.volume("pv-1", zone="zone-a"),
    builders.volume("pv-2", zone="zone-a"),
    builders.claim("any"),
    builders.claim("fast"),
)
GATED = (gate_name(),)


@pytest.mark.parametrize("asked", [Mode.PREBIND, Mode.COMPLETE])
@pytest.mark.parametrize(
    ("records", "claims", "gates", "committed"),
    [
        pytest.param(PLAIN, ("any", "fast"), (), False, id="kube-scheduler can serve it too"),
        pytest.param(PLAIN, ("any", "fast"), GATED, True, id="it waits behind our gate"),
        pytest.param(PLAIN, ("any",), (), True, id="one claim has one winner"),
        pytest.param(TRAP, ("any", "fast"), (), True, id="kube-scheduler cannot serve it"),
    ],
)
def test_commit_or_hint(
    asked: Mode, records: tuple[Record, ...], claims: tuple[str, ...], gates: tuple[str, ...], committed: bool
) -> None:
    pod = builders.pod("web", claims=claims, scheduling_gates=gates)
    seen = view(*records, pod, builders.node("node-1", zone="zone-a"), settings=PlanSettings(default_mode=asked))
    decision = planned(seen)["web"]
    assert isinstance(decision, Reserve)
    assert decision.mode is (asked if committed else Mode.ANNOTATE)
