"""Gauges of pods that wait for a node that does not exist yet, with their volumes committed or their gate removed."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from prometheus_client.core import Metric

from binder.new_nodes.ahead import pods_ahead_in
from binder.reporting.metrics import OTHER
from binder.reservation.contract import Annotations
from kube.store.snapshot import Snapshot
from prebinder.metrics.collectors.gauges import ZoneLabel, gauge_family


def ahead_gauges(snapshot: Snapshot, annotations: Annotations, now: datetime) -> Iterator[Metric]:
    """Yield how many pods are ahead of their nodes, and of how many the node is late, by class and zone."""
    ahead: Counter[tuple[str, ...]] = Counter()
    late: Counter[tuple[str, ...]] = Counter()
    zones = ZoneLabel(snapshot)
    for each in pods_ahead_in(snapshot, annotations):
        for name, zone in each.places:
            key = (name if name in snapshot.classes else OTHER, zones.of(zone))
            ahead[key] += 1
            late[key] += each.due <= now
    labels = ["storage_class", "zone"]
    yield gauge_family(
        "pvc_prebinder_pods_ahead_of_nodes",
        "Pods whose volumes were bound, or in mode provision whose gate was removed, for a node that an autoscaler has"
        " yet to add; then without a zone.",
        labels,
        ahead,
    )
    yield gauge_family(
        "pvc_prebinder_late_nodes",
        "Pods that have waited for a node of an autoscaler longer than their class allows.",
        labels,
        late,
    )
