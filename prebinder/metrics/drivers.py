"""CSI drivers as we see them."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from csi.verdict import HealthState
from prebinder.metrics import buckets


class DriverMetrics:
    """Port of csi.drivers. The sidecar histogram has the name, labels and buckets of csi-lib-utils."""

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
            "Volumes whose driver was asked how they are, by what it said.",
            ["driver_name", "method_name", "result"],
            registry=registry,
        )
        self._seconds = Histogram(
            "csi_volume_health_probe_duration_seconds",
            "Time from the question about a volume to its verdict.",
            ["driver_name", "method_name"],
            buckets=buckets.PROBE,
            registry=registry,
        )

    def operation(self, driver: str, method: str, code: str, seconds: float) -> None:
        self._operations.labels(driver, method, code).observe(seconds)

    def probed(self, driver: str, method: str, state: HealthState, seconds: float) -> None:
        self._probes.labels(driver, method, state).inc()
        self._seconds.labels(driver, method).observe(seconds)
