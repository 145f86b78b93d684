"""A volume that is held, that replaces another or that was replaced: no rule about reservations gives it away."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from binder.assignment.volume_policy import reject_use
from binder.health.quarantine import Pools, quarantine_step
from binder.matching.index import VolumeIndex
from binder.matching.rejection import Reason
from binder.model.view import View
from binder.reservation.contract import Annotations, Holder, VolumeReservation
from binder.reservation.pins import KeptVolume, Replacement, ReplicaHold, for_hold, for_kept, for_replacement
from binder.reservation.release import ReleaseContext, doubles, former_reservations, release_of_volume, take_back
from binder.writers.attempt import same_offer
from csi.health.health import HealthFinding
from csi.health.verdict import HealthState
from kube.objects.model import Claim, ClaimReference, Volume
from kube.store.snapshot import Snapshot
from kube.store.store import snapshot_of
from prebinder.metrics.collectors.available import available_gauges
from prebinder.reservations.rows import Status, reservation_rows
from prebinder.uninstall.traces import Part, left_to_people, volume_removal
from scheduler.extender.rules import problem_of_volume
from tests.builders import EPOCH, claim, reference, volume

OURS = Annotations()
KEY = "default/data-db-3"
SAME_NAME = claim("data-db-3")
ANOTHER = claim("other")
HOLD = for_hold(ReplicaHold(KEY, "uid-set", Holder("me", 1)), OURS)
REPLACES = for_replacement(Replacement(KEY, "uid-old", "pv-old", "uid-ns"), OURS)
WAS_FOR = for_kept(KeptVolume(KEY, "uid-old", "uid-ns"), OURS)
BROKEN = [{key: ""} for key in (*HOLD, *REPLACES, *WAS_FOR)]
RESERVED = OURS.for_volume(
    VolumeReservation(KEY, SAME_NAME.uid, EPOCH, EPOCH + timedelta(minutes=5), Holder("me", 1))
) | OURS.claim_ref_record(SAME_NAME)
LOST = HealthFinding(HealthState.DATA_LOSS, "Gone", "the disk is gone", "CSI driver", EPOCH)

Rule = Callable[[Volume, Snapshot], object]


def release(pinned: Volume, snapshot: Snapshot) -> object:
    ending = release_of_volume(
        pinned.name, ReleaseContext(snapshot, EPOCH + timedelta(hours=1), OURS, never_bound=True)
    )
    return ending is not None and ending.clear_reference


def surplus(pinned: Volume, snapshot: Snapshot) -> object:
    releases = (*doubles(SAME_NAME, snapshot, OURS), *former_reservations(SAME_NAME, volume("pv-2"), snapshot, OURS))
    return any(each.clear_reference for each in releases)


def uninstalled(pinned: Volume, snapshot: Snapshot) -> object:
    removal = volume_removal(pinned, snapshot.claims.get(KEY), OURS, tuple(Part))
    is_hold = any(key in HOLD for key, _ in pinned.annotations)
    return not is_hold and removal is not None and "spec" in removal.body


RULES: dict[str, Rule] = {
    "release": release,
    "doubles": surplus,
    "rollback": lambda pinned, snapshot: take_back(pinned.name, SAME_NAME, snapshot, OURS, written=True),
    "quarantine": lambda pinned, _: quarantine_step(pinned, LOST, OURS),
    "uninstall": uninstalled,
    "an offer that changed": lambda pinned, _: same_offer(volume("pv-1"), pinned, SAME_NAME, OURS, EPOCH),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("named", [None, reference(KEY), reference(KEY, SAME_NAME.uid)], ids=["free", "name", "uid"])
@pytest.mark.parametrize("phase", ["Available", "Bound", "Released"])
@pytest.mark.parametrize("pin", [HOLD, REPLACES, WAS_FOR, *BROKEN], ids=",".join)
@pytest.mark.parametrize("reserved", [{}, RESERVED], ids=["alone", "with a forged reservation"])
def test_no_rule_about_reservations_gives_it_away(
    rule: Rule, named: ClaimReference | None, phase: str, pin: dict[str, str], reserved: dict[str, str]
) -> None:
    pinned = volume("pv-1", annotations=reserved | pin, claim=named, phase=phase)
    for claims in ([], [SAME_NAME]):
        assert not rule(pinned, snapshot_of([pinned, *claims]))


PINS = [HOLD, REPLACES, WAS_FOR, *BROKEN]


@pytest.mark.parametrize("pin", PINS, ids=",".join)
@pytest.mark.parametrize("wanting", [SAME_NAME, ANOTHER], ids=["its own name", "another claim"])
def test_it_is_no_candidate_even_if_its_claim_ref_was_removed(pin: dict[str, str], wanting: Claim) -> None:
    pinned = volume("pv-1", annotations=pin)
    view = View(snapshot_of([pinned, wanting]), VolumeIndex.of([pinned]))
    rejected = reject_use(view, pinned, EPOCH, wanting)
    assert rejected is not None
    assert rejected.reason is Reason.RESERVED_FOR_OTHER
    problem = problem_of_volume(pinned, OURS)
    assert problem is not None
    assert problem.forbids([wanting], EPOCH)
    assert "ReservedForOther" in str(problem)


def test_its_own_claim_is_not_kept_from_a_volume_whose_claim_ref_names_it() -> None:
    assert problem_of_volume(volume(annotations=HOLD, claim=KEY), OURS) is None


@pytest.mark.parametrize("pin", PINS, ids=",".join)
def test_it_counts_as_available_nowhere(pin: dict[str, str]) -> None:
    pinned = volume("pv-1", annotations=pin)
    pools = Pools(OURS)
    pools.changed(None, pinned)
    assert not pools.available["fast"]
    gauges = available_gauges(snapshot_of([pinned]), OURS, EPOCH)
    assert [sample.value for family in gauges for sample in family.samples] == []


def test_uninstall_ends_holds_and_names_what_people_have_to_decide() -> None:
    held = volume("pv-1", annotations=HOLD, claim=KEY)
    removal = volume_removal(held, None, OURS, tuple(Part))
    assert removal is not None
    assert removal.body == {"metadata": {"annotations": dict.fromkeys(HOLD)}, "spec": {"claimRef": None}}
    assert left_to_people(held, OURS, tuple(Part)) == ""
    running = volume("pv-1", annotations=REPLACES, claim=KEY)
    assert "running replacement" in left_to_people(running, OURS, tuple(Part))
    kept = volume("pv-1", annotations=WAS_FOR, phase="Released", claim=reference(KEY, "uid-old"))
    assert "kept with the data" in left_to_people(kept, OURS, tuple(Part))
    assert volume_removal(kept, None, OURS, tuple(Part)) is None
    finished = volume("pv-1", annotations=REPLACES, phase="Bound", claim=reference(KEY, "uid-new"))
    removed = volume_removal(finished, SAME_NAME, OURS, tuple(Part))
    assert removed is not None
    assert removed.body == {"metadata": {"annotations": dict.fromkeys(REPLACES)}}


@pytest.mark.parametrize(
    ("pin", "phase", "status"),
    [
        pytest.param(HOLD, "Available", Status.FOR_REPLICA, id="held"),
        pytest.param(REPLACES, "Available", Status.REPLACING, id="replacing"),
        pytest.param(WAS_FOR | REPLACES, "Available", Status.REPLACING, id="given back"),
        pytest.param(WAS_FOR, "Released", Status.KEPT, id="kept"),
        pytest.param(REPLACES, "Bound", Status.BOUND, id="replaced"),
        pytest.param({OURS.hold_claim: KEY}, "Available", Status.INVALID, id="unreadable"),
    ],
)
def test_the_list_shows_it_without_an_end(pin: dict[str, str], phase: str, status: Status) -> None:
    pinned = volume("pv-1", annotations=pin, claim=KEY, phase=phase, zone="zone-a")
    (row,) = reservation_rows(snapshot_of([pinned]), OURS, {}, EPOCH)
    assert (row.status, row.expires, row.zone) == (status, None, "zone-a")
