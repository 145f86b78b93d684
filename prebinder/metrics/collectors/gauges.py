"""Families of gauges as values, those that every process has, and the values of the label `zone`."""

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric

from binder.reporting.metrics import OTHER
from kube.rules.topology import zone_of
from kube.store.snapshot import Snapshot


def gauge_family(
    name: str, help_text: str, labels: Sequence[str], values: Mapping[tuple[str, ...], float]
) -> GaugeMetricFamily:
    """Return a gauge for each combination of label values."""
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def cache_gauges(loop_lag: float, synced: Mapping[str, bool]) -> Iterator[Metric]:
    """Yield the lag of the event loop, in seconds, and for each kind whether it has been listed."""
    yield GaugeMetricFamily("pvc_prebinder_event_loop_lag_seconds", "Lag of the event loop.", value=loop_lag)
    yield gauge_family(
        "pvc_prebinder_cache_synced",
        "1 once a complete list was received.",
        ["resource"],
        {(resource,): int(is_synced) for resource, is_synced in synced.items()},
    )


class ZoneLabel:
    """Bounds the label to the zones in which there are nodes now: annotations, selectors and volumes may name any."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._zones = {"", *(zone_of(node.labels) for node in snapshot.nodes.values())}

    def of(self, zone: str) -> str:
        """Return the label's value for a zone; empty for none."""
        return zone if zone in self._zones else OTHER
