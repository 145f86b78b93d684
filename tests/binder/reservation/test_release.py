"""The table of causes: one look at one object gives one answer, and nothing Kubernetes completed is taken back."""

from datetime import timedelta
from typing import Any

import pytest

from binder.reservation.contract import DEFAULT_PREFIX, Annotations
from binder.reservation.release import (
    Cause,
    Release,
    ReleaseContext,
    doubles,
    may_clear,
    release_of_claim,
    release_of_volume,
    take_back,
)
from kube.objects.model import BIND_COMPLETED, Claim, Record, Volume
from kube.store.store import snapshot_of
from tests.binder.world import reservation
from tests.builders import claim, node, pod, reference, volume
from tests.fake_clock import START

UID = "uid-persistentvolumeclaims-default/data"
OURS = reference("default/data")
COMPLETED = {BIND_COMPLETED: "yes"}
SAYS = {
    f"{DEFAULT_PREFIX}{word}": text
    for word, text in (
        ("reserved-volume", "pv-1"),
        ("bound-at", "2026-01-01T12:00:00Z"),
        ("expires-at", "2026-01-01T12:10:00Z"),
    )
}


WRITTEN = Annotations().claim_ref_record(claim(uid=UID))
"""The record beside a claimRef that it is ours."""


def held(**changes: Any) -> Volume:
    usual: dict[str, Any] = {"annotations": reservation("data") | WRITTEN, "zone": "a", "claim": OURS}
    return volume(**usual | changes)


def wanted(**changes: Any) -> Claim:
    usual: dict[str, Any] = {"uid": UID, "annotations": SAYS}
    return claim(**usual | changes)


USER, PLACE = pod(claims=["data"]), node(zone="a")
LATE = START + timedelta(minutes=10)


def look(*records: Record, late: bool = False) -> ReleaseContext:
    return ReleaseContext(snapshot_of(records), LATE if late else START, Annotations())


@pytest.mark.parametrize(
    ("records", "late", "cause", "clear"),
    [
        pytest.param((held(), wanted(), USER, PLACE), False, None, False, id="stands"),
        pytest.param((volume(claim=OURS), wanted(), USER, PLACE), True, None, False, id="not ours"),
        pytest.param((held(), wanted(), USER, PLACE), True, Cause.EXPIRED, True, id="its time is over"),
        pytest.param((held(), USER, PLACE), False, Cause.CLAIM_DELETED, True, id="no claim"),
        pytest.param((held(), wanted(uid="new"), USER, PLACE), False, Cause.CLAIM_DELETED, True, id="claim recreated"),
        pytest.param((held(), wanted(deleting=True), USER, PLACE), False, Cause.CLAIM_DELETED, True, id="claim ends"),
        pytest.param((held(), wanted(), PLACE), False, Cause.POD_DELETED, True, id="no pod"),
        pytest.param(
            (held(), wanted(), pod(claims=["data"], deleting=True), PLACE),
            False,
            Cause.POD_DELETED,
            True,
            id="pod ends",
        ),
        pytest.param((held(), wanted(), USER, node(zone="b")), False, Cause.NODE_GONE, True, id="no node reaches it"),
        pytest.param((held(zone=None), wanted(), USER), False, None, False, id="every node reaches it"),
        pytest.param(
            (held(claim=reference("default/data", UID)), wanted(), PLACE), False, Cause.POD_DELETED, True, id="our uid"
        ),
        pytest.param(
            (held(claim=reference("default/data", "x")), wanted(), PLACE), False, Cause.LOST, False, id="other uid"
        ),
        pytest.param(
            (held(claim=reference("default/other")), wanted(), USER, PLACE), False, Cause.LOST, False, id="taken"
        ),
        pytest.param(
            (held(claim=reference("data")), wanted(), USER, PLACE),
            False,
            Cause.LOST,
            False,
            id="reference without namespace",
        ),
        pytest.param((held(claim=None), wanted(), PLACE), False, Cause.POD_DELETED, False, id="a hint alone"),
        pytest.param(
            (held(annotations=reservation("data")), wanted(), PLACE),
            False,
            Cause.POD_DELETED,
            False,
            id="a hint, and another writer's reference by name",
        ),
        pytest.param(
            (held(annotations=reservation("data"), claim=reference("default/data", UID)), wanted(), USER, PLACE),
            True,
            Cause.EXPIRED,
            False,
            id="a hint, and kube-scheduler's reference",
        ),
        pytest.param(
            (held(), wanted(annotations=COMPLETED), PLACE), False, Cause.POD_DELETED, True, id="claim lost its volume"
        ),
        pytest.param((held(deleting=True), wanted(), USER, PLACE), False, Cause.LOST, True, id="volume ends"),
        pytest.param((held(phase="Failed"), wanted(), USER, PLACE), False, Cause.LOST, False, id="volume failed"),
        pytest.param(
            (held(phase="Released"), PLACE), False, Cause.CLAIM_DELETED, False, id="released: data may be on it"
        ),
        pytest.param(
            (held(phase="Bound"), wanted(volume_name="pv-1", annotations=COMPLETED, phase="Bound"), USER, PLACE),
            False,
            Cause.BOUND,
            False,
            id="bound",
        ),
        pytest.param(
            (held(phase="Bound"), wanted(volume_name="pv-1", annotations=COMPLETED), USER, PLACE),
            False,
            None,
            False,
            id="the claim's status is still to be written",
        ),
        pytest.param(
            (held(phase="Bound"), wanted(volume_name="pv-1", annotations=COMPLETED), USER, PLACE),
            True,
            Cause.BOUND,
            False,
            id="the claim's status is not written for too long",
        ),
        pytest.param(
            (held(), wanted(volume_name="pv-2", annotations=COMPLETED), USER, PLACE),
            False,
            None,
            False,
            id="claim being bound elsewhere",
        ),
        pytest.param(
            (held(), wanted(volume_name="pv-2", annotations=COMPLETED, phase="Bound"), USER, PLACE),
            False,
            Cause.LOST,
            True,
            id="claim bound elsewhere with all writes",
        ),
        pytest.param(
            (held(claim=None), wanted(), volume("pv-2", claim=reference("default/data", UID)), PLACE),
            False,
            None,
            False,
            id="another volume names the claim",
        ),
        pytest.param(
            (held(claim=reference("default/other", "o")), claim("other", uid="o"), wanted(), USER, PLACE),
            False,
            None,
            False,
            id="being bound to another claim",
        ),
        pytest.param(
            (held(claim=reference("default/other", "o")), claim("other", uid="o"), wanted(), USER, PLACE),
            True,
            Cause.LOST,
            False,
            id="being bound to another claim for too long",
        ),
        pytest.param(
            (held(claim=reference("default/other", "o"), phase="Bound"), claim("other", uid="o"), wanted(), USER),
            False,
            Cause.LOST,
            False,
            id="bound to another claim, as far as the volume goes",
        ),
        pytest.param((held(), wanted(volume_name="pv-1"), PLACE), False, None, False, id="bind in progress, pod gone"),
        pytest.param(
            (held(), wanted(volume_name="pv-1"), USER, PLACE),
            True,
            Cause.EXPIRED,
            False,
            id="bind in progress for too long",
        ),
        pytest.param(
            (held(), wanted(volume_name="pv-2"), USER, PLACE), False, Cause.LOST, True, id="claim bound elsewhere"
        ),
        pytest.param(
            (held(), wanted(uid="new", volume_name="pv-1"), USER, PLACE),
            False,
            Cause.CLAIM_DELETED,
            False,
            id="recreated claim has it",
        ),
    ],
)
def test_why_a_volume_is_released(records: tuple[Record, ...], late: bool, cause: Cause | None, clear: bool) -> None:
    release = release_of_volume("pv-1", look(*records, late=late))
    if cause is None:
        assert release is None
    else:
        assert release is not None
        assert (release.cause, release.clear_reference) == (cause, clear)


def test_the_claim_that_says_so_is_named_first_and_no_other() -> None:
    release = release_of_volume("pv-1", look(held(), wanted(), PLACE))
    assert release is not None
    assert release.claim == wanted()
    untold = release_of_volume("pv-1", look(held(), wanted(annotations={}), PLACE))
    assert untold is not None
    assert untold.claim is None


@pytest.mark.parametrize(
    ("records", "late", "cause"),
    [
        pytest.param((wanted(), held()), False, None, id="the volume's side stands"),
        pytest.param((claim(uid=UID), held()), False, None, id="says nothing"),
        pytest.param((wanted(),), False, Cause.LOST, id="volume deleted"),
        pytest.param((wanted(), volume()), False, Cause.LOST, id="volume says nothing"),
        pytest.param((wanted(uid="new"), held()), False, Cause.LOST, id="held for an earlier claim"),
        pytest.param((wanted(),), True, Cause.EXPIRED, id="its time is over"),
        pytest.param((wanted(volume_name="pv-1"), volume()), False, Cause.BOUND, id="bound"),
        pytest.param(
            (wanted(volume_name="pv-1", annotations=SAYS | COMPLETED), volume()), False, None, id="being bound"
        ),
        pytest.param(
            (wanted(), volume(), volume("pv-2", claim=reference("default/data", UID))),
            False,
            None,
            id="another volume names it",
        ),
        pytest.param(
            (wanted(annotations=SAYS | {Annotations().expires_at: "x"}), held()),
            False,
            Cause.MALFORMED,
            id="broken",
        ),
    ],
)
def test_why_a_claim_is_released(records: tuple[Record, ...], late: bool, cause: Cause | None) -> None:
    release = release_of_claim("default/data", look(*records, late=late))
    assert (release and release.cause) == cause


BROKEN = {Annotations().expires_at: "x"}


@pytest.mark.parametrize(
    ("annotations", "on_claim", "clear"),
    [
        pytest.param(reservation("data", expires_at="x") | WRITTEN, {}, True, id="one value is broken"),
        pytest.param(WRITTEN, {}, True, id="all else is gone"),
        pytest.param(reservation("data", expires_at="x"), SAYS, False, id="nothing says that we wrote it"),
        pytest.param(
            BROKEN | Annotations().claim_ref_record(claim("other", uid=UID)),
            SAYS,
            False,
            id="it was written for another claim",
        ),
        pytest.param(BROKEN | {Annotations().claim_ref: "default/data"}, SAYS, False, id="the record is broken"),
    ],
)
def test_a_reference_beside_garbage_goes_only_if_it_is_proven_ours(
    annotations: dict[str, str], on_claim: dict[str, str], clear: bool
) -> None:
    release = release_of_volume("pv-1", look(held(annotations=annotations), wanted(annotations=on_claim), USER, PLACE))
    assert release == Release(Cause.MALFORMED, held(annotations=annotations), clear_reference=clear)


def test_of_two_volumes_the_older_stays_then_the_first_by_name() -> None:
    older, first, second = (
        held(name="pv-9", annotations=reservation("data", minutes=-1)),
        held(name="pv-1"),
        held(name="pv-2"),
    )
    surplus = doubles(wanted(), look(older, first, second, wanted()).snapshot, Annotations())
    assert [release.volume for release in surplus] == [first, second]
    assert release_of_volume("pv-9", look(older, first, wanted(), USER, PLACE)) is None


def test_of_two_volumes_the_one_the_claim_binds_to_stays() -> None:
    bound = wanted(volume_name="pv-2")
    surplus = doubles(bound, look(held(name="pv-1"), held(name="pv-2"), bound).snapshot, Annotations())
    assert [release.volume.name for release in surplus if release.volume] == ["pv-1"]


@pytest.mark.parametrize(
    ("phase", "claim", "allowed"),
    [
        pytest.param("Available", wanted(), True, id="unbound"),
        pytest.param("Available", None, True, id="gone"),
        pytest.param("Bound", wanted(), False, id="volume bound"),
        pytest.param("Available", wanted(volume_name="pv-1"), False, id="claim names it"),
        pytest.param("Available", wanted(volume_name="pv-2"), True, id="claim names another"),
        pytest.param("Available", wanted(annotations=COMPLETED), True, id="claim lost its volume"),
    ],
)
def test_the_safe_rule(phase: str, claim: Claim | None, allowed: bool) -> None:
    assert may_clear(held(phase=phase), claim) is allowed


RECREATED = wanted(uid="new")
FOR_A_THIRD = reservation("other") | WRITTEN


@pytest.mark.parametrize(
    ("there", "present", "clear"),
    [
        pytest.param(held(), wanted(), True, id="as it was written"),
        pytest.param(held(), None, True, id="the claim is gone"),
        pytest.param(held(), RECREATED, True, id="the claim was created again"),
        pytest.param(held(claim=None), wanted(), False, id="no claimRef"),
        pytest.param(held(claim=reference("default/other")), wanted(), False, id="given to another claim"),
        pytest.param(held(annotations=reservation("data")), wanted(), False, id="another writer's claimRef"),
        pytest.param(held(annotations=WRITTEN), wanted(), True, id="the record of the claimRef alone"),
        pytest.param(held(annotations=FOR_A_THIRD), wanted(), True, id="reserved for another claim since"),
        pytest.param(held(phase="Bound"), wanted(), False, id="bound"),
        pytest.param(held(annotations={}), wanted(), None, id="nothing of ours"),
        pytest.param(
            held(annotations=reservation("data", reserved_for_uid="new") | WRITTEN),
            RECREATED,
            None,
            id="held for the claim created again",
        ),
        pytest.param(
            held(annotations=reservation("data") | WRITTEN | {Annotations().hold_claim: "default/data"}),
            wanted(),
            None,
            id="kept for a name",
        ),
    ],
)
def test_an_attempt_takes_back_what_it_wrote_and_nothing_else(
    there: Volume, present: Claim | None, clear: bool | None
) -> None:
    records = (there, PLACE) if present is None else (there, present, PLACE)
    release = take_back("pv-1", wanted(), snapshot_of(records), Annotations())
    assert (release and release.clear_reference) == clear
    assert release is None or release.claim == present or present in (None, RECREATED)


def test_a_claim_ref_that_this_attempt_wrote_needs_no_record() -> None:
    there = snapshot_of([held(annotations={}), wanted(), PLACE])
    release = take_back("pv-1", wanted(), there, Annotations(), written=True)
    assert release is not None
    assert release.clear_reference
    assert take_back("pv-2", wanted(), there, Annotations(), written=True) is None
