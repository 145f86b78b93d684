"""What an answer about a pod with many claims costs, in evaluations."""

from collections.abc import Iterator
from typing import ClassVar

from binder.health.node_storage import NodeStorage
from binder.matching.index import VolumeIndex
from binder.reservation.contract import Annotations
from kube.objects.model import Claim, NodeSelector
from kube.store.store import snapshot_of
from scheduler.extender.rules import Storage, pod_claims, suspect_places
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
