"""What may still be written for a claim, and how far it is: one look, one answer."""

from collections.abc import Mapping

import pytest

from binder.matching.index import VolumeIndex
from binder.matching.rejection import Reason
from binder.model.view import View
from kube.objects.model import BIND_COMPLETED, SELECTED_NODE, Claim, Record, Volume
from kube.objects.reports import StorageCondition
from kube.store.snapshot import Snapshot
from kube.store.store import snapshot_of
from scheduler.binding.volume_commitment import is_written, may_deselect, progress, reject_selecting, reject_taking
from scheduler.framework.plugin import ScheduleResult
from scheduler.volumes.volume_binding import VolumeChoice
from tests import builders as made
from tests.fake_clock import START

MINE = made.reference("default/data", "uid-default-data")
OTHERS = made.reference("default/data", "uid-of-an-earlier-one")
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
CLAIM, VOLUME = made.claim(), made.volume(zone="a")
ORDERED = made.claim(storage_class="made")
CUT_OFF = made.csi_node("node-a", reports=[StorageCondition("disk.csi.example", "StorageUnreachable")])
COMMON: tuple[Record, ...] = (
    made.node("node-a", zone="a"),
    made.node("node-b", zone="b"),
    made.storage_class(),
    made.storage_class("made", provisioner="disk.csi.example"),
    made.pod(claims=["data"]),
)


def seen(*records: Record) -> Snapshot:
    return snapshot_of([*COMMON, *records])


def claim(annotations: Mapping[str, str] | None = None, **fields: object) -> Claim:
    return made.claim(annotations=annotations, **fields)  # type: ignore[arg-type]


def bound_to(volume: str) -> Claim:
    return made.claim(volume_name=volume, phase="Bound", annotations={BIND_COMPLETED: "yes"})


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param([CLAIM, VOLUME], None, id="free"),
        pytest.param([CLAIM, made.volume(zone="a", claim="default/data")], None, id="prebound by name"),
        pytest.param([VOLUME], Reason.CLAIM_NOT_FOUND, id="no claim"),
        pytest.param([made.claim(uid="anew"), VOLUME], Reason.CLAIM_NOT_FOUND, id="recreated claim"),
        pytest.param([made.claim(deleting=True), VOLUME], Reason.CLAIM_DELETING, id="claim deleting"),
        pytest.param([made.claim(phase="Lost"), VOLUME], Reason.CLAIM_LOST, id="claim lost"),
        pytest.param([CLAIM], Reason.VOLUME_MISSING, id="no volume"),
        pytest.param([CLAIM, made.volume(zone="a", uid="anew")], Reason.VOLUME_MISSING, id="recreated volume"),
        pytest.param([CLAIM, made.volume(zone="b")], Reason.NODE_AFFINITY_MISMATCH, id="out of reach"),
        pytest.param([CLAIM, made.volume(zone="a", size="1Gi")], Reason.TOO_SMALL, id="too small"),
        pytest.param([CLAIM, made.volume(zone="a", claim=OTHERS)], Reason.CLAIMED_BY_OTHER, id="an earlier claim's"),
        pytest.param([claim({SELECTED_NODE: "node-a"}), VOLUME], Reason.PROVISIONING_CHOSEN, id="one is being made"),
        pytest.param([CLAIM, VOLUME, made.volume("pv-2", claim=MINE)], Reason.OTHER_VOLUME_PREBOUND, id="a second"),
        pytest.param(
            [CLAIM, VOLUME, made.volume("pv-2", claim="default/data")],
            Reason.OTHER_VOLUME_PREBOUND,
            id="second by name",
        ),
        pytest.param([CLAIM, VOLUME, made.volume("pv-2", size="1Gi", claim="default/data")], None, id="a name in vain"),
        pytest.param(
            [CLAIM, made.volume(zone="a", annotations={"scheduler.cloud.example/quarantine": "Gone"})],
            Reason.QUARANTINED,
            id="unhealthy",
        ),
        pytest.param([CLAIM, VOLUME, CUT_OFF], Reason.STORAGE_UNREACHABLE, id="node cut off"),
        pytest.param(
            [CLAIM, made.volume(zone="a", claim="default/data"), CUT_OFF],
            Reason.STORAGE_UNREACHABLE,
            id="prebound, node cut off",
        ),
    ],
)
def test_whether_a_volume_may_be_taken(records: list[Record], expected: Reason | None) -> None:
    rejection = reject_taking(CLAIM, VOLUME, "node-a", View(seen(*records), VolumeIndex()), START)
    assert (rejection and rejection.reason) == expected


@pytest.mark.parametrize(
    ("fresh", "offered"),
    [
        pytest.param({"size": "1Gi", "phase": ""}, "no claimRef, phase (none)", id="new"),
        pytest.param({"size": "1Gi", "phase": "Available"}, "no claimRef, phase Available", id="available"),
        pytest.param({"claim": OTHERS}, "bound to claim default/data", id="taken"),
    ],
)
def test_the_state_of_a_volume_that_may_not_be_taken_is_named(fresh: dict[str, object], offered: str) -> None:
    volume = made.volume(zone="a", **fresh)  # type: ignore[arg-type]
    rejection = reject_taking(CLAIM, VOLUME, "node-a", View(seen(CLAIM, volume), VolumeIndex()), START)
    assert rejection is not None
    assert rejection.offered == offered


@pytest.mark.parametrize(
    ("records", "node", "expected"),
    [
        pytest.param([ORDERED], "node-a", None, id="to be made"),
        pytest.param([], "node-a", Reason.CLAIM_NOT_FOUND, id="no claim"),
        pytest.param([ORDERED], "node-x", Reason.NODE_MISSING, id="no node"),
        pytest.param(
            [made.claim(storage_class="made", annotations={SELECTED_NODE: "node-b"})],
            "node-a",
            Reason.PROVISIONING_ELSEWHERE,
            id="for another node",
        ),
        pytest.param(
            [ORDERED, made.volume(storage_class="made", claim="default/data")],
            "node-a",
            Reason.OTHER_VOLUME_PREBOUND,
            id="given one",
        ),
        pytest.param([CLAIM], "node-a", Reason.NO_VOLUME_FITS, id="not provisioned"),
        pytest.param([ORDERED, CUT_OFF], "node-a", Reason.STORAGE_UNREACHABLE, id="node cut off"),
        pytest.param([ORDERED, CUT_OFF], "node-b", None, id="another node cut off"),
    ],
)
def test_whether_one_may_be_made(records: list[Record], node: str, expected: Reason | None) -> None:
    rejection = reject_selecting(ORDERED, node, seen(*records))
    assert (rejection and rejection.reason) == expected


@pytest.mark.parametrize(
    ("records", "volume", "expected"),
    [
        pytest.param([CLAIM, VOLUME], VOLUME, False, id="free"),
        pytest.param([CLAIM, made.volume(claim="default/data")], VOLUME, False, id="by name alone"),
        pytest.param([CLAIM, made.volume(claim=MINE)], VOLUME, True, id="taken"),
        pytest.param([CLAIM, made.volume(claim=OTHERS)], VOLUME, False, id="taken for an earlier claim"),
        pytest.param([bound_to("pv-2"), VOLUME], VOLUME, True, id="has another"),
        pytest.param([made.claim(uid="anew"), made.volume(claim=MINE)], VOLUME, False, id="recreated claim"),
        pytest.param([CLAIM], None, False, id="not selected"),
        pytest.param([claim({SELECTED_NODE: "node-a"})], None, True, id="selected"),
        pytest.param([claim({SELECTED_NODE: "node-b"})], None, False, id="another selected"),
    ],
)
def test_whether_it_is_written(records: list[Record], volume: Volume | None, expected: bool) -> None:
    assert is_written(CLAIM, volume, "node-a", seen(*records)) is expected


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param([CLAIM, made.volume(claim=MINE)], False, id="taken"),
        pytest.param([made.claim(volume_name="pv-1"), made.volume(claim=MINE)], False, id="named, not completed"),
        pytest.param([bound_to("pv-1"), made.volume(claim=MINE)], True, id="bound"),
        pytest.param([bound_to("pv-9"), made.volume(claim=MINE)], False, id="bound to one that is not shown yet"),
        pytest.param([bound_to("pv-2"), VOLUME, made.volume("pv-2", zone="a")], True, id="bound to another"),
        pytest.param(
            [bound_to("pv-2"), VOLUME, made.volume("pv-2", zone="b")], Reason.VOLUME_UNREACHABLE, id="out of reach"
        ),
        pytest.param([CLAIM, VOLUME], Reason.CLAIMED_BY_OTHER, id="claimRef gone"),
    ],
)
def test_how_far_a_claim_is(records: list[Record], expected: bool | Reason) -> None:
    snapshot = seen(*records)
    placement = ScheduleResult(made.pod(claims=["data"]), "node-a", VolumeChoice(((CLAIM, VOLUME),)))
    outcome = progress(placement, snapshot.pods["default/web"], snapshot)
    assert (outcome if isinstance(outcome, bool) else outcome.reason) == expected


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        pytest.param(None, False, id="gone"),
        pytest.param(claim({SELECTED_NODE: "node-a"}), True, id="selected"),
        pytest.param(claim({SELECTED_NODE: "node-b"}), False, id="another selected"),
        pytest.param(CLAIM, False, id="not selected"),
        pytest.param(claim({SELECTED_NODE: "node-a"}, uid="anew"), False, id="recreated claim"),
        pytest.param(claim({SELECTED_NODE: "node-a", PROVISIONER: "x"}), False, id="a provisioner was selected"),
        pytest.param(claim({SELECTED_NODE: "node-a"}, volume_name="pvc-1"), False, id="made"),
    ],
)
def test_whether_a_selected_node_may_be_removed(shown: Claim | None, expected: bool) -> None:
    assert may_deselect(shown, CLAIM.uid, "node-a") is expected
