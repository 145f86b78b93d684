"""What an answer about a pod with many claims costs, in evaluations, and how long it remains true."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import ClassVar

import pytest

from binder.health.node_storage import NodeStorage
from binder.matching.index import VolumeIndex
from binder.reservation.contract import Annotations, Holder, VolumeReservation
from kube.objects.labels import NodeSelector
from kube.objects.model import Claim
from kube.store.store import snapshot_of
from scheduler.extender.rules import NEVER, Storage, VolumeProblem, has_suspects, pod_claims, suspect_places
from tests import builders
from tests.fake_clock import START


class Counted(VolumeIndex):
    """Counts for how many claims the affinities are looked up."""

    looks: ClassVar[list[str]] = []

    def topologies(self, claim: Claim) -> Iterator[NodeSelector | None]:
        self.looks.append(claim.name)
        return super().topologies(claim)


def test_the_places_of_suspect_volumes_are_looked_up_once_for_claims_that_differ_in_size() -> None:
    claims = [builders.claim(f"c{number}", size=f"{1 + number}Gi") for number in range(64)]
    volumes = [builders.volume(f"pv-{number}", node=f"n{number}", size="9Gi") for number in range(10)]
    snapshot = snapshot_of([builders.storage_class(), *claims, *volumes])
    pod = pod_claims(snapshot, [claim.key for claim in claims], START, Annotations())
    suspect = Counted(VolumeIndex.of(volumes).shelves)
    storage = Storage(snapshot, VolumeIndex(), suspect, {}, NodeStorage())
    assert suspect_places(storage, pod) == {volume.node_affinity for volume in volumes}
    assert suspect.looks == ["c0"]
    assert has_suspects(storage, pod)
    assert suspect.looks == ["c0", "c0"]


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def held(begin: float, end: float, unhealthy: str = "") -> VolumeProblem:
    """A volume that is reserved for another's claim, from and to these seconds after the start."""
    return VolumeProblem(
        VolumeReservation("default/other", "uid", after(begin), after(end), Holder("us", 1)), unhealthy
    )


@pytest.mark.parametrize(
    ("problem", "until"),
    [
        pytest.param(held(-300, 300), after(300), id="in force"),
        pytest.param(held(-300, 0), NEVER, id="over"),
        pytest.param(held(-300, 300, "Inaccessible"), NEVER, id="unhealthy besides"),
        pytest.param(VolumeProblem(None, "Inaccessible"), NEVER, id="only unhealthy"),
        pytest.param(held(900, 1000), START, id="made in the future: not in force yet"),
        pytest.param(held(90, 1000), after(1000), id="made a little in the future"),
    ],
)
def test_what_is_against_a_volume_remains_true_until(problem: VolumeProblem, until: datetime) -> None:
    assert problem.until(START) == until
    if until > START:
        times = [START, after(100), after(299), after(799), after(999), after(1000), after(10**6)]
        answers = {problem.forbids([builders.claim()], time) for time in times if START <= time < until}
        assert len(answers) == 1
