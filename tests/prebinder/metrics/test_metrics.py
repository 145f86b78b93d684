"""What a scrape shows."""

from dataclasses import replace
from datetime import timedelta

import pytest

from binder.matching.rejection import Reason
from binder.reporting.metrics import ConflictKind
from binder.reservation.release import Cause
from csi.health.health import Debounce
from csi.health.verdict import HealthState, Verdict
from csi.records import HealthRecords
from csi.sweep import SweepProgress
from kube.objects.model import WAIT_FOR_FIRST_CONSUMER
from kube.store.store import snapshot_of
from prebinder.metrics.collectors.cluster import ClusterState
from prebinder.metrics.instruments import Instruments
from tests.builders import EPOCH, ZONE, claim, node, node_selector, pod, storage_class, volume

PREFIX = "scheduler.cloud.example/"


async def scrape(instruments: Instruments, state: ClusterState | None = None) -> list[str]:
    rendered = await instruments.render(state or ClusterState(), EPOCH + timedelta(seconds=90))
    return rendered.decode().splitlines()


@pytest.fixture
def instruments() -> Instruments:
    return Instruments("lease", ("drift",))


@pytest.mark.parametrize(
    "line",
    [
        'pvc_prebinder_watch_restarts_total{cause="expired",resource="pods"} 0.0',
        'pvc_prebinder_cache_drift_objects{kind="missing",resource="nodes"} 0.0',
        'pvc_prebinder_write_conflicts_total{kind="already_claimed",resource="persistentvolumes"} 0.0',
        'pvc_prebinder_jobs_skipped_total{cause="missed",job="drift"} 0.0',
        'leader_election_master_status{name="lease"} 0.0',
    ],
)
async def test_what_can_be_known_starts_at_zero(instruments: Instruments, line: str) -> None:
    assert line in await scrape(instruments)


async def test_a_class_starts_at_zero_when_it_is_seen(instruments: Instruments) -> None:
    instruments.binding.expect_class("fast", WAIT_FOR_FIRST_CONSUMER)
    instruments.reservations.expect_class("fast")
    lines = await scrape(instruments)
    labels = 'binding_mode="WaitForFirstConsumer",dry_run="false",result="failure",storage_class="fast"'
    assert f"pvc_prebinder_reservation_attempts_total{{{labels}}} 0.0" in lines
    assert 'pvc_prebinder_reservation_releases_total{cause="expired",storage_class="fast"} 0.0' in lines


async def test_no_series_says_when_it_was_created(instruments: Instruments) -> None:
    instruments.requests.request_done("GET", 200, 0.1)
    assert [line for line in await scrape(instruments) if "_created" in line.split("{")[0]] == [
        line for line in await scrape(instruments) if "reservations_created_total" in line.split("{")[0]
    ]


def records(driver: str, handle: str) -> HealthRecords:
    known = HealthRecords(Debounce())
    known.observe(driver, handle, Verdict(HealthState.HEALTHY, "", "", "", EPOCH))
    return known


async def test_sweeps_are_measured(instruments: Instruments) -> None:
    drivers, path = instruments.drivers, "/csi.v1.Controller/ListVolumes"
    drivers.expect_drivers(["d"])
    known = HealthRecords(Debounce())
    known.listeners.append(drivers.health_changed)
    for state in (HealthState.HEALTHY, HealthState.DATA_LOSS, HealthState.DATA_LOSS):
        known.observe("d", "1", Verdict(state, "", "", "", EPOCH))
    drivers.listed("d", path, "OK", 0.01)
    drivers.listed("d", path, "BrokenList", 0.01)
    drivers.swept(SweepProgress("d", 7, 7, seconds=3.0, oldest=timedelta(seconds=5)))
    drivers.swept(SweepProgress("d", 1, 7))
    drivers.swept(SweepProgress("d", 7, 7, seconds=1.0, answered=False, oldest=timedelta(seconds=65)))
    lines = await scrape(instruments)
    for line in (
        'pvc_prebinder_volume_health_transitions_total{driver_name="d",to="DataLoss"} 1.0',
        'pvc_prebinder_volume_health_transitions_total{driver_name="d",to="Unknown"} 0.0',
        f'csi_volume_health_probe_total{{driver_name="d",method_name="{path}",result="Listed"}} 1.0',
        f'csi_volume_health_probe_total{{driver_name="d",method_name="{path}",result="Failed"}} 1.0',
        'pvc_prebinder_health_sweep_volumes{driver_name="d"} 7.0',
        'pvc_prebinder_health_sweep_last_duration_seconds{driver_name="d"} 3.0',
        'pvc_prebinder_health_oldest_seconds{driver_name="d"} 65.0',
    ):
        assert line in lines


LONG = "x" * 4_006
"""A class that no administrator made: a claim's annotation volume.beta.kubernetes.io/storage-class takes any text."""


async def test_no_claim_makes_a_series_of_its_own(instruments: Instruments) -> None:
    instruments.binding.expect_class("fast", WAIT_FOR_FIRST_CONSUMER)
    instruments.reservations.expect_class("fast")
    claims = [claim(f"data-{number}", storage_class=f"{LONG}-{number}") for number in range(100)]
    for asking in claims:
        name = asking.storage_class or ""
        instruments.binding.attempted(name, "", success=False)
        instruments.binding.failed(name, Reason.CLASS_NOT_FOUND)
        instruments.binding.bound(name, "", 1.0)
        instruments.reservations.reserved(name)
        instruments.reservations.released(name, Cause.LOST, None)
    instruments.binding.failed("", Reason.NO_VOLUME_FITS)
    snapshot = snapshot_of([storage_class("fast"), *claims], PREFIX)
    lines = await scrape(instruments, ClusterState(snapshot))
    assert max(map(len, lines)) < 300
    assert (
        'pvc_prebinder_reservation_failures_total{reason="StorageClassNotFound",storage_class="other"} 100.0' in lines
    )
    assert 'pvc_prebinder_reservation_failures_total{reason="StaticOnlyNoMatch",storage_class=""} 1.0' in lines
    (pending,) = [line for line in lines if line.startswith("pvc_prebinder_pending_claims{")]
    assert pending.endswith('storage_class="other",zone=""} 100.0')


async def test_the_series_of_a_class_go_with_it(instruments: Instruments) -> None:
    for turn in range(3):
        instruments.binding.expect_class(f"fast-{turn}", WAIT_FOR_FIRST_CONSUMER)
        instruments.reservations.expect_class(f"fast-{turn}")
        instruments.binding.failed(f"fast-{turn}", Reason.NO_VOLUME_FITS)
        instruments.binding.forget_class(f"fast-{turn}")
        instruments.reservations.forget_class(f"fast-{turn}")
    assert not [line for line in await scrape(instruments) if 'storage_class="fast' in line]
    instruments.binding.failed("fast-1", Reason.NO_VOLUME_FITS)
    assert (
        'pvc_prebinder_reservation_failures_total{reason="StaticOnlyNoMatch",storage_class="other"} 1.0'
        in await scrape(instruments)
    )


async def test_ports_count(instruments: Instruments) -> None:
    instruments.binding.expect_class("fast", WAIT_FOR_FIRST_CONSUMER)
    instruments.reservations.expect_class("fast")
    instruments.binding.attempted("fast", WAIT_FOR_FIRST_CONSUMER, success=False)
    instruments.binding.failed("fast", Reason.NO_VOLUME_FITS)
    instruments.reservations.released("fast", Cause.EXPIRED, 600.0)
    instruments.reservations.conflicted("persistentvolumes", ConflictKind.RESOURCE_VERSION)
    instruments.requests.request_done("PATCH", 0, 1.0)
    instruments.drivers.operation("d", "/csi.v1.Controller/ControllerGetVolume", "OK", 0.01)
    instruments.drivers.probed("d", "/csi.v1.Controller/ControllerGetVolume", HealthState.HEALTHY, 0.01)
    instruments.events.event_dropped("Normal", "VolumeReserved")
    instruments.watches.watch_restarted("pods", "expired")
    queue = instruments.queues.of("pods")
    queue.added(1)
    queue.started(0, 0.5)
    queue.finished(0.5)
    queue.retried()
    lines = await scrape(instruments)
    driver, method = 'driver_name="d"', 'method_name="/csi.v1.Controller/ControllerGetVolume"'
    for line in (
        'pvc_prebinder_reservation_failures_total{reason="StaticOnlyNoMatch",storage_class="fast"} 1.0',
        'pvc_prebinder_reservation_hold_seconds_bucket{cause="expired",le="600.0"} 1.0',
        'pvc_prebinder_write_conflicts_total{kind="resource_version",resource="persistentvolumes"} 1.0',
        'rest_client_requests_total{code="<error>",method="PATCH"} 1.0',
        f'csi_sidecar_operations_seconds_count{{{driver},grpc_status_code="OK",{method}}} 1.0',
        f'csi_volume_health_probe_total{{{driver},{method},result="Healthy"}} 1.0',
        'pvc_prebinder_events_total{reason="VolumeReserved",result="dropped",type="Normal"} 1.0',
        'pvc_prebinder_watch_restarts_total{cause="expired",resource="pods"} 1.0',
        'workqueue_adds_total{name="pods"} 1.0',
        'workqueue_retries_total{name="pods"} 1.0',
        'workqueue_work_duration_seconds_bucket{le="1.0",name="pods"} 1.0',
    ):
        assert line in lines


STATE = ClusterState(
    snapshot=snapshot_of(
        [
            storage_class("fast"),
            storage_class("now", binding_mode="Immediate"),
            claim("idle"),
            claim("immediate", storage_class="now"),
            claim("lost-class", storage_class="gone"),
            claim("rejected", created=EPOCH - timedelta(seconds=10)),
            claim("young", annotations={
                f"{PREFIX}reserved-volume": "v", f"{PREFIX}reserved-zone": "a",
                f"{PREFIX}bound-at": "2026-01-01T00:00:00Z", f"{PREFIX}expires-at": "2026-01-01T00:10:00Z",
            }),
            claim("done", phase="Bound"),
            pod("p", claims=("rejected", "young")),
            node(zone="a"),
            volume("v", driver="d", handle="1", node_affinity=node_selector({ZONE: "a"}),
                   annotations={f"{PREFIX}reserved-for": "default/young"}),
            volume("w", driver="d", handle="2", node_affinity=node_selector({ZONE: ["a", "b"]})),
        ]
    ),
    health=records("d", "1").state,
    reasons={"default/rejected": Reason.NO_JOINT_ASSIGNMENT},
    endpoints_up={"d": True},
    synced={"pods": False},
    queues={"pods": (3.0, 2.0)},
    loop_lag=0.25,
)  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        'pvc_prebinder_pending_claims{reason="WaitForFirstConsumer",storage_class="fast",zone=""} 1.0',
        'pvc_prebinder_pending_claims{reason="ImmediateUnbound",storage_class="now",zone=""} 1.0',
        'pvc_prebinder_pending_claims{reason="StorageClassNotFound",storage_class="other",zone=""} 1.0',
        'pvc_prebinder_pending_claims{reason="NoJointAssignment",storage_class="fast",zone=""} 1.0',
        'pvc_prebinder_pending_claims{reason="Progressing",storage_class="fast",zone="a"} 1.0',
        'pvc_prebinder_oldest_pending_claim_seconds{reason="NoJointAssignment",storage_class="fast"} 100.0',
        'pvc_prebinder_reservations{storage_class="fast",zone="a"} 1.0',
        'pvc_prebinder_volumes{driver_name="d",health="Healthy",zone="a"} 1.0',
        'pvc_prebinder_volumes{driver_name="d",health="Unknown",zone=""} 1.0',
        'pvc_prebinder_csi_endpoint_up{driver_name="d"} 1.0',
        'pvc_prebinder_cache_synced{resource="pods"} 0.0',
        'workqueue_unfinished_work_seconds{name="pods"} 3.0',
        'workqueue_longest_running_processor_seconds{name="pods"} 2.0',
        "pvc_prebinder_event_loop_lag_seconds 0.25",
    ],
)
async def test_gauges_show_the_cluster_as_it_is(instruments: Instruments, line: str) -> None:
    assert line in await scrape(instruments, STATE)


async def test_gauges_of_the_cluster_are_the_leaders_alone(instruments: Instruments) -> None:
    await scrape(instruments, STATE)
    lines = await scrape(instruments, replace(STATE, snapshot=None))
    assert [line for line in lines if line.startswith(("pvc_prebinder_pending", "pvc_prebinder_volumes{"))] == []
    assert 'pvc_prebinder_csi_endpoint_up{driver_name="d"} 1.0' in lines


async def test_a_replica_that_lost_the_lease_shows_nothing_of_its_last_term(instruments: Instruments) -> None:
    """It would raise alerts, or hide them, until it is restarted: what it knew then is not updated any more."""
    instruments.queues.of("pods").added(500)
    sweep = SweepProgress("d", 7, 7, 65.0, True, timedelta(seconds=1000))
    instruments.drivers.swept(sweep)
    of_a_term = ("workqueue_depth{", "pvc_prebinder_health_oldest", "pvc_prebinder_health_sweep")
    assert len([line for line in await scrape(instruments, STATE) if line.startswith(of_a_term)]) == 4
    standing_by = ClusterState(leads=False)
    for _ in range(2):
        assert [line for line in await scrape(instruments, standing_by) if line.startswith(of_a_term)] == []
        # A sweep may end after the term.
        instruments.drivers.swept(sweep)
    instruments.queues.of("pods").added(1)
    assert 'workqueue_depth{name="pods"} 1.0' in await scrape(instruments, STATE)
