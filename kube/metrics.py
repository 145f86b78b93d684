"""The API server as a process sees it: watches, cache, requests, Events, work queues, the Lease. And what the
instruments of all packages share: bucket bounds, and children that are found fast.

Bounds are in seconds, each from the metric whose dashboards should keep working. Instruments are declared in the
package of what counts, in the registry that is handed in. Commands without metrics do not load this module: they start
sooner.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
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


class WatchMetrics:
    """Lists and watches, and what the drift check finds; a port of kube.client.reflector."""

    def __init__(self, registry: CollectorRegistry, resources: Iterable[str]) -> None:
        self._restarts = Counter(
            "pvc_prebinder_watch_restarts_total",
            "Watches that ended, by cause.",
            ["resource", "cause"],
            registry=registry,
        )
        self._last_event = Children(
            Gauge(
                "pvc_prebinder_cache_last_event_timestamp_seconds",
                "Time of the last list, event or bookmark.",
                ["resource"],
                registry=registry,
            )
        )
        self._drift = Gauge(
            "pvc_prebinder_cache_drift_objects",
            "Objects that the last drift check found to be missing, extra or outdated in the cache.",
            ["resource", "kind"],
            registry=registry,
        )
        self._malformed = Counter(
            "pvc_prebinder_malformed_objects_total",
            "Objects skipped because they could not be decoded.",
            ["resource"],
            registry=registry,
        )
        for resource in resources:
            for cause in ("expired", "closed", "error"):
                self._restarts.labels(resource, cause)
            for kind in ("missing", "extra", "outdated"):
                self._drift.labels(resource, kind)
            self._malformed.labels(resource)

    def watch_restarted(self, resource: str, cause: str) -> None:
        self._restarts.labels(resource, cause).inc()

    def event_seen(self, resource: str, now: datetime) -> None:
        self._last_event.of(resource).set(now.timestamp())

    def malformed(self, resource: str) -> None:
        self._malformed.labels(resource).inc()

    def drift(self, resource: str, kind: str, objects: int) -> None:
        """Record how many objects differed at the last check; 0 too."""
        self._drift.labels(resource, kind).set(objects)


class RequestMetrics:
    """Requests to the API server. Names as client-go has them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Children(
            Counter(
                "rest_client_requests_total",
                "Requests to the API server; code <error> means no answer.",
                ["method", "code"],
                registry=registry,
            )
        )
        self._seconds = Children(
            Histogram(
                "rest_client_request_duration_seconds",
                "Duration of requests to the API server.",
                ["verb"],
                buckets=REQUEST,
                registry=registry,
            )
        )
        for method in ("GET", "POST", "PATCH", "WATCH"):
            self._seconds.of(method)

    def request_done(self, method: str, status: int, seconds: float) -> None:
        """Record a response; status 0 means that there was none. A watch counts when its headers arrive."""
        self._requests.of(method, str(status) if status else "<error>").inc()
        self._seconds.of(method).observe(seconds)


class EventMetrics:
    """Events that kube.client.event_recorder sends."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._events = Counter(
            "pvc_prebinder_events_total",
            "Kubernetes Events sent or dropped.",
            ["type", "reason", "result"],
            registry=registry,
        )

    def event_sent(self, type: str, reason: str) -> None:  # noqa: A002 - the API's word
        self._events.labels(type, reason, "sent").inc()

    def event_dropped(self, type: str, reason: str) -> None:  # noqa: A002
        self._events.labels(type, reason, "dropped").inc()


class QueueMetrics:
    """The work queues. Names and buckets as client-go has them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.depth = Gauge("workqueue_depth", "Keys waiting for a worker.", ["name"], registry=registry)
        self.adds = Counter("workqueue_adds_total", "Keys added to the queue.", ["name"], registry=registry)
        self.retries = Counter("workqueue_retries_total", "Keys retried.", ["name"], registry=registry)
        self.waited = Histogram(
            "workqueue_queue_duration_seconds",
            "Time a key waited for a worker.",
            ["name"],
            buckets=WORKQUEUE,
            registry=registry,
        )
        self.worked = Histogram(
            "workqueue_work_duration_seconds",
            "Time a worker spent on a key.",
            ["name"],
            buckets=WORKQUEUE,
            registry=registry,
        )

    def of(self, name: str) -> "QueueInstruments":
        return QueueInstruments(self, name)

    def forget_depths(self) -> None:
        """Leave out how many keys wait: the queues ended with the term, whatever was left in them."""
        self.depth.clear()


class QueueInstruments:
    """Those of one queue. Times are in seconds."""

    def __init__(self, metrics: QueueMetrics, name: str) -> None:
        self._depth, self._adds = metrics.depth.labels(name), metrics.adds.labels(name)
        self._retries = metrics.retries.labels(name)
        self._waited, self._worked = metrics.waited.labels(name), metrics.worked.labels(name)

    def added(self, depth: int) -> None:
        self._adds.inc()
        self._depth.set(depth)

    def retried(self) -> None:
        self._retries.inc()

    def started(self, depth: int, waited: float) -> None:
        self._depth.set(depth)
        self._waited.observe(waited)

    def finished(self, worked: float) -> None:
        self._worked.observe(worked)


class LeaderMetrics:
    """Whether this process holds the Lease. `leads` is the last reported state."""

    def __init__(self, registry: CollectorRegistry, name: str, *, contested: bool = True) -> None:
        """Without leader election there is no series: 0 would look like a cluster without a leader."""
        self.leads = False
        self._name = name
        self._status = Gauge(
            "leader_election_master_status", "1 while this process holds the Lease.", ["name"], registry=registry
        )
        if contested:
            self._status.labels(name)

    def leading(self, leads: bool) -> None:
        self.leads = leads
        self._status.labels(self._name).set(1 if leads else 0)
