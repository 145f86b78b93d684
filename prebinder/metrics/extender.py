"""Metrics of kube-scheduler's requests to the extender."""

import asyncio
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from kube import metrics as buckets
from kube.metrics import RequestMetrics, WatchMetrics
from kube.objects.api_resource import Resource
from prebinder.metrics.process import JobMetrics, new_registry

_VERBS = ("filter", "prioritize", "preempt")


class ExtenderMetrics:
    """Requests that prebinder.extender.server answers; code 0 for a client that left before."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "pvc_prebinder_extender_request_duration_seconds",
            "Duration of kube-scheduler's requests; code 0 means that it disconnected before the answer.",
            ["verb", "code"],
            buckets=buckets.EXTENDER,
            registry=registry,
        )
        self._inflight = Gauge(
            "pvc_prebinder_extender_inflight_requests", "Requests being answered.", ["verb"], registry=registry
        )
        self._nodes = Counter(
            "pvc_prebinder_extender_candidate_nodes_total",
            "Nodes in requests (in) and in responses (out).",
            ["verb", "stage"],
            registry=registry,
        )
        for verb in _VERBS:
            self._seconds.labels(verb, "200")
            self._inflight.labels(verb)
            for stage in ("in", "out"):
                self._nodes.labels(verb, stage)

    def began(self, verb: str) -> None:
        self._inflight.labels(verb).inc()

    def answered(self, verb: str, code: int, seconds: float) -> None:
        self._inflight.labels(verb).dec()
        self._seconds.labels(verb, str(code)).observe(seconds)

    def looked_at(self, verb: str, nodes_in: int, nodes_out: int) -> None:
        self._nodes.labels(verb, "in").inc(nodes_in)
        self._nodes.labels(verb, "out").inc(nodes_out)


class ExtenderInstruments:
    """All metrics of the extender as a process of its own."""

    def __init__(self, watched: Iterable[Resource]) -> None:
        self.registry = new_registry()
        self.watches = WatchMetrics(self.registry, [resource.label for resource in watched])
        self.requests = RequestMetrics(self.registry)
        self.jobs = JobMetrics(self.registry, ("drift",))
        self.extender = ExtenderMetrics(self.registry)

    async def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return await asyncio.to_thread(generate_latest, self.registry)
