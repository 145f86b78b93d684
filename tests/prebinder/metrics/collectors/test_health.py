"""What a scrape shows of volumes' health when several speak of them."""

from datetime import timedelta

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from csi.health.health import Debounce
from csi.health.verdict import HealthState, Verdict
from csi.records import HealthRecords
from kube.objects.reports import ClaimHealth, HealthCondition
from kube.store.store import snapshot_of
from prebinder.metrics.collectors.cluster import ClusterState, StateCollector
from tests.builders import EPOCH, claim, volume

PREFIX = "scheduler.cloud.example/"
HOUR = timedelta(hours=1)


def scrape() -> list[str]:
    records = HealthRecords(Debounce())
    for handle, states in (("well", ["Healthy"]), ("silent", ["DataLoss", "Unknown"]), ("denied", ["Healthy"])):
        for state in states:
            records.observe("d", handle, Verdict(HealthState(state), "r", "", "driver", EPOCH))
    unhealthy = ClaimHealth((HealthCondition("Degraded", "Slow"),), EPOCH - HOUR, unreadable=2)
    collector = StateCollector()
    collector.now = EPOCH + HOUR
    collector.state = ClusterState(
        snapshot=snapshot_of(
            [
                volume("pv-well", driver="d", handle="well"),
                volume("pv-silent", driver="d", handle="silent"),
                volume("pv-denied", driver="d", handle="denied", claim="default/data"),
                msgspec.structs.replace(claim("data", volume_name="pv-denied"), health=unhealthy),
                volume("pv-agent", driver="e", annotations={f"{PREFIX}health": "Inaccessible"}),
            ]
        ),
        health=records.state,
        endpoints_up={"d": False},
        quarantine={"fast": (3, 7)},
    )
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode().splitlines()


@pytest.mark.parametrize(
    "line",
    [
        pytest.param('pvc_prebinder_volumes{driver_name="d",health="Healthy",zone=""} 1.0', id="one is well"),
        pytest.param('pvc_prebinder_volumes{driver_name="d",health="DataLoss",zone=""} 1.0', id="silence is no end"),
        pytest.param('pvc_prebinder_volumes{driver_name="d",health="Degraded",zone=""} 1.0', id="the worse counts"),
        pytest.param('pvc_prebinder_volumes{driver_name="e",health="Inaccessible",zone=""} 1.0', id="by an agent"),
        'pvc_prebinder_oldest_unhealthy_volume_seconds{driver_name="d",health="Degraded"} 7200.0',
        'pvc_prebinder_oldest_unhealthy_volume_seconds{driver_name="d",health="DataLoss"} 3600.0',
        'pvc_prebinder_unreadable_health_reports{resource="persistentvolumeclaims"} 2.0',
        'pvc_prebinder_unreadable_health_reports{resource="csinodes"} 0.0',
        'pvc_prebinder_quarantined_volumes{storage_class="fast"} 3.0',
        'pvc_prebinder_quarantine_held_back_volumes{storage_class="fast"} 7.0',
    ],
)
def test_the_worst_report_is_shown(line: str) -> None:
    assert line in scrape()
