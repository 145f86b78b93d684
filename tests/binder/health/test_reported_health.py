"""Who else speaks of a volume's health, and what becomes of it in a plan."""

from collections.abc import Mapping
from datetime import timedelta

import msgspec
import pytest

from binder.assignment.volume_policy import reject_health
from binder.health.node_storage import NodeStorage
from binder.health.reported_health import reported
from binder.matching.rejection import Reason
from binder.model.view import PlanSettings, UnknownHealth
from binder.reservation.contract import Annotations
from csi.health.verdict import HealthState, Verdict
from kube.objects.model import Claim
from kube.objects.reports import ClaimHealth, HealthCondition, NodeReport
from kube.store.store import snapshot_of
from tests.binder.views import NOW, view
from tests.builders import claim, volume

PREFIX = "scheduler.cloud.example/"
DRIVER = "disk.csi.example"
NATIVE = ClaimHealth((HealthCondition("DataLoss", "Gone", "in words"),))
ADDONS = ClaimHealth(nodes=(NodeReport("n1", False),))


def published(state: str, source: str = "CSI driver disk.csi.example") -> Mapping[str, str]:
    return {f"{PREFIX}health": state, f"{PREFIX}health-reason": "Said", f"{PREFIX}health-source": source}


def claim_with(health: ClaimHealth | None, volume_name: str = "pv-1") -> Claim:
    return msgspec.structs.replace(claim("data", volume_name=volume_name), health=health)


@pytest.mark.parametrize(
    ("annotations", "claimed", "health", "probed", "expected"),
    [
        pytest.param({}, None, None, False, [], id="none"),
        pytest.param(
            published("Degraded"), None, None, False, ["CSI driver disk.csi.example, as published on the volume"],
            id="an agent",
        ),
        pytest.param(published("Degraded"), None, None, True, [], id="our own words are not read back"),
        pytest.param(published("Unknown"), None, None, False, [], id="a word that is no finding"),
        pytest.param(published("Fine"), None, None, False, [], id="a word that is no state"),
        pytest.param({}, "pv-1", NATIVE, True, ["status.healthStatus of the claim"], id="the native field"),
        pytest.param({}, "pv-1", ADDONS, True, ["csi-addons on n1"], id="csi-addons"),
        pytest.param({}, "pv-2", NATIVE, True, [], id="a claim of another volume"),
        pytest.param({}, "", NATIVE, True, [], id="a claim that names no volume yet"),
    ],
)  # fmt: skip
def test_each_source_is_reported(
    annotations: Mapping[str, str],
    claimed: str | None,
    health: ClaimHealth | None,
    probed: bool,
    expected: list[str],
) -> None:
    subject = volume(annotations=annotations, claim=None if claimed is None else "default/data")
    snapshot = snapshot_of([subject, claim_with(health, claimed or "")])
    findings = reported(subject, snapshot, NodeStorage(), Annotations(), {DRIVER} if probed else (), NOW)
    assert [finding.source for finding in findings] == expected


def answer(state: HealthState, age: float = 0) -> dict[tuple[str, str], Verdict]:
    at = NOW - timedelta(seconds=age)
    return {(DRIVER, "handle-pv-1"): Verdict(state, "Said", "", f"CSI driver {DRIVER}", at)}


ALLOW = PlanSettings(unknown_health=UnknownHealth.ALLOW)
GATED = PlanSettings(gated_drivers=frozenset({DRIVER}))


@pytest.mark.parametrize(
    ("annotations", "health", "verdicts", "settings", "reason", "words"),
    [
        pytest.param({}, None, {}, GATED, None, "", id="nothing is known: the gate asks"),
        pytest.param(published("Healthy"), None, {}, ALLOW, None, "", id="published as well"),
        pytest.param(
            published("Inaccessible"), None, {}, ALLOW, Reason.UNHEALTHY, "Inaccessible: Said", id="published"
        ),
        pytest.param(
            {}, NATIVE, answer(HealthState.HEALTHY), GATED, Reason.UNHEALTHY,
            "DataLoss: Gone, in words; but CSI driver disk.csi.example reports Healthy (Said)"
            " (status.healthStatus of the claim)",
            id="the driver knows nothing of what the claim says",
        ),
        pytest.param(
            {}, ADDONS, answer(HealthState.DATA_LOSS), GATED, Reason.UNHEALTHY,
            "DataLoss: Said, csi-addons on n1 reports Degraded (VolumeConditionAbnormal) (CSI driver disk.csi.example)",
            id="the driver says worse",
        ),
        pytest.param(
            {}, ClaimHealth(()), answer(HealthState.UNKNOWN), GATED, Reason.HEALTH_UNKNOWN, "Unknown: Said",
            id="who says well does not outvote a driver that fails",
        ),
        pytest.param({}, None, answer(HealthState.UNKNOWN, 16), GATED, None, "", id="an old failure is asked again"),
        pytest.param({}, None, answer(HealthState.HEALTHY, 61), GATED, None, "", id="an old answer is asked again"),
    ],
)  # fmt: skip
def test_what_a_plan_makes_of_it(
    annotations: Mapping[str, str],
    health: ClaimHealth | None,
    verdicts: dict[tuple[str, str], Verdict],
    settings: PlanSettings,
    reason: Reason | None,
    words: str,
) -> None:
    subject = volume(annotations=annotations, claim="default/data" if health else None)
    seen = view(subject, claim_with(health), settings=settings, verdicts=verdicts)
    rejection = reject_health(seen, subject, NOW)
    assert (rejection and rejection.reason) == reason
    if rejection is not None:
        assert words in rejection.offered
