"""A metric's children by their labels, for metrics that are updated for each pod, request or watch event."""

from typing import Generic, TypeVar

from prometheus_client.metrics import MetricWrapperBase

M = TypeVar("M", bound=MetricWrapperBase)


class Children(Generic[M]):
    """Caches children: the metric's own `labels` takes several times as long as an update."""

    def __init__(self, metric: M) -> None:
        self._metric = metric
        self._known: dict[tuple[str, ...], M] = {}

    def of(self, *labels: str) -> M:
        """Return the child with these labels, created if missing."""
        child = self._known.get(labels)
        if child is None:
            child = self._known[labels] = self._metric.labels(*labels)
        return child
