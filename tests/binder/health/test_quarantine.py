"""Which volumes go into quarantine, which come out, and how many of a class may be in it."""

import pytest

from binder.health.quarantine import Pools, QuarantineStep, end_patch, in_quarantine, quarantine_step, take_patch
from binder.reservation.contract import Annotations
from csi.health.health import HealthFinding
from csi.health.verdict import HealthState
from kube.objects.model import ClaimReference, Volume
from tests.builders import EPOCH, volume

PREFIX = "scheduler.cloud.example/"
MARKED = {f"{PREFIX}quarantine": "DataLoss: Gone", f"{PREFIX}quarantined-at": "2026-01-01T00:00:00Z"}
PLACEHOLDER = ClaimReference("pvc-prebinder-system", "quarantine-pv-1")
QUARANTINED = volume(annotations=MARKED, claim=PLACEHOLDER)
MOVED = volume(annotations=MARKED, claim=ClaimReference("an-older-namespace", "quarantine-pv-1"))
RESERVED = volume(annotations={f"{PREFIX}reserved-for": "default/data"})


def finding_of(state: HealthState) -> HealthFinding:
    return HealthFinding(state, "Gone", "", "ControllerGetVolume", EPOCH)


INACCESSIBLE, DATA_LOSS = finding_of(HealthState.INACCESSIBLE), finding_of(HealthState.DATA_LOSS)
DEGRADED, HEALTHY = finding_of(HealthState.DEGRADED), finding_of(HealthState.HEALTHY)


@pytest.mark.parametrize(
    ("subject", "finding", "step"),
    [
        pytest.param(volume(), DATA_LOSS, QuarantineStep.TAKE, id="free, data lost"),
        pytest.param(volume(), INACCESSIBLE, QuarantineStep.TAKE, id="free, inaccessible"),
        pytest.param(volume(), DEGRADED, None, id="free, degraded"),
        pytest.param(volume(), HEALTHY, None, id="free, healthy"),
        pytest.param(volume(), None, None, id="free, nothing known"),
        pytest.param(volume(claim="default/data"), DATA_LOSS, None, id="claimed by name"),
        pytest.param(volume(claim="default/data", phase="Bound"), DATA_LOSS, None, id="bound"),
        pytest.param(volume(phase="Released"), DATA_LOSS, None, id="released"),
        pytest.param(volume(deleting=True), DATA_LOSS, None, id="being deleted"),
        pytest.param(RESERVED, DATA_LOSS, None, id="reserved"),
        pytest.param(volume(claim=PLACEHOLDER), HEALTHY, None, id="a placeholder that is not marked as ours"),
        pytest.param(QUARANTINED, DATA_LOSS, None, id="inside, still unhealthy"),
        pytest.param(QUARANTINED, DEGRADED, None, id="inside, better but not well"),
        pytest.param(QUARANTINED, None, None, id="inside, nothing known"),
        pytest.param(QUARANTINED, HEALTHY, QuarantineStep.RELEASE, id="inside, healthy"),
        pytest.param(MOVED, HEALTHY, QuarantineStep.RELEASE, id="inside, put there from another namespace"),
        pytest.param(volume(annotations=MARKED), DATA_LOSS, QuarantineStep.FORGET, id="marked, claimRef removed"),
        pytest.param(
            volume(annotations=MARKED, claim="default/data"), HEALTHY, QuarantineStep.FORGET, id="marked, claimed"
        ),
        pytest.param(
            volume(annotations=MARKED, claim=ClaimReference("pvc-prebinder-system", "quarantine-pv-1", "uid")),
            HEALTHY,
            QuarantineStep.FORGET,
            id="a user created a claim of the placeholder's name",
        ),
        *(
            pytest.param(
                volume(annotations=MARKED, claim=PLACEHOLDER, phase=phase),
                finding,
                step,
                id=f"restored, {phase or 'new'}",
            )
            for phase in ("", "Pending")
            for finding, step in ((DATA_LOSS, None), (None, None), (HEALTHY, QuarantineStep.RELEASE))
        ),
        *(
            pytest.param(volume(annotations=MARKED, claim=PLACEHOLDER, phase=phase), finding, None, id=f"odd, {phase}")
            for phase in ("Bound", "Released", "Failed")
            for finding in (DATA_LOSS, HEALTHY)
        ),
    ],
)
def test_what_is_to_be_done(subject: Volume, finding: HealthFinding | None, step: QuarantineStep | None) -> None:
    assert quarantine_step(subject, finding, Annotations()) is step


def test_one_write_takes_a_volume_in() -> None:
    assert take_patch(volume(), DATA_LOSS, EPOCH, "ours", Annotations()) == {
        "metadata": {"annotations": MARKED},
        "spec": {
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": "ours",
                "name": "quarantine-pv-1",
            }
        },
    }


@pytest.mark.parametrize(
    ("step", "spec"),
    [(QuarantineStep.RELEASE, {"spec": {"claimRef": None}}), (QuarantineStep.FORGET, {})],
    ids=["release", "forget"],
)
def test_one_write_releases_it(step: QuarantineStep, spec: dict[str, object]) -> None:
    assert end_patch(QUARANTINED, step, Annotations()) == {"metadata": {"annotations": dict.fromkeys(MARKED)}, **spec}


def test_a_volume_is_inside_only_with_mark_and_placeholder() -> None:
    assert in_quarantine(QUARANTINED, Annotations())
    assert not in_quarantine(volume(claim=PLACEHOLDER), Annotations())
    assert not in_quarantine(volume(annotations=MARKED), Annotations())
    assert not in_quarantine(volume(annotations=MARKED, claim=PLACEHOLDER, phase="Bound"), Annotations())


@pytest.mark.parametrize(
    ("inside", "free", "room"),
    [(0, 1, True), (0, 10, True), (2, 8, True), (3, 7, False), (1, 2, False), (29, 71, True), (30, 70, False)],
)
def test_the_cap_counts_available_volumes_and_always_allows_one(inside: int, free: int, room: bool) -> None:
    pools = Pools(Annotations())
    for number in range(inside):
        name = f"in-{number}"
        pools.changed(None, volume(name, annotations=MARKED, claim=ClaimReference("ours", f"quarantine-{name}")))
    for number in range(free):
        pools.changed(None, volume(f"free-{number}"))
    pools.changed(None, volume("bound", phase="Bound", claim="default/data"))
    pools.changed(None, volume("elsewhere", storage_class="slow"))
    assert pools.has_room("fast", 0.3) is room


def test_what_leaves_is_no_longer_counted() -> None:
    pools = Pools(Annotations())
    pools.changed(None, QUARANTINED)
    pools.changed(None, QUARANTINED)
    pools.changed(None, volume("other"))
    assert not pools.has_room("fast", 0.3)
    pools.changed(QUARANTINED, volume())
    assert pools.has_room("fast", 0.3)
    pools.changed(volume(), None)
    assert set(pools.available["fast"]) == {"other"}
