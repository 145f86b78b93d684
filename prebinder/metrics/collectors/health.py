"""Gauges about the health of volumes, computed at each scrape. Of several reports on a volume the worst counts."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from prometheus_client.core import Metric

from binder.health.node_storage import NodeStorage
from binder.health.reported_health import reported
from binder.reservation.contract import Annotations
from csi.health.health import HealthFinding, HealthRecord
from csi.health.verdict import UNHEALTHY, HealthState, severity
from kube.objects.model import Volume
from kube.rules.topology import volume_zone
from kube.store.snapshot import Snapshot
from prebinder.metrics.collectors.gauges import gauge_family

KnownHealth = Callable[[str, str], HealthRecord | None]
"""What is known of a volume, by driver and handle; may be called from any thread."""


@dataclass(frozen=True, slots=True)
class HealthView:
    """The input of the gauges. `probed_drivers` have an endpoint of ours; `health` is what they reported."""

    snapshot: Snapshot
    health: KnownHealth
    probed_drivers: Collection[str]
    annotations: Annotations
    now: datetime
    node_storage: NodeStorage = field(default_factory=NodeStorage)

    def worst(self, volume: Volume) -> HealthFinding | None:
        """Return the worst report on the volume; None if there is none."""
        record = self.health(volume.driver, volume.handle)
        own = (record.finding, record.silence) if record is not None else ()
        others = reported(volume, self.snapshot, self.node_storage, self.annotations, self.probed_drivers, self.now)
        findings = [finding for finding in (*own, *others) if finding is not None]
        return max(findings, key=lambda finding: severity(finding.state), default=None)


def health_gauges(view: HealthView) -> Iterator[Metric]:
    counts: Counter[tuple[str, ...]] = Counter()
    oldest: dict[tuple[str, ...], float] = {}
    for volume in view.snapshot.volumes.values():
        if not volume.driver:
            continue
        worst = view.worst(volume)
        state = worst.state if worst is not None else HealthState.UNKNOWN
        counts[volume.driver, volume_zone(volume), str(state)] += 1
        if worst is not None and state in UNHEALTHY:
            key, age = (volume.driver, str(state)), (view.now - worst.since).total_seconds()
            oldest[key] = max(oldest.get(key, 0.0), age)
    yield gauge_family(
        "pvc_prebinder_volumes",
        "CSI volumes by health; Unknown if not probed, or if the driver cannot report it.",
        ["driver_name", "zone", "health"],
        counts,
    )
    yield gauge_family(
        "pvc_prebinder_oldest_unhealthy_volume_seconds",
        "Time since the volume that has been unhealthy longest became unhealthy.",
        ["driver_name", "health"],
        oldest,
    )
    yield gauge_family(
        "pvc_prebinder_unreadable_health_reports",
        "Health reports of other components that cannot be decoded; they count as absent.",
        ["resource"],
        _unreadable(view.snapshot),
    )


def quarantine_gauges(counts: Mapping[str, tuple[int, int]]) -> Iterator[Metric]:
    """`counts` is class -> volumes in quarantine, volumes kept out by its cap only."""
    yield gauge_family(
        "pvc_prebinder_quarantined_volumes",
        "Volumes withheld from claims because of their health.",
        ["storage_class"],
        {(name,): inside for name, (inside, _) in counts.items()},
    )
    yield gauge_family(
        "pvc_prebinder_quarantine_held_back_volumes",
        "Unhealthy Available volumes that any claim may get, because the cap on quarantine is reached.",
        ["storage_class"],
        {(name,): held_back for name, (_, held_back) in counts.items()},
    )


def _unreadable(snapshot: Snapshot) -> Mapping[tuple[str, ...], int]:
    claims = sum(claim.health.unreadable for claim in snapshot.claims.values() if claim.health is not None)
    nodes = sum(node.storage.unreadable for node in snapshot.csi_nodes.values() if node.storage is not None)
    return {("persistentvolumeclaims",): claims, ("csinodes",): nodes}
