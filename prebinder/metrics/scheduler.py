"""Metrics of pods scheduled by the standalone scheduler, and of its configuration."""

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from binder.matching.rejection import Reason
from kube.objects.api_resource import Resource
from prebinder.metrics import buckets
from prebinder.metrics.api import EventMetrics, RequestMetrics, WatchMetrics
from prebinder.metrics.children import Children
from prebinder.metrics.collectors.scheduler import SchedulerState, SchedulerStateCollector
from prebinder.metrics.process import JobMetrics, LeaderMetrics, new_registry
from scheduler.standalone.attempt_report import SchedulingTimes

RESULTS: Final = ("scheduled", "unschedulable", "error")
"""Upstream's: a node was found; no node fits; something else went wrong."""


MANY_ATTEMPTS: Final = 15
"""More than this share one label (getAttemptsLabel in pkg/scheduler/schedule_one.go)."""


class KubeSchedulerTimes:
    """The histograms used by dashboards of kube-scheduler, with its names, labels and buckets.

    Source: pkg/scheduler/metrics/metrics.go. Attempts that end in an error are counted, not timed.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._attempt = Children(
            Histogram(
                "scheduler_scheduling_attempt_duration_seconds",
                "Duration of one attempt to schedule a pod, binding included; of an attempt that found no node, of "
                "the decision.",
                ["result", "profile"],
                buckets=buckets.ATTEMPT,
                registry=registry,
            )
        )
        self._pod = Children(
            Histogram(
                "scheduler_pod_scheduling_sli_duration_seconds",
                "Time from when a pod was first seen to its assignment, by the number of attempts.",
                ["attempts"],
                buckets=buckets.SCHEDULING,
                registry=registry,
            )
        )
        self._attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts that pods took to be assigned.",
            buckets=buckets.ATTEMPTS,
            registry=registry,
        )

    def expect_profile(self, name: str) -> None:
        for result in ("scheduled", "unschedulable"):
            self._attempt.of(result, name)

    def rejected(self, profile: str, seconds: float) -> None:
        self._attempt.of("unschedulable", profile).observe(seconds)

    def scheduled(self, profile: str, times: SchedulingTimes, attempts: int) -> None:
        self._attempt.of("scheduled", profile).observe(times.attempt)
        self._pod.of(str(attempts) if attempts < MANY_ATTEMPTS else f"{MANY_ATTEMPTS}+").observe(times.waited)
        self._attempts.observe(attempts)


class SchedulingDurations:
    """How long pods waited, decisions took and bindings took, by profile."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._waited = Children(
            Histogram(
                "pvc_prebinder_scheduler_pod_scheduling_duration_seconds",
                "Time from when a pod was first seen to its assignment, all its attempts included.",
                ["profile", "zone"],
                buckets=buckets.SCHEDULING,
                registry=registry,
            )
        )
        self._decided = Children(
            Histogram(
                "pvc_prebinder_scheduler_decision_duration_seconds",
                "Duration of one scheduling decision.",
                ["profile"],
                buckets=buckets.DECISION,
                registry=registry,
            )
        )
        self._binding = Children(
            Histogram(
                "pvc_prebinder_scheduler_binding_duration_seconds",
                "Time from the decision to the assignment, binding of volumes included.",
                ["profile"],
                buckets=buckets.SCHEDULING,
                registry=registry,
            )
        )

    def expect_profile(self, name: str) -> None:
        self._decided.of(name)
        self._binding.of(name)

    def decided(self, profile: str, seconds: float) -> None:
        self._decided.of(profile).observe(seconds)

    def scheduled(self, profile: str, zone: str, times: SchedulingTimes) -> None:
        self._waited.of(profile, zone).observe(times.waited)
        self._binding.of(profile).observe(times.binding)


class SchedulerMetrics:
    """Fed by attempt_report. `profile` is always the name that pods have in spec.schedulerName."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._failures = Counter(
            "scheduler_pod_schedule_failed_total",
            "Attempts that did not assign a pod, by the most common reason; not a metric of kube-scheduler.",
            ["profile", "reason"],
            registry=registry,
        )
        self._attempts = Children(
            Counter(
                "scheduler_schedule_attempts_total",
                "Attempts to schedule a pod, by result.",
                ["profile", "result"],
                registry=registry,
            )
        )
        self._durations = SchedulingDurations(registry)
        self._plugin_failures = Counter(
            "pvc_prebinder_scheduler_plugin_failures_total",
            "Errors of plugins from other distributions.",
            ["plugin", "extension_point"],
            registry=registry,
        )
        self._preemptions = Counter(
            "scheduler_preemption_attempts_total", "Attempts to preempt pods on a node.", registry=registry
        )
        self._victims = Histogram(
            "scheduler_preemption_victims",
            "Pods to be evicted for one pod.",
            buckets=buckets.VICTIMS,
            registry=registry,
        )
        self._times = KubeSchedulerTimes(registry)

    def expect_profiles(self, names: Iterable[str]) -> None:
        """Start the profiles' counters at 0, so that a rate sees the first failure."""
        for name in names:
            for result in RESULTS:
                self._attempts.of(name, result)
            for reason in Reason:
                self._failures.labels(name, reason)
            self._durations.expect_profile(name)
            self._times.expect_profile(name)

    def decided(self, profile: str, seconds: float, *, fits: bool) -> None:
        self._durations.decided(profile, seconds)
        if not fits:
            self._times.rejected(profile, seconds)

    def scheduled(self, profile: str, zone: str, times: SchedulingTimes, attempts: int) -> None:
        self._attempts.of(profile, "scheduled").inc()
        self._durations.scheduled(profile, zone, times)
        self._times.scheduled(profile, times, attempts)

    def preempted(self, victims: int) -> None:
        self._preemptions.inc()
        self._victims.observe(victims)

    def plugin_failed(self, plugin: str, extension_point: str) -> None:
        self._plugin_failures.labels(plugin, extension_point).inc()

    def failed(self, profile: str, reason: Reason, *, error: bool) -> None:
        self._attempts.of(profile, "error" if error else "unschedulable").inc()
        self._failures.labels(profile, reason).inc()


class ConfigurationMetrics:
    """The configuration in force, from the one that was read at startup."""

    def __init__(self, registry: CollectorRegistry, now: datetime) -> None:
        self._successful = Gauge(
            "pvc_prebinder_config_last_reload_successful",
            "1 if the last change of the configuration was applied, 0 if a change of its file was rejected; a "
            "rejected PUT does not count.",
            registry=registry,
        )
        self._applied = Gauge(
            "pvc_prebinder_config_last_reload_success_timestamp_seconds",
            "When the configuration in force was applied.",
            registry=registry,
        )
        self.applied(now)

    def applied(self, now: datetime) -> None:
        self._successful.set(1)
        self._applied.set(now.timestamp())

    def rejected(self) -> None:
        self._successful.set(0)


class SchedulerInstruments:
    """All metrics of the standalone scheduler."""

    def __init__(self, lease: str, watched: Iterable[Resource], now: datetime) -> None:
        self.registry = new_registry()
        self.watches = WatchMetrics(self.registry, [resource.label for resource in watched])
        self.requests = RequestMetrics(self.registry)
        self.events = EventMetrics(self.registry)
        self.leader = LeaderMetrics(self.registry, lease)
        self.jobs = JobMetrics(self.registry, ("drift",))
        self.attempts = SchedulerMetrics(self.registry)
        self.configuration = ConfigurationMetrics(self.registry, now)
        self._state = SchedulerStateCollector()
        self.registry.register(self._state)

    async def render(self, state: SchedulerState) -> bytes:
        """Return all metrics in Prometheus' text format."""
        self._state.state = state
        return await asyncio.to_thread(generate_latest, self.registry)
