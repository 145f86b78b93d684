"""A volume says how it is when that has changed, and stays silent while it has not."""

import pytest

from binder.health.published_health import PublishedHealth, health_annotations, published_health, unpublished
from binder.reservation.contract import Annotations
from csi.health.health import HealthFinding
from csi.health.verdict import HealthState
from tests.builders import EPOCH, volume

PREFIX = "scheduler.cloud.example/"


def finding_of(state: HealthState, reason: str = "Gone") -> HealthFinding:
    return HealthFinding(state, reason, "", "ControllerGetVolume", EPOCH)


DATA_LOSS, HEALTHY = finding_of(HealthState.DATA_LOSS), finding_of(HealthState.HEALTHY)


@pytest.mark.parametrize(
    ("published", "finding", "is_news"),
    [
        pytest.param(None, HEALTHY, False, id="healthy, never said otherwise"),
        pytest.param(None, None, False, id="nothing found"),
        pytest.param(None, DATA_LOSS, True, id="becomes unhealthy"),
        pytest.param("DataLoss", DATA_LOSS, False, id="said already"),
        pytest.param(
            "DataLoss", finding_of(HealthState.DATA_LOSS, "Other"), False, id="another reason, the same state"
        ),
        pytest.param("Degraded", DATA_LOSS, True, id="gets worse"),
        pytest.param("DataLoss", HEALTHY, True, id="recovers"),
        pytest.param("DataLoss", None, False, id="unhealthy, nothing found since"),
        pytest.param("nonsense", DATA_LOSS, True, id="an unreadable word counts as none"),
    ],
)
def test_unpublished_findings(published: str | None, finding: HealthFinding | None, is_news: bool) -> None:
    subject = volume(annotations={f"{PREFIX}health": published} if published else None)
    assert unpublished(subject, finding, Annotations()) is (finding if is_news else None)


def test_what_is_written_is_read_back() -> None:
    written = {key: value or "" for key, value in health_annotations(DATA_LOSS, Annotations()).items()}
    assert published_health(volume(annotations=written), Annotations()) == PublishedHealth(
        HealthState.DATA_LOSS, "Gone", EPOCH, "ControllerGetVolume"
    )


def test_a_time_that_cannot_be_read_is_none() -> None:
    subject = volume(annotations={f"{PREFIX}health": "Degraded", f"{PREFIX}health-since": "yesterday"})
    assert published_health(subject, Annotations()) == PublishedHealth(HealthState.DEGRADED, "", None)
