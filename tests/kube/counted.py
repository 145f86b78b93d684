"""What the loops of kube have counted, each in a registry of its own."""

from collections import Counter

from prometheus_client import CollectorRegistry

from kube.metrics import EventMetrics, LeaderMetrics, QueueInstruments, QueueMetrics, RequestMetrics, WatchMetrics


class CountedRequests(RequestMetrics):
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        super().__init__(self.registry)

    @property
    def done(self) -> Counter[tuple[str, str]]:
        """Return how many responses there were, by method and code."""
        samples = (sample for metric in self.registry.collect() for sample in metric.samples)
        return Counter(
            {
                (sample.labels["method"], sample.labels["code"]): int(sample.value)
                for sample in samples
                if sample.name == "rest_client_requests_total"
            }
        )

    def seconds(self, verb: str) -> float:
        """Return how long all requests of the verb took."""
        return self.registry.get_sample_value("rest_client_request_duration_seconds_sum", {"verb": verb}) or 0.0


class CountedEvents(EventMetrics):
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        super().__init__(self.registry)

    @property
    def sent(self) -> Counter[str]:
        """Return how many Events were sent, by reason."""
        return self._with("sent")

    @property
    def dropped(self) -> Counter[str]:
        return self._with("dropped")

    def _with(self, result: str) -> Counter[str]:
        reasons: Counter[str] = Counter()
        for sample in (sample for metric in self.registry.collect() for sample in metric.samples):
            if sample.name == "pvc_prebinder_events_total" and sample.labels["result"] == result:
                reasons[sample.labels["reason"]] += int(sample.value)
        return reasons


class CountedDrift(WatchMetrics):
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        super().__init__(self.registry, ())

    @property
    def differences(self) -> Counter[str]:
        """Return how many objects of all checked kinds differed at the last check, and how."""
        differences: Counter[str] = Counter()
        for sample in (sample for metric in self.registry.collect() for sample in metric.samples):
            if sample.name == "pvc_prebinder_cache_drift_objects":
                differences[sample.labels["kind"]] += int(sample.value)
        return differences


class CountedQueue(QueueInstruments):
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        super().__init__(QueueMetrics(self.registry), "q")

    def value(self, name: str) -> float | None:
        return self.registry.get_sample_value(f"workqueue_{name}", {"name": "q"})


class CountedTerms(LeaderMetrics):
    """Remembers each report of its elector."""

    def __init__(self) -> None:
        super().__init__(CollectorRegistry(), "l")
        self.reported: list[bool] = []

    def leading(self, leads: bool) -> None:
        super().leading(leads)
        self.reported.append(leads)
