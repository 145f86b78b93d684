"""What a volume needs of a controller that probes its driver, of one that does not, and of an agent."""

from datetime import timedelta

import pytest

from binder.health.health_update import HealthUpdateSettings, health_update_for
from binder.health.quarantine import QuarantineStep
from binder.reservation.contract import Annotations
from csi.health.health import Debounce, HealthRecord, advance
from csi.health.verdict import HealthState, Verdict
from kube.objects.model import ClaimReference, Volume
from tests.builders import EPOCH, volume

PREFIX = "scheduler.cloud.example/"
DRIVER = "disk.csi.example"
SAID = {f"{PREFIX}health": "DataLoss", f"{PREFIX}health-source": "CSI driver disk.csi.example"}
KEPT = {f"{PREFIX}quarantine": "DataLoss: Gone", f"{PREFIX}quarantined-at": "2026-01-01T00:00:00Z"}

CONTROLLER = HealthUpdateSettings(Annotations(), frozenset({DRIVER}), "pvc-prebinder-system", quarantine=True)
WITHOUT_ENDPOINT = HealthUpdateSettings(Annotations(), frozenset(), "pvc-prebinder-system", quarantine=True)
AGENT = HealthUpdateSettings(Annotations(), frozenset({DRIVER}), "storage", quarantine=True, only_probed=True)

FREE = volume(driver=DRIVER)
REPORTED_UNHEALTHY = volume(driver=DRIVER, annotations=SAID)
INSIDE = volume(driver=DRIVER, annotations=SAID | KEPT, claim=ClaimReference("pvc-prebinder-system", "quarantine-pv-1"))
SAID_WELL_INSIDE = volume(driver=DRIVER, annotations=SAID | KEPT | {f"{PREFIX}health": "Healthy"}, claim=INSIDE.claim)


def answered(state: HealthState) -> HealthRecord:
    return advance(None, Verdict(state, "Gone", "", "CSI driver disk.csi.example", EPOCH), Debounce())


LOST, WELL = answered(HealthState.DATA_LOSS), answered(HealthState.HEALTHY)


@pytest.mark.parametrize(
    ("subject", "record", "settings", "news", "step"),
    [
        pytest.param(FREE, LOST, CONTROLLER, True, QuarantineStep.TAKE, id="asked by us: said and kept"),
        pytest.param(FREE, LOST, AGENT, True, None, id="asked by an agent: said"),
        pytest.param(
            REPORTED_UNHEALTHY, None, WITHOUT_ENDPOINT, False, QuarantineStep.TAKE, id="said by an agent: kept"
        ),
        pytest.param(REPORTED_UNHEALTHY, LOST, AGENT, False, None, id="said already"),
        pytest.param(INSIDE, WELL, AGENT, True, None, id="an agent ends no quarantine"),
        pytest.param(INSIDE, WELL, CONTROLLER, True, QuarantineStep.RELEASE, id="a controller does"),
        pytest.param(
            SAID_WELL_INSIDE, None, WITHOUT_ENDPOINT, False, QuarantineStep.RELEASE, id="by what an agent says too"
        ),
        pytest.param(INSIDE, None, WITHOUT_ENDPOINT, False, None, id="but not before"),
    ],
)
def test_each_step_follows_from_record_and_settings(
    subject: Volume,
    record: HealthRecord | None,
    settings: HealthUpdateSettings,
    news: bool,
    step: QuarantineStep | None,
) -> None:
    update = health_update_for(subject, record, [], settings, EPOCH + timedelta(minutes=1))
    assert (update.news is not None, update.step) == (news, step)
