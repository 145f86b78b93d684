"""The API server as we see it: watches, cache, requests, Events, the work queue."""

from collections.abc import Iterable
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kube import metrics as buckets
from kube.metrics import Children


class WatchMetrics:
    """Port of kube.client.reflector and kube.client.drift_check."""

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
        self._drift.labels(resource, kind).set(objects)


class RequestMetrics:
    """Port of kube.client.rate_limit. Names as client-go has them."""

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
                buckets=buckets.REQUEST,
                registry=registry,
            )
        )
        for method in ("GET", "POST", "PATCH", "WATCH"):
            self._seconds.of(method)

    def request_done(self, method: str, status: int, seconds: float) -> None:
        self._requests.of(method, str(status) if status else "<error>").inc()
        self._seconds.of(method).observe(seconds)


class EventMetrics:
    """Port of kube.client.event_recorder."""

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
            buckets=buckets.WORKQUEUE,
            registry=registry,
        )
        self.worked = Histogram(
            "workqueue_work_duration_seconds",
            "Time a worker spent on a key.",
            ["name"],
            buckets=buckets.WORKQUEUE,
            registry=registry,
        )

    def of(self, name: str) -> "QueueInstruments":
        return QueueInstruments(self, name)

    def forget_depths(self) -> None:
        """Leave out how many keys wait: the queues ended with the term, whatever was left in them."""
        self.depth.clear()


class QueueInstruments:
    """Port of kube.workqueue, for one queue."""

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
