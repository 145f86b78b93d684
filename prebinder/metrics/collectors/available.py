"""Gauges of what is left for claims: Available volumes that no claim has and nothing keeps back."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from prometheus_client.core import Metric

from binder.matching.index import is_free
from binder.reservation.contract import Annotations
from kube.rules.quantity import NANO
from kube.rules.topology import volume_zone
from kube.store.snapshot import Snapshot
from prebinder.metrics.collectors.gauges import ZoneLabel, gauge_family
from prebinder.metrics.collectors.pending import class_label_of


def available_gauges(snapshot: Snapshot, annotations: Annotations, now: datetime) -> Iterator[Metric]:
    """Yield how many volumes of each zone and class are free and not reserved, and their capacity."""
    counts: Counter[tuple[str, ...]] = Counter()
    capacity: Counter[tuple[str, ...]] = Counter()
    zones = ZoneLabel(snapshot)
    for volume in snapshot.volumes.values():
        if not is_free(volume) or annotations.pin_keys(volume):
            continue
        reservation = annotations.reservation_of(volume)
        if reservation is None or not reservation.in_force(now):
            key = (zones.of(volume_zone(volume)), class_label_of(volume, snapshot))
            counts[key] += 1
            capacity[key] += volume.capacity
    labels = ["zone", "storage_class"]
    yield gauge_family(
        "pvc_prebinder_available_volumes",
        "Available volumes that are neither claimed, reserved nor quarantined.",
        labels,
        counts,
    )
    yield gauge_family(
        "pvc_prebinder_available_volume_bytes",
        "Capacity of the Available volumes that are neither claimed, reserved nor quarantined.",
        labels,
        {key: size / NANO for key, size in capacity.items()},
    )
