"""What a term has counted, readable by tests."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry

from kube.objects.model import WAIT_FOR_FIRST_CONSUMER
from prebinder.metrics.instruments import TermMetrics

WORDS: Mapping[str, tuple[str, ...]] = {
    "pvc_prebinder_reservation_attempts_total": ("attempted", "storage_class", "binding_mode", "result"),
    "pvc_prebinder_reservation_failures_total": ("failed", "storage_class", "reason"),
    "pvc_prebinder_reservation_duration_seconds_count": ("reserved after", "storage_class", "binding_mode"),
    "pvc_prebinder_bind_duration_seconds_count": ("bound", "storage_class", "binding_mode"),
    "pvc_prebinder_reservations_created_total": ("reserved", "storage_class"),
    "pvc_prebinder_reservation_releases_total": ("released", "cause"),
    "pvc_prebinder_write_conflicts_total": ("conflicted", "resource", "kind"),
    "pvc_prebinder_reservation_parse_errors_total": ("garbage", "field"),
    "pvc_prebinder_solver_failures_total": ("solver failed", "cause"),
}
"""Samples in a scrape: a short word, and the labels that tests look at."""


class Counts(TermMetrics):
    """The metrics of a term, in a registry of their own; the class `fast` exists."""

    def __init__(self) -> None:
        super().__init__(CollectorRegistry())
        self.binding.expect_class("fast", WAIT_FOR_FIRST_CONSUMER)
        self.reservations.expect_class("fast")

    @property
    def counted(self) -> Counter[tuple[Any, ...]]:
        """Return how often each thing happened, by word and labels, without what has not happened."""
        counted: Counter[tuple[Any, ...]] = Counter()
        for sample in (sample for metric in self.registry.collect() for sample in metric.samples):
            word, *labels = WORDS.get(sample.name, ("",))
            if word and sample.value:
                counted[word, *(sample.labels[label] for label in labels)] += int(sample.value)
        return counted
