"""What a scheduler has counted, readable by tests."""

from collections import Counter

from prometheus_client import CollectorRegistry
from prometheus_client.samples import Sample

from binder.matching.rejection import Reason
from scheduler.standalone.metrics import SchedulerMetrics


class CountedMetrics(SchedulerMetrics):
    """The metrics of a scheduler, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        super().__init__(self._registry)

    @property
    def failures(self) -> Counter[Reason]:
        """Return how many attempts assigned no pod, by reason."""
        failures: Counter[Reason] = Counter()
        for sample in self._samples("scheduler_pod_schedule_failed_total"):
            failures[Reason(sample.labels["reason"])] += int(sample.value)
        return failures

    @property
    def zones(self) -> Counter[str]:
        """Return how many pods were assigned to nodes of each zone."""
        zones: Counter[str] = Counter()
        for sample in self._samples("pvc_prebinder_scheduler_pod_scheduling_duration_seconds_count"):
            zones[sample.labels["zone"]] += int(sample.value)
        return zones

    @property
    def bound(self) -> int:
        return self.zones.total()

    @property
    def victims(self) -> tuple[int, int]:
        """Return for how many pods others had to go, and how many those were."""
        names = ("scheduler_preemption_victims_count", "scheduler_preemption_victims_sum")
        pods, victims = (int(sum(sample.value for sample in self._samples(name))) for name in names)
        return pods, victims

    def _samples(self, name: str) -> list[Sample]:
        samples = (sample for metric in self._registry.collect() for sample in metric.samples)
        return [sample for sample in samples if sample.name == name]
