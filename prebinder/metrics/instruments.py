"""All instruments of the controller, on one registry of their own.

Those of the other processes are in `prebinder.metrics.scheduler` and `prebinder.metrics.extender`.
"""

import asyncio
from collections.abc import Iterable
from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from binder.reporting.hold_reports import HoldMetrics
from binder.reporting.metrics import BindingMetrics, ReservationMetrics
from binder.solver.solver_process import SolverMetrics
from kube.metrics import EventMetrics, LeaderMetrics, QueueMetrics, RequestMetrics, WatchMetrics
from kube.objects.api_resource import WATCHED, Resource
from prebinder.config.feature_gates import ALL_ON, FeatureGates
from prebinder.metrics.collectors.cluster import ClusterState, StateCollector
from prebinder.metrics.drivers import DriverMetrics
from prebinder.metrics.extender import ExtenderMetrics
from prebinder.metrics.process import JobMetrics, new_registry, report_gates


class TermMetrics:
    """What a term as leader counts."""

    def __init__(self, registry: CollectorRegistry, *, dry_run: bool = False) -> None:
        self.registry = registry
        self.queues = QueueMetrics(registry)
        self.binding = BindingMetrics(registry, dry_run=dry_run)
        self.reservations = ReservationMetrics(registry)
        self.solver = SolverMetrics(registry)
        self.holds = HoldMetrics(registry)


class Instruments(TermMetrics):
    """All metrics of the controller and the agent, created once and passed to the code that updates them."""

    def __init__(
        self,
        lease: str,
        jobs: tuple[str, ...],
        watched: Iterable[Resource] = WATCHED,
        *,
        dry_run: bool = False,
        gates: FeatureGates = ALL_ON,
    ) -> None:
        super().__init__(new_registry(), dry_run=dry_run)
        report_gates(self.registry, gates)
        self.watches = WatchMetrics(self.registry, [resource.label for resource in watched])
        self.requests = RequestMetrics(self.registry)
        self.events = EventMetrics(self.registry)
        self.drivers = DriverMetrics(self.registry)
        self.leader = LeaderMetrics(self.registry, lease, contested=not dry_run)
        Gauge("pvc_prebinder_dry_run", "1 in a dry run, which writes nothing.", registry=self.registry).set(dry_run)
        self.jobs = JobMetrics(self.registry, jobs)
        self.extender = ExtenderMetrics(self.registry)
        self._state = StateCollector()
        self.registry.register(self._state)

    async def render(self, state: ClusterState, now: datetime) -> bytes:
        """Return all metrics in Prometheus' text format. Counting 100,000 objects must not block the event loop."""
        if not state.leads:
            self.queues.forget_depths()
            self.drivers.forget_sweeps()
        self._state.state, self._state.now = state, now
        return await asyncio.to_thread(generate_latest, self.registry)
