"""The label `storage_class`, whose values users choose: a claim may name any class, in up to 4,000 characters."""

from typing import Final

from prometheus_client.metrics import MetricWrapperBase

OTHER: Final = "other"
"""Stands for all classes without a StorageClass."""


class ClassLabel:
    """Bounds the label of some metrics to the StorageClasses that exist, which only administrators create.

    Their series are dropped with the class; one that is created again starts at 0.
    """

    def __init__(self, *metrics: MetricWrapperBase) -> None:
        self._metrics = metrics
        self._known: set[str] = set()

    def expect(self, storage_class: str) -> None:
        """The StorageClass exists."""
        self._known.add(storage_class)

    def forget(self, storage_class: str) -> None:
        """The StorageClass was deleted."""
        self._known.discard(storage_class)
        for metric in self._metrics:
            metric.remove_by_labels({"storage_class": storage_class})

    def of(self, storage_class: str) -> str:
        """Return the label's value for a claim's class; empty for a claim without one."""
        return storage_class if not storage_class or storage_class in self._known else OTHER
