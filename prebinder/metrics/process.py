"""The process itself: its build, its feature gates, its periodic jobs."""

from prometheus_client import CollectorRegistry, Counter, Gauge, GCCollector, ProcessCollector, disable_created_metrics

from prebinder.build import build_facts
from prebinder.config.feature_gates import FeatureGates


def new_registry() -> CollectorRegistry:
    """Return a registry with the process's own metrics, and without the extra `_created` series."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    facts = build_facts()
    Gauge(
        "pvc_prebinder_build_info",
        "Always 1; the labels are the running version.",
        ["version", "python_version"],
        registry=registry,
    ).labels(facts["version"], facts["pythonVersion"]).set(1)
    return registry


def report_gates(registry: CollectorRegistry, gates: FeatureGates) -> None:
    """Add the metric of the feature gates, as each component of Kubernetes has it (component-base/metrics/features)."""
    enabled = Gauge("kubernetes_feature_enabled", "1 if the feature gate is on.", ["name", "stage"], registry=registry)
    for name, (stage, on) in gates.stated().items():
        enabled.labels(name, stage.value).set(on)


class JobMetrics:
    """Counts runs of periodic jobs that did not happen when they were due, or failed."""

    def __init__(self, registry: CollectorRegistry, jobs: tuple[str, ...]) -> None:
        self._skipped = Counter(
            "pvc_prebinder_jobs_skipped_total",
            "Periodic jobs that did not run in time, were skipped because the previous run had not ended, or failed.",
            ["job", "cause"],
            registry=registry,
        )
        for job in jobs:
            for cause in ("missed", "still_running", "failed"):
                self._skipped.labels(job, cause)

    def skipped(self, job: str, cause: str) -> None:
        """`cause` is missed, still_running or failed."""
        self._skipped.labels(job, cause).inc()
