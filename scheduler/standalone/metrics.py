"""What the standalone scheduler counts of its attempts to schedule pods."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from binder.matching.rejection import Reason
from kube.metrics import ATTEMPT, ATTEMPTS, DECISION, SCHEDULING, VICTIMS, Children

RESULTS: Final = ("scheduled", "unschedulable", "error")
"""Upstream's: a node was found; no node fits; something else went wrong."""


MANY_ATTEMPTS: Final = 15
"""More than this share one label (getAttemptsLabel in pkg/scheduler/schedule_one.go)."""


@dataclass(frozen=True, slots=True)
class SchedulingTimes:
    """Seconds until a pod was assigned: since it was first seen, in its last attempt, and of that after the
    decision.
    """

    waited: float
    attempt: float
    binding: float


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
                buckets=ATTEMPT,
                registry=registry,
            )
        )
        self._pod = Children(
            Histogram(
                "scheduler_pod_scheduling_sli_duration_seconds",
                "Time from when a pod was first seen to its assignment, by the number of attempts.",
                ["attempts"],
                buckets=SCHEDULING,
                registry=registry,
            )
        )
        self._attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts that pods took to be assigned.",
            buckets=ATTEMPTS,
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
                buckets=SCHEDULING,
                registry=registry,
            )
        )
        self._decided = Children(
            Histogram(
                "pvc_prebinder_scheduler_decision_duration_seconds",
                "Duration of one scheduling decision.",
                ["profile"],
                buckets=DECISION,
                registry=registry,
            )
        )
        self._binding = Children(
            Histogram(
                "pvc_prebinder_scheduler_binding_duration_seconds",
                "Time from the decision to the assignment, binding of volumes included.",
                ["profile"],
                buckets=SCHEDULING,
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
    """Counts attempts. `profile` is always the name that pods have in spec.schedulerName; times are in seconds."""

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
            buckets=VICTIMS,
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
        """A decision was made; `fits` if it found a node."""
        self._durations.decided(profile, seconds)
        if not fits:
            self._times.rejected(profile, seconds)

    def scheduled(self, profile: str, zone: str, times: SchedulingTimes, attempts: int) -> None:
        """A pod was assigned to a node of that zone, after so many attempts."""
        self._attempts.of(profile, "scheduled").inc()
        self._durations.scheduled(profile, zone, times)
        self._times.scheduled(profile, times, attempts)

    def preempted(self, victims: int) -> None:
        """A node was nominated for a pod: so many others have to be evicted."""
        self._preemptions.inc()
        self._victims.observe(victims)

    def plugin_failed(self, plugin: str, extension_point: str) -> None:
        self._plugin_failures.labels(plugin, extension_point).inc()

    def failed(self, profile: str, reason: Reason, *, error: bool) -> None:
        """An attempt found no node; or, an `error`, one was found and binding failed."""
        self._attempts.of(profile, "error" if error else "unschedulable").inc()
        self._failures.labels(profile, reason).inc()
