"""All metrics of the standalone scheduler, and those of its configuration."""

import asyncio
from collections.abc import Iterable
from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from kube.metrics import EventMetrics, LeaderMetrics, RequestMetrics, WatchMetrics
from kube.objects.api_resource import Resource
from prebinder.config.feature_gates import ALL_ON, FeatureGates
from prebinder.metrics.collectors.scheduler import SchedulerState, SchedulerStateCollector
from prebinder.metrics.process import JobMetrics, new_registry, report_gates
from scheduler.standalone.metrics import SchedulerMetrics


class ConfigurationMetrics:
    """The configuration in force, from the one that was read at startup."""

    def __init__(self, registry: CollectorRegistry, now: datetime) -> None:
        self._successful = Gauge(
            "pvc_prebinder_config_last_reload_successful",
            "1 if the last change of the configuration was applied, 0 if a change of its file was rejected; a "
            "rejected PUT does not count.",
            registry=registry,
        )
        self._applied = Gauge(
            "pvc_prebinder_config_last_reload_success_timestamp_seconds",
            "When the configuration in force was applied.",
            registry=registry,
        )
        self.applied(now)

    def applied(self, now: datetime) -> None:
        self._successful.set(1)
        self._applied.set(now.timestamp())

    def rejected(self) -> None:
        self._successful.set(0)


class SchedulerInstruments:
    """All metrics of the standalone scheduler."""

    def __init__(self, lease: str, watched: Iterable[Resource], now: datetime, *, gates: FeatureGates = ALL_ON) -> None:
        self.registry = new_registry()
        report_gates(self.registry, gates)
        self.watches = WatchMetrics(self.registry, [resource.label for resource in watched])
        self.requests = RequestMetrics(self.registry)
        self.events = EventMetrics(self.registry)
        self.leader = LeaderMetrics(self.registry, lease)
        self.jobs = JobMetrics(self.registry, ("drift",))
        self.attempts = SchedulerMetrics(self.registry)
        self.configuration = ConfigurationMetrics(self.registry, now)
        self._state = SchedulerStateCollector()
        self.registry.register(self._state)

    async def render(self, state: SchedulerState) -> bytes:
        """Return all metrics in Prometheus' text format."""
        self._state.state = state
        return await asyncio.to_thread(generate_latest, self.registry)
