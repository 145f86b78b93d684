"""Reserve: what is reserved for a pod is available to no other."""

from dataclasses import replace

import pytest

from binder.assignment.volume_policy import reject_use
from binder.matching.index import VolumeIndex
from binder.matching.rejection import Reason, Rejection
from binder.model.view import View
from binder.reservation.contract import Annotations, Holder, VolumeReservation
from kube.objects.model import READ_WRITE_ONCE_POD, Record
from kube.store.store import snapshot_of
from scheduler.binding.reserve_volumes import ReserveVolumes
from scheduler.cycle.cycle import decide
from scheduler.framework.plugin import ScheduleResult
from scheduler.plugins.registry import default_profile
from scheduler.state.cluster import ClusterView, view_of
from scheduler.volumes.volume_binding import VolumeChoice
from tests import builders as made
from tests.fake_clock import START

RESERVE = ReserveVolumes()
RECORDS: tuple[Record, ...] = (
    made.node("node-a", zone="a"),
    made.node("node-b", zone="b"),
    made.storage_class(),
    made.storage_class("made", provisioner="disk.csi.example"),
    made.volume("pv-1"),
    made.volume("pv-2"),
    made.claim("one"),
    made.claim("two"),
    made.claim("new", storage_class="made"),
    made.claim("alone", access_modes=[READ_WRITE_ONCE_POD]),
)


def cluster(*more: Record) -> ClusterView:
    """What there is; a record of a kind and name that is there already takes its place."""
    snapshot = snapshot_of([*RECORDS, *more])
    return view_of(View(snapshot, VolumeIndex.of(snapshot.volumes.values())), START)


def placement(
    view: ClusterView, volumes: dict[str, str], *provision: str, pod: str = "web", node: str = "node-a"
) -> ScheduleResult:
    seen = view.storage.snapshot
    chosen = tuple((seen.claims[f"default/{claim}"], seen.volumes[name]) for claim, name in volumes.items())
    new = tuple(seen.claims[f"default/{claim}"] for claim in provision)
    return ScheduleResult(made.pod(pod, claims=[*volumes, *provision]), node, VolumeChoice(chosen, new))


def promised(view: ClusterView, decision: ScheduleResult) -> ClusterView:
    reserved = RESERVE.reserve(decision, view)
    assert isinstance(reserved, ClusterView)
    return reserved


def rejected(view: ClusterView, decision: ScheduleResult) -> Rejection:
    rejection = RESERVE.reserve(decision, view)
    assert isinstance(rejection, Rejection)
    return rejection


def test_a_pod_without_claims_changes_nothing() -> None:
    view = cluster()
    assert promised(view, ScheduleResult(made.pod(), "node-a", VolumeChoice())) is view


def test_a_reserved_volume_is_no_other_claims() -> None:
    view = cluster()
    after = promised(view, placement(view, {"one": "pv-1"}))
    volume = view.storage.snapshot.volumes["pv-1"]
    first, second = (view.storage.snapshot.claims[f"default/{name}"] for name in ("one", "two"))
    assert reject_use(after.storage, volume, START, first) is None
    kept = reject_use(after.storage, volume, START, second)
    assert kept is not None
    assert kept.reason is Reason.RESERVED_FOR_OTHER
    assert rejected(after, placement(view, {"two": "pv-1"}, pod="late")).reason is Reason.RESERVED_FOR_OTHER


def test_pods_decided_one_after_the_other_get_different_volumes() -> None:
    view, profile, taken = cluster(), default_profile("test"), []
    for name, claim in (("first", "one"), ("second", "two")):
        decision = decide(made.pod(name, claims=[claim]), view, profile)
        assert isinstance(decision, ScheduleResult)
        taken += [volume.name for _, volume in decision.volumes.volumes]
        view = promised(view, decision)
    assert sorted(taken) == ["pv-1", "pv-2"]


def test_all_claims_of_a_pod_or_none() -> None:
    view = cluster()
    busy = promised(view, placement(view, {"two": "pv-2"}, pod="other"))
    rejection = RESERVE.reserve(placement(view, {"one": "pv-1", "alone": "pv-2"}), busy)
    assert isinstance(rejection, Rejection)
    assert list(busy.storage.ledger.holds) == ["pv-2"]


def test_a_claim_reserved_for_one_pod_is_reserved_for_another_on_the_same_terms_only() -> None:
    view = cluster()
    first = promised(view, placement(view, {"one": "pv-1"}, "new"))
    again = promised(first, placement(view, {"one": "pv-1"}, "new", pod="twin"))
    assert again.storage.ledger == first.storage.ledger
    assert promised(first, placement(view, {"one": "pv-1"}, pod="twin", node="node-b")) is first


@pytest.mark.parametrize(
    ("volumes", "provision", "node"),
    [
        pytest.param({"one": "pv-2"}, (), "node-a", id="another volume"),
        pytest.param({}, ("one",), "node-a", id="a new volume"),
        pytest.param({}, ("new",), "node-b", id="a new volume for another node"),
        pytest.param({"new": "pv-2"}, (), "node-a", id="a volume that is there instead of a new one"),
    ],
)
def test_and_on_no_others(volumes: dict[str, str], provision: tuple[str, ...], node: str) -> None:
    view = cluster()
    first = promised(view, placement(view, {"one": "pv-1"}, "new"))
    rejection = rejected(first, placement(view, volumes, *provision, pod="twin", node=node))
    assert rejection.reason is Reason.CLAIM_RESERVED_ELSEWHERE
    assert "default/web" in rejection.offered


def test_a_claim_created_again_has_no_reservation() -> None:
    view = cluster()
    before = promised(view, placement(view, {"one": "pv-1"}))
    anew = cluster(made.claim("one", uid="another"))
    later = replace(anew, storage=replace(anew.storage, ledger=before.storage.ledger))
    after = promised(later, placement(anew, {"one": "pv-2"}, pod="late"))
    assert {hold.volume for hold in after.storage.ledger.of_claim("default/one")} == {"pv-1", "pv-2"}


HELD = VolumeReservation("default/two", "uid-default-two", START, START.replace(hour=13), Holder("host", 1))
CHANGED = [
    pytest.param(made.volume("pv-1", claim="elsewhere/thief"), Reason.CLAIMED_BY_OTHER, id="taken"),
    pytest.param(made.volume("pv-1", phase="Released"), Reason.NOT_AVAILABLE, id="not available"),
    pytest.param(made.volume("pv-1", deleting=True), Reason.VOLUME_DELETING, id="deleting"),
    pytest.param(
        made.volume("pv-1", annotations=Annotations().for_volume(HELD)), Reason.RESERVED_FOR_OTHER, id="reserved"
    ),
    pytest.param(
        made.volume("pv-1", annotations={"scheduler.cloud.example/quarantine": "Gone"}),
        Reason.QUARANTINED,
        id="unhealthy",
    ),
]


@pytest.mark.parametrize(("volume", "reason"), CHANGED)
def test_a_volume_that_changed_since_the_decision_is_looked_at_again(volume: Record, reason: Reason) -> None:
    decision = placement(cluster(), {"one": "pv-1"})
    assert rejected(cluster(volume), decision).reason is reason


def test_a_volume_that_is_gone() -> None:
    view = cluster(made.volume("pv-9"))
    assert rejected(cluster(), placement(view, {"one": "pv-9"})).reason is Reason.VOLUME_MISSING


def test_a_volume_requested_by_name_is_taken_even_if_unhealthy() -> None:
    given = made.volume("pv-1", claim="default/one", annotations={"scheduler.cloud.example/quarantine": "Gone"})
    view = cluster(given)
    assert "pv-1" in promised(view, placement(view, {"one": "pv-1"})).storage.ledger.holds


def test_a_read_write_once_pod_claim_is_one_pods_even_if_that_one_is_only_assumed() -> None:
    view = cluster(made.volume("pv-3", access_modes=[READ_WRITE_ONCE_POD]))
    decision = placement(view, {"alone": "pv-3"})
    assumed = promised(view, decision).with_pod(decision.pod, "node-b")
    assert promised(assumed, decision) is assumed
    rejection = rejected(assumed, placement(view, {"alone": "pv-3"}, pod="twin"))
    assert (rejection.reason, rejection.offered) == (Reason.VOLUME_IN_USE, "in use by pod default/web")
