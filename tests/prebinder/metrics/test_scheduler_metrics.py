"""What the scheduler's process exports."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from binder.matching.rejection import Reason
from kube.client.event_recorder import EventDraft, ObjectRef
from kube.store.store import snapshot_of
from prebinder.metrics.collectors.scheduler import SchedulerState
from prebinder.metrics.scheduler import SchedulerInstruments
from prebinder.scheduler.config_news import ConfigurationNews
from scheduler.standalone.config_watch import ReloadOutcome
from scheduler.standalone.metrics import SchedulingTimes
from scheduler.state.node_info import NodeInfo, node_info
from tests.builders import EPOCH, node, pod
from tests.fake_clock import FakeClock


def instruments() -> SchedulerInstruments:
    made = SchedulerInstruments("lease", (), EPOCH)
    made.attempts.expect_profiles(["ours"])
    return made


class Samples:
    """What a scrape gets."""

    def __init__(self, text: str) -> None:
        self._samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    def value(self, name: str, **labels: str) -> float:
        (value,) = (sample.value for sample in self._samples if (sample.name, sample.labels) == (name, labels))
        return float(value)

    def names(self) -> set[str]:
        return {sample.name for sample in self._samples}


async def exported(metrics: SchedulerInstruments, state: SchedulerState | None = None) -> Samples:
    return Samples((await metrics.render(state or SchedulerState())).decode())


def full(name: str, zone: str, cpu: str) -> NodeInfo:
    """Return a node of 4 cores on which a pod requests so much."""
    there = pod(f"on-{name}", node=name, requests={"cpu": cpu})
    return node_info(0, node(name, zone=zone, allocatable={"cpu": "4"}), [there], snapshot_of([]))


@pytest.mark.parametrize(("error", "result"), [(False, "unschedulable"), (True, "error")])
async def test_a_failure_is_counted_with_its_reason_and_result(error: bool, result: str) -> None:
    metrics = instruments()
    metrics.attempts.failed("ours", Reason.UNHEALTHY, error=error)
    samples = await exported(metrics)
    assert samples.value("scheduler_schedule_attempts_total", profile="ours", result=result) == 1
    assert samples.value("scheduler_pod_schedule_failed_total", profile="ours", reason="Unhealthy") == 1
    assert samples.value("scheduler_pod_schedule_failed_total", profile="ours", reason="ReservedForOther") == 0


async def test_times_are_counted_from_when_the_pod_was_first_seen_by_zone() -> None:
    metrics = instruments()
    metrics.attempts.scheduled("ours", "zone-a", SchedulingTimes(waited=3.0, attempt=0.5, binding=0.02), 2)
    samples = await exported(metrics)
    waited = "pvc_prebinder_scheduler_pod_scheduling_duration_seconds"
    assert samples.value(f"{waited}_sum", profile="ours", zone="zone-a") == 3.0
    assert samples.value(f"{waited}_bucket", le="2.56", profile="ours", zone="zone-a") == 0
    assert samples.value(f"{waited}_bucket", le="5.12", profile="ours", zone="zone-a") == 1
    assert samples.value("pvc_prebinder_scheduler_binding_duration_seconds_sum", profile="ours") == 0.02


async def test_dashboards_of_kube_scheduler_find_its_histograms() -> None:
    metrics = instruments()
    metrics.attempts.decided("ours", 0.004, fits=True)
    metrics.attempts.decided("ours", 0.002, fits=False)
    for attempts in (1, 15, 400):
        times = SchedulingTimes(waited=3.0, attempt=0.5, binding=0.02)
        metrics.attempts.scheduled("ours", "zone-a", times, attempts)
    samples = await exported(metrics)
    attempt = "scheduler_scheduling_attempt_duration_seconds"
    assert samples.value(f"{attempt}_sum", result="unschedulable", profile="ours") == 0.002
    assert samples.value(f"{attempt}_sum", result="scheduled", profile="ours") == 1.5
    assert samples.value("scheduler_pod_scheduling_sli_duration_seconds_count", attempts="1") == 1
    assert samples.value("scheduler_pod_scheduling_sli_duration_seconds_count", attempts="15+") == 2
    assert samples.value("scheduler_pod_scheduling_attempts_sum") == 416


async def test_nodes_are_summed_up_by_zone() -> None:
    nodes = (full("n1", "zone-a", "1"), full("n2", "zone-a", "3"), full("n3", "zone-b", "4"))
    samples = await exported(instruments(), SchedulerState(queues={"active": 3}, nodes=nodes))
    shares = {
        (zone, stat): samples.value(
            "pvc_prebinder_scheduler_node_requested_ratio", resource="cpu", stat=stat, zone=zone
        )
        for zone in ("zone-a", "zone-b")
        for stat in ("min", "mean", "max")
    }
    assert list(shares.values()) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert samples.value("scheduler_pending_pods", queue="active") == 3


async def test_a_standby_says_nothing_about_the_cluster() -> None:
    samples = await exported(instruments())
    assert samples.names().isdisjoint({"scheduler_pending_pods", "pvc_prebinder_scheduler_node_requested_ratio"})


class Events:
    """Keeps the reasons and notes of Events."""

    def __init__(self) -> None:
        self.published: list[tuple[str, str]] = []

    def publish(self, draft: EventDraft) -> None:
        self.published.append((draft.reason, draft.note))


async def test_a_rejected_configuration_is_reported_and_the_rules_stay() -> None:
    metrics, events, applied, clock = instruments(), Events(), list[int](), FakeClock()
    about = ObjectRef("coordination.k8s.io/v1", "Lease", "lease", "home")
    news = ConfigurationNews(metrics.configuration, events, about, clock, lambda: applied.append(1))
    news.configuration_changed(ReloadOutcome.REJECTED, "profiles[0].scores: wrong")
    assert (await exported(metrics)).value("pvc_prebinder_config_last_reload_successful") == 0
    assert events.published == [
        ("ConfigRejected", "Configuration rejected; the previous one stays in force: profiles[0].scores: wrong")
    ]
    assert applied == []
    await clock.advance(60)
    news.configuration_changed(ReloadOutcome.APPLIED, "")
    samples = await exported(metrics)
    assert samples.value("pvc_prebinder_config_last_reload_successful") == 1
    assert samples.value("pvc_prebinder_config_last_reload_success_timestamp_seconds") == clock.now().timestamp()
    assert (events.published[-1][0], applied) == ("ConfigReloaded", [1])
