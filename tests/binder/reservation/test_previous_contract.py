"""Upgrade and downgrade: what the version before wrote, as recorded from it, and what it makes of what we write.

The previous version had no record of the claimRefs that it wrote (`claim-ref`). docs/upgrade.md is about both ways.
"""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Final

import pytest

from binder.health.published_health import health_annotations, published_health
from binder.health.quarantine import QuarantineStep, in_quarantine, quarantine_step, take_patch
from binder.reservation.contract import Annotations, ClaimReservation, Holder, VolumeReservation
from binder.reservation.release import Cause, ReleaseContext, release_of_volume
from binder.reservation.writes import (
    Patch,
    commit_volume,
    full_reference,
    name_reference,
    reserve_claim,
    reserve_volume,
)
from csi.health.health import HealthFinding
from csi.health.verdict import HealthState
from kube.objects.model import Claim, Volume
from kube.store.store import snapshot_of
from prebinder.config.settings import LeaderElectionSettings
from prebinder.preflight.requirements import CONTROLLER, SCHEDULER
from prebinder.uninstall.traces import Part, claim_removal, volume_removal
from tests.builders import claim, pod, reference, volume

PAGE: Final = (Path(__file__).parents[3] / "docs" / "upgrade.md").read_text()
OURS: Final = Annotations()
PREFIX: Final = "scheduler.cloud.example/"
MADE: Final = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)
ENDS: Final = MADE + timedelta(minutes=10)
UID: Final = "7b1c2f4e-0d51-4a6b-9f39-2f1f2a9b6c11"
GONE: Final = HealthFinding(HealthState.DATA_LOSS, "Gone", "", "CSI driver disk.csi.example", MADE)
HEALTHY: Final = HealthFinding(HealthState.HEALTHY, "", "", "CSI driver disk.csi.example", MADE)

# Recorded from the previous version.
VOLUME_THEN: Final = {
    "scheduler.cloud.example/reserved-for": "web/data-db-0",
    "scheduler.cloud.example/reserved-for-uid": UID,
    "scheduler.cloud.example/bound-at": "2026-01-01T10:00:00Z",
    "scheduler.cloud.example/expires-at": "2026-01-01T10:10:00Z",
    "scheduler.cloud.example/reserved-by": "pvc-prebinder-6d5f9c7b8-x2x4q_1a2b/3",
}
CLAIM_THEN: Final = {
    "scheduler.cloud.example/reserved-volume": "pv-7",
    "scheduler.cloud.example/bound-at": "2026-01-01T10:00:00Z",
    "scheduler.cloud.example/expires-at": "2026-01-01T10:10:00Z",
    "scheduler.cloud.example/reserved-zone": "zone-a",
    "scheduler.cloud.example/reserved-nodes": "node-1,node-2",
}
HEALTH_THEN: Final = {
    "scheduler.cloud.example/health": "DataLoss",
    "scheduler.cloud.example/health-reason": "Gone",
    "scheduler.cloud.example/health-since": "2026-01-01T10:00:00Z",
    "scheduler.cloud.example/health-source": "CSI driver disk.csi.example",
}
QUARANTINE_THEN: Final = {
    "scheduler.cloud.example/quarantine": "DataLoss: Gone",
    "scheduler.cloud.example/quarantined-at": "2026-01-01T10:00:00Z",
}
PLACEHOLDER_THEN: Final = "pvc-prebinder-system/quarantine-pv-7"
GATE_THEN: Final = "scheduler.cloud.example/volumes"
LEASES_THEN: Final = ("pvc-prebinder", "pvc-prebinder-scheduler")
ON_CLASSES_THEN: Final = "scheduler.cloud.example/mode"
FORMS_THEN: Final = {
    "reserved-for": r"[^/]+/[^/]+",
    "reserved-for-uid": r".+",
    "bound-at": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "expires-at": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "reserved-by": r".+/\d{1,18}",
}
"""What it takes for a reservation: all five, in these forms."""

CLAIM: Final = claim("data-db-0", namespace="web", uid=UID)
VOLUME_NOW: Final = VolumeReservation(CLAIM.key, UID, MADE, ENDS, Holder("pvc-prebinder-6d5f9c7b8-x2x4q_1a2b", 3))
DELETED_WITH_ITS_CLAIM: Final = volume("pv-7", reclaim_policy="Delete")
CLAIM_NOW: Final = ClaimReservation("pv-7", MADE, ENDS, "zone-a", ("node-1", "node-2"))


def annotations_of(patch: Patch) -> dict[str, str]:
    return {key: value for key, value in patch["metadata"]["annotations"].items() if value is not None}


def committed_then() -> Volume:
    """A volume that the previous version committed in mode prebind."""
    return volume("pv-7", annotations=VOLUME_THEN, claim=reference(CLAIM.key))


class TestUpgrade:
    def test_reservations_continue(self) -> None:
        assert OURS.parse_volume(committed_then().annotations).reservation == VOLUME_NOW
        assert OURS.parse_claim(claim(annotations=CLAIM_THEN).annotations).reservation == CLAIM_NOW

    def test_pods_quarantine_and_health_are_recognized(self) -> None:
        assert OURS.carries_gate(pod(scheduling_gates=[GATE_THEN]))
        lost = volume("pv-7", annotations=QUARANTINE_THEN | HEALTH_THEN, claim=PLACEHOLDER_THEN)
        assert in_quarantine(lost, OURS)
        assert quarantine_step(lost, HEALTHY, OURS) is QuarantineStep.RELEASE
        published = published_health(lost, OURS)
        assert published is not None
        assert (published.state, published.since) == (HealthState.DATA_LOSS, MADE)

    def test_the_lease_is_the_same_so_that_old_and_new_replicas_never_write_at_once(self) -> None:
        assert LeaderElectionSettings().name == CONTROLLER.lease
        assert (CONTROLLER.lease, SCHEDULER.lease) == LEASES_THEN

    def test_a_claim_ref_without_our_record_is_kept(self) -> None:
        release = release_of_volume("pv-7", ReleaseContext(snapshot_of([committed_then()]), MADE, OURS))
        assert release is not None
        assert (release.cause, release.clear_reference) == (Cause.CLAIM_DELETED, False)
        removal = volume_removal(committed_then(), None, OURS, tuple(Part))
        assert removal is not None
        assert "spec" not in removal.body
        assert "claimRef" in PAGE

    def test_uninstall_removes_the_annotations_of_the_previous_version(self) -> None:
        every = VOLUME_THEN | HEALTH_THEN | QUARANTINE_THEN
        on_volume = volume_removal(volume("pv-7", annotations=every, claim=PLACEHOLDER_THEN), None, OURS, tuple(Part))
        on_claim = claim_removal(claim(annotations=CLAIM_THEN), OURS, tuple(Part))
        assert on_volume is not None
        assert on_claim is not None
        assert on_volume.body["metadata"]["annotations"].keys() == every.keys()
        assert on_volume.body["spec"] == {"claimRef": None}
        assert on_claim.body["metadata"]["annotations"].keys() == CLAIM_THEN.keys()


class TestDowngrade:
    @pytest.mark.parametrize(
        ("patch", "then"),
        [
            (reserve_volume(VOLUME_NOW, OURS), VOLUME_THEN),
            (reserve_claim(CLAIM_NOW, OURS), CLAIM_THEN),
            (take_patch(volume("pv-7"), GONE, MADE, "pvc-prebinder-system", OURS), QUARANTINE_THEN),
            ({"metadata": {"annotations": health_annotations(GONE, OURS)}}, HEALTH_THEN),
        ],
        ids=["reserved volume", "reserved claim", "quarantine", "health"],
    )
    def test_what_we_write_is_what_it_wrote(self, patch: Patch, then: dict[str, str]) -> None:
        assert annotations_of(patch) == then

    def test_a_committed_volume_has_the_record_in_addition(self) -> None:
        patch = commit_volume(VOLUME_NOW, DELETED_WITH_ITS_CLAIM, CLAIM, OURS)
        written = annotations_of(patch)
        assert written == VOLUME_THEN | {f"{PREFIX}claim-ref": f"{CLAIM.key}/{UID}"}
        assert patch["spec"] == {"claimRef": name_reference(CLAIM)}
        for key, form in FORMS_THEN.items():
            assert re.fullmatch(form, written[PREFIX + key])

    def test_a_volume_committed_with_a_uid_is_one_that_kube_scheduler_chose(self) -> None:
        """It removes the annotations that it knows, and leaves such a claimRef to the PV controller."""
        patch = commit_volume(replace(VOLUME_NOW, zone="zone-a", nodes=("node-1",)), volume("pv-7"), CLAIM, OURS)
        place = {f"{PREFIX}reserved-zone": "zone-a", f"{PREFIX}reserved-nodes": "node-1"}
        marks = {f"{PREFIX}claim-ref": f"{CLAIM.key}/{UID}", "pv.kubernetes.io/bound-by-controller": "yes"}
        assert annotations_of(patch) == VOLUME_THEN | marks | place
        assert patch["spec"] == {"claimRef": full_reference(CLAIM)}

    def test_what_it_does_not_know_is_named_on_the_page(self) -> None:
        known = {*VOLUME_THEN, *CLAIM_THEN, *HEALTH_THEN, *QUARANTINE_THEN, GATE_THEN, ON_CLASSES_THEN}
        keys = {
            getattr(OURS, name)
            for name, value in vars(Annotations).items()
            if isinstance(value, cached_property) and not name.startswith("_")
        }
        assert keys >= known
        unknown = {key.removeprefix(PREFIX) for key in keys - known}
        pins = {"hold-replicas", "held-for", "held-set-uid", "held-by", "replaces", "was-for", "namespace-uid"}
        on_classes = {"pool", "report-after", "topology", "new-nodes", "new-node-within", "new-node-storage"}
        assert unknown == pins | on_classes | {
            "claim-ref",
            "sweeps",
            "selected-at",
            "awaits-node",
            "set-aside-for",
            "set-aside-for-uid",
            "set-aside-at",
            "reserved-for-pod-uid",
        }
        assert all(f"`{name}`" in PAGE for name in unknown)

    def test_after_uninstall_it_finds_nothing(self) -> None:
        """It would clear the claimRef of another writer beside a reservation for the same claim: so none is left."""
        for subject, named in self.written():
            removal = volume_removal(subject, named, OURS, tuple(Part))
            assert removal is not None
            assert removal.body["metadata"]["annotations"].keys() == dict(subject.annotations).keys()
            assert removal.body.get("spec", {"claimRef": None}) == {"claimRef": None}
            assert ("spec" in removal.body) is (subject.claim is not None)
        assert "pvc-prebinder uninstall" in PAGE

    def written(self) -> list[tuple[Volume, Claim | None]]:
        reserved, committed = reserve_volume(VOLUME_NOW, OURS), commit_volume(VOLUME_NOW, volume(), CLAIM, OURS)
        lost = take_patch(volume("pv-7"), GONE, MADE, "pvc-prebinder-system", OURS)
        return [
            (volume("pv-7", annotations=annotations_of(reserved)), None),
            (volume("pv-7", annotations=annotations_of(committed), claim=reference(CLAIM.key)), CLAIM),
            (volume("pv-7", annotations=annotations_of(lost), claim=PLACEHOLDER_THEN), None),
        ]
