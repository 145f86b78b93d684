"""Metrics of CSI drivers as seen by this process."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from csi.health.health import HealthRecord
from csi.health.size_limit import SizeLimit
from csi.health.verdict import HealthState
from kube import metrics as buckets

if TYPE_CHECKING:
    # It imports gRPC, 11 MB, and the extender and the scheduler call no driver.
    from csi.sweep import SweepProgress


class SweepGauges:
    """The running sweep of each driver, and the last complete one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._swept = Gauge(
            "pvc_prebinder_health_sweep_volumes",
            "Volumes probed by the running sweep, or by the last one if none is running.",
            ["driver_name"],
            registry=registry,
        )
        self._sweep_seconds = Gauge(
            "pvc_prebinder_health_sweep_last_duration_seconds",
            "Duration of the last complete sweep.",
            ["driver_name"],
            registry=registry,
        )
        self._oldest = Gauge(
            "pvc_prebinder_health_oldest_seconds",
            "Age of the oldest health result at the end of the last sweep.",
            ["driver_name"],
            registry=registry,
        )

    def progress(self, progress: "SweepProgress") -> None:
        self._swept.labels(progress.driver).set(progress.done)
        if progress.seconds is not None:
            self._oldest.labels(progress.driver).set(progress.oldest.total_seconds())
            if progress.answered:
                self._sweep_seconds.labels(progress.driver).set(progress.seconds)

    def clear(self) -> None:
        for gauge in (self._swept, self._sweep_seconds, self._oldest):
            gauge.clear()


class DriverMetrics:
    """Port of csi.drivers and of csi.sweep. The sidecar histogram has the name, labels and buckets of csi-lib-utils."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._operations = Histogram(
            "csi_sidecar_operations_seconds",
            "Duration of CSI calls, by status code.",
            ["driver_name", "method_name", "grpc_status_code"],
            buckets=buckets.CSI,
            registry=registry,
        )
        self._probes = Counter(
            "csi_volume_health_probe_total",
            "Volumes probed, by result.",
            ["driver_name", "method_name", "result"],
            registry=registry,
        )
        self._seconds = Histogram(
            "csi_volume_health_probe_duration_seconds",
            "Time from a probe of a volume to its verdict.",
            ["driver_name", "method_name"],
            buckets=buckets.PROBE,
            registry=registry,
        )
        self._transitions = Counter(
            "pvc_prebinder_volume_health_transitions_total",
            "Changes of volume health; the first known state counts too.",
            ["driver_name", "to"],
            registry=registry,
        )
        self._exceeded = Counter(
            "pvc_prebinder_csi_limit_exceeded_total",
            "Answers of a CSI driver that were not used because they exceed a limit, by limit.",
            ["driver_name", "limit"],
            registry=registry,
        )
        self._sweeps = SweepGauges(registry)

    def expect_drivers(self, drivers: Iterable[str]) -> None:
        """Start the counters of these drivers at 0."""
        for driver in drivers:
            for state in HealthState:
                self._transitions.labels(driver, state)
            for limit in SizeLimit:
                self._exceeded.labels(driver, limit)

    def operation(self, driver: str, method: str, code: str, seconds: float) -> None:
        self._operations.labels(driver, method, code).observe(seconds)

    def probed(self, driver: str, method: str, state: HealthState, seconds: float) -> None:
        self._probes.labels(driver, method, state).inc()
        self._seconds.labels(driver, method).observe(seconds)

    def exceeded(self, driver: str, limit: SizeLimit, _details: str) -> None:
        self._exceeded.labels(driver, limit).inc()

    def listed(self, driver: str, method: str, code: str, seconds: float) -> None:
        """Count a list as one probe; it adds nothing about individual volumes here."""
        self._probes.labels(driver, method, "Listed" if code == "OK" else "Failed").inc()
        self._seconds.labels(driver, method).observe(seconds)

    def swept(self, progress: "SweepProgress") -> None:
        self._sweeps.progress(progress)

    def forget_sweeps(self) -> None:
        """Leave out the last sweep: the leader's is more recent."""
        self._sweeps.clear()

    def health_changed(self, driver: str, _handle: str, old: HealthRecord | None, new: HealthRecord) -> None:
        """Listener of csi.records."""
        if old is None or old.state is not new.state:
            self._transitions.labels(driver, new.state).inc()
