"""What of an object is taken off, and what stays because another writer made it or something came of it."""

from datetime import timedelta

import pytest

from binder.reservation.contract import Annotations, ClaimReservation, Holder, VolumeReservation
from kube.objects.model import BOUND_BY_CONTROLLER, ClaimReference
from prebinder.uninstall.traces import Part, claim_removal, left_to_people, pod_removal, volume_removal
from tests.builders import EPOCH, claim, pod, volume

PREFIX = "storage.example/"
OURS = Annotations(PREFIX)
ALL = tuple(Part)
LATER = EPOCH + timedelta(minutes=5)
CLAIM = claim(
    "data",
    annotations={k: v for k, v in OURS.for_claim(ClaimReservation("pv-1", EPOCH, LATER)).items() if v},
)
RESERVED = OURS.for_volume(VolumeReservation(CLAIM.key, CLAIM.uid, EPOCH, LATER, Holder("me", 1)))
RECORD = OURS.claim_ref_record(CLAIM)
MARKED = {f"{PREFIX}quarantine": "DataLoss", f"{PREFIX}quarantined-at": "2026-01-01T00:00:00Z"}
PLACEHOLDER = ClaimReference("pvc-prebinder-system", "quarantine-pv-1")
ASIDE = {
    f"{PREFIX}set-aside-for": "default/data",
    f"{PREFIX}set-aside-for-uid": "uid-default-data",
    f"{PREFIX}set-aside-at": "2026-01-01T00:00:00Z",
}
KEPT = ClaimReference("pvc-prebinder-system", "set-aside-pv-1")
OTHERS = {"example.com/mine": "1", "scheduler.cloud.example/reserved-for": "another/prefix"}
NO_REFERENCE = {"claimRef": None}


def none_of(*annotations: dict[str, str]) -> dict[str, object]:
    return {"annotations": {key: None for present in annotations for key in present}}


def test_only_our_gate_is_lifted() -> None:
    lifted = pod_removal(pod(scheduling_gates=["example.com/other", f"{PREFIX}volumes"]), OURS, ALL)
    assert lifted is not None
    assert lifted.body == {"spec": {"schedulingGates": [{"name": "example.com/other"}]}}
    alone = pod_removal(pod(scheduling_gates=[f"{PREFIX}volumes"]), OURS, ALL)
    assert alone is not None
    assert alone.body == {"spec": {"schedulingGates": None}}
    assert pod_removal(pod(scheduling_gates=["scheduler.cloud.example/volumes"]), OURS, ALL) is None
    assert pod_removal(pod(scheduling_gates=[f"{PREFIX}volumes"]), OURS, [Part.HEALTH]) is None


def test_a_claim_keeps_the_annotations_of_others() -> None:
    removal = claim_removal(CLAIM, OURS, ALL)
    assert removal is not None
    assert removal.body["metadata"] == none_of(dict(CLAIM.annotations))
    assert claim_removal(claim(annotations=OTHERS), OURS, ALL) is None


def test_nothing_is_left_of_what_mode_provision_recorded_on_a_claim() -> None:
    records = {OURS.selected_at: "2026-01-01T00:00:00Z", OURS.awaits_node: "uid-pod 2026-01-01T00:00:00Z"}
    removal = claim_removal(claim(annotations={**records, **OTHERS}), OURS, ALL)
    assert removal is not None
    assert removal.body["metadata"] == none_of(records)


@pytest.mark.parametrize(
    ("subject", "named", "gone", "spec"),
    [
        pytest.param(volume(annotations=RESERVED | OTHERS), None, [RESERVED], None, id="a hint"),
        pytest.param(
            volume(annotations=RESERVED | RECORD, claim="default/data"),
            CLAIM,
            [RESERVED, RECORD],
            NO_REFERENCE,
            id="a commitment of ours",
        ),
        pytest.param(
            volume(annotations=RESERVED | RECORD | {BOUND_BY_CONTROLLER: "yes"}, claim="default/data"),
            None,
            [RESERVED, RECORD, {BOUND_BY_CONTROLLER: ""}],
            NO_REFERENCE,
            id="its claim is gone",
        ),
        pytest.param(
            volume(annotations=RESERVED, claim="default/data"), CLAIM, [RESERVED], None, id="another writer's claimRef"
        ),
        pytest.param(
            volume(annotations=RESERVED | RECORD, claim="default/data", phase="Bound"),
            CLAIM,
            [RESERVED, RECORD],
            None,
            id="bound by now",
        ),
        pytest.param(
            volume(annotations=RESERVED | RECORD, claim="default/data"),
            claim("data", volume_name="pv-1"),
            [RESERVED, RECORD],
            None,
            id="its claim names it already",
        ),
        pytest.param(volume(annotations=MARKED, claim=PLACEHOLDER), None, [MARKED], NO_REFERENCE, id="in quarantine"),
        pytest.param(volume(annotations=MARKED, claim="default/x"), None, [MARKED], None, id="taken out by hand"),
        pytest.param(volume(annotations=ASIDE, claim=KEPT), None, [ASIDE], NO_REFERENCE, id="set aside"),
        pytest.param(volume(annotations=ASIDE, claim="default/x"), None, [ASIDE], None, id="set aside, and taken"),
        pytest.param(
            volume(annotations={f"{PREFIX}health": "Degraded", f"{PREFIX}health-reason": "Slow"}),
            None,
            [{f"{PREFIX}health": "", f"{PREFIX}health-reason": ""}],
            None,
            id="health",
        ),
    ],
)
def test_a_volume_loses_what_is_ours(
    subject: object, named: object, gone: list[dict[str, str]], spec: dict[str, None] | None
) -> None:
    removal = volume_removal(subject, named, OURS, ALL)  # type: ignore[arg-type]
    assert removal is not None
    assert removal.body["metadata"] == none_of(*gone)
    assert removal.body.get("spec") == spec


def test_a_volume_without_anything_of_ours_is_left_alone() -> None:
    for untouched in (volume(annotations=OTHERS), volume(claim="default/data"), volume(claim=PLACEHOLDER)):
        assert volume_removal(untouched, None, OURS, ALL) is None


def test_one_part_leaves_the_others() -> None:
    full = volume(annotations=MARKED | {f"{PREFIX}health": "DataLoss"}, claim=PLACEHOLDER)
    removal = volume_removal(full, None, OURS, [Part.HEALTH])
    assert removal is not None
    assert removal.body == {"metadata": none_of({f"{PREFIX}health": ""})}


def test_reservations_stay_unless_they_are_named() -> None:
    held = volume(annotations=RESERVED | RECORD | {f"{PREFIX}health": "DataLoss"}, claim="default/data")
    removal = volume_removal(held, CLAIM, OURS, [Part.HEALTH, Part.QUARANTINE])
    assert removal is not None
    assert removal.body == {"metadata": none_of({f"{PREFIX}health": ""})}
    assert claim_removal(CLAIM, OURS, [Part.HEALTH, Part.QUARANTINE]) is None


def test_what_is_left_is_reported() -> None:
    assert left_to_people(volume(annotations=MARKED, claim=PLACEHOLDER), OURS, ALL) == ""
    assert left_to_people(volume(), OURS, ALL) == ""
    assert left_to_people(volume(annotations=ASIDE, claim=KEPT), OURS, ALL) == ""
    assert "set aside without its annotations" in left_to_people(volume(claim=KEPT), OURS, ALL)
    assert "quarantine release" in left_to_people(volume(claim=PLACEHOLDER), OURS, ALL)
    assert "Failed" in left_to_people(volume(annotations=MARKED, claim=PLACEHOLDER, phase="Failed"), OURS, ALL)
