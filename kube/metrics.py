"""What the instruments of all packages share: bucket bounds, and children that are found fast.

Bounds are in seconds, each from the metric whose dashboards should keep working. Instruments are declared beside what
counts, in the registry that is handed in. Commands without metrics do not load this module: they start sooner.
"""

from typing import Final, Generic, TypeVar

from prometheus_client.metrics import MetricWrapperBase

CSI: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600)
"""kubernetes-csi/csi-lib-utils metrics/metrics.go."""

WORKQUEUE: Final = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10)
"""k8s.io/component-base metrics/prometheus/workqueue."""

REQUEST: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
"""k8s.io/component-base metrics/prometheus/restclient."""

PROBE: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""A call over a unix socket takes about a millisecond, and its deadline is several seconds."""

EXTENDER: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
"""kube-scheduler allows an extender 5 s by default, and it should need a few milliseconds."""

SCHEDULING: Final = tuple(0.01 * 2**power for power in range(20))
"""scheduler_pod_scheduling_sli_duration_seconds in pkg/scheduler/metrics/metrics.go: 10 ms to an hour and a half."""

ATTEMPT: Final = tuple(0.001 * 2**power for power in range(15))
"""scheduler_scheduling_attempt_duration_seconds in the same file: 1 ms to 16 s."""

ATTEMPTS: Final = (1, 2, 4, 8, 16)
"""scheduler_pod_scheduling_attempts in the same file."""

DECISION: Final = tuple(0.0001 * 2**power for power in range(15))
"""A decision takes from a tenth of a millisecond, for a pod like the previous one, to several milliseconds in a large
cluster.
"""

VICTIMS: Final = (1, 2, 4, 8, 16, 32, 64)
"""scheduler_preemption_victims in pkg/scheduler/metrics/metrics.go."""

M = TypeVar("M", bound=MetricWrapperBase)


class Children(Generic[M]):
    """Caches a metric's children by their labels: its own `labels` takes several times as long as an update."""

    def __init__(self, metric: M) -> None:
        self._metric = metric
        self._known: dict[tuple[str, ...], M] = {}

    def of(self, *labels: str) -> M:
        """Return the child with these labels, created if missing."""
        child = self._known.get(labels)
        if child is None:
            child = self._known[labels] = self._metric.labels(*labels)
        return child
