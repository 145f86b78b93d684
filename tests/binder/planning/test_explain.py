"""How much is looked at to explain rejections, and what is reported instead when that was enough."""

from collections.abc import Iterator

from binder.matching.rejection import Reason
from binder.model.decision import Reject
from binder.planning.explain import MAX_EVALUATIONS
from binder.planning.plan import plan
from binder.reporting.rejection_note import rejection_note
from kube.objects.model import ClaimReference, Record
from tests.binder.views import NOW, planned, view
from tests.builders import claim, node, pod, volume

VOLUMES = 1000


def crowded(pods: int, *, alike: bool, bound: bool) -> Iterator[Record]:
    """As many pods that no volume fits: of one shape or of as many shapes, beside volumes of others or too small."""
    yield node()
    for number in range(VOLUMES):
        owner = ClaimReference("other", f"c{number}", f"uid-{number}") if bound else None
        yield volume(f"pv-{number:04}", size="1Gi", claim=owner, phase="Bound" if bound else "Available")
    for number in range(pods):
        yield claim(f"c{number}", size=f"{10 if alike else 10 + number}Gi")
        yield pod(f"p{number}", claims=(f"c{number}",))


def rejections(*records: Record) -> list[Reject]:
    rejected = [decision for decision in planned(view(*records)).values() if isinstance(decision, Reject)]
    return sorted(rejected, key=lambda rejection: int(rejection.pod.name[1:]))


def test_many_equal_pods_are_explained_by_one_evaluation_and_each_with_its_own_names() -> None:
    assert 200 * VOLUMES > MAX_EVALUATIONS
    rejected = rejections(*crowded(200, alike=True, bound=False))
    assert {rejection.reason for rejection in rejected} == {Reason.NO_VOLUME_FITS}
    assert [rejection.rejections[0].subject for rejection in rejected] == [
        f"default/c{number}" for number in range(200)
    ]
    assert {rejection.rejections[0].offered for rejection in rejected} == {
        f"{VOLUMES} volumes of the class: {VOLUMES} TooSmall"
    }
    assert [rejection.subject for rejection in rejected[7].rejections[1:]] == [f"pv-{number:04}" for number in range(4)]


def test_volumes_bound_to_others_are_counted_once_for_claims_of_all_shapes() -> None:
    assert 200 * VOLUMES > MAX_EVALUATIONS
    rejected = rejections(*crowded(200, alike=False, bound=True))
    assert {rejection.reason for rejection in rejected} == {Reason.NO_VOLUME_FITS}
    counted = f"{VOLUMES} volumes of the class: {VOLUMES} ClaimedByOther"
    assert {rejection.rejections[0].offered for rejection in rejected} == {counted}
    assert "no claimRef, or default/c7" in rejected[7].rejections[1].wanted


def test_a_claim_that_a_volume_names_is_not_explained_by_another_of_its_shape() -> None:
    mine = volume("mine", size="2Gi", claim=ClaimReference("default", "c1", "uid-of-an-earlier-c1"), phase="Available")
    rejected = rejections(mine, *crowded(2, alike=True, bound=True))
    assert [rejection.rejections[1].subject for rejection in rejected] == ["mine", "mine"]
    assert "with uid uid-of-an-earlier-c1" not in rejected[0].rejections[1].offered
    assert "with uid uid-of-an-earlier-c1" in rejected[1].rejections[1].offered


def test_a_cluster_without_nodes_lacks_no_volume() -> None:
    (rejected,) = rejections(volume("pv-1"), claim("c0"), pod("p0", claims=("c0",)))
    assert rejected.reason is Reason.NO_NODE_FITS
    (rejection,) = rejected.rejections
    assert (rejection.wanted, rejection.offered) == ("a node", "none")
    note = rejection_note(rejected)
    assert note.startswith("No volumes reserved: NoNodeFits. Add or free up a node")
    assert "Add a volume" not in note


def test_pods_beyond_the_explained_ones_get_an_event_and_are_explained_later() -> None:
    many = 2 * MAX_EVALUATIONS // VOLUMES
    seen = view(*crowded(many, alike=False, bound=False))
    first = plan(seen, seen.snapshot.pods.values(), NOW)
    assert all(isinstance(decision, Reject) for decision in first)
    later = [decision.pod for decision in first if decision.reason is Reason.EXPLANATION_PENDING]  # type: ignore[union-attr]
    assert 0 < len(later) < many
    again = plan(seen, later[:5], NOW)
    assert {decision.reason for decision in again} == {Reason.NO_VOLUME_FITS}  # type: ignore[union-attr]


def test_replicas_that_share_a_claim_nothing_fits_are_rejected_together() -> None:
    records: list[Record] = [node(), volume("pv", size="1Gi"), claim("shared", size="10Gi")]
    replicas = [pod(f"p{number}", claims=("shared",)) for number in range(50)]
    rejected = rejections(*records, *replicas)
    assert [rejection.pod.name for rejection in rejected] == [replica.name for replica in replicas]
    assert len({rejection.rejections for rejection in rejected}) == 1


def test_pods_of_many_kinds_that_share_a_claim_take_several_passes() -> None:
    records: list[Record] = [node(), volume("pv", size="1Gi"), claim("shared", size="10Gi")]
    odd = [pod(f"p{number}", claims=("shared",), requests={"cpu": f"{number + 1}m"}) for number in range(50)]
    decisions = planned(view(*records, *odd)).values()
    reasons = [decision.reason for decision in decisions]  # type: ignore[union-attr]
    assert set(reasons) == {Reason.NO_VOLUME_FITS, Reason.PROGRESSING}
