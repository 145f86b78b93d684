"""What the cluster itself reports about a volume's health, besides a driver that is probed. Pure.

Three places: the volume's own annotations, where an agent beside its driver publishes; the claim it is bound to; and
the CSINodes of the nodes from which it is accessible. A process that probes a driver does not read back what was
published about it.
"""

from collections.abc import Collection
from datetime import datetime

from binder.health.node_storage import NodeStorage
from binder.health.published_health import published_finding
from binder.reservation.contract import Annotations
from csi.health.health import HealthFinding
from csi.health.sources import claim_findings
from kube.objects.model import Claim, Volume
from kube.store.snapshot import Snapshot


def reported(
    volume: Volume,
    snapshot: Snapshot,
    node_storage: NodeStorage,
    annotations: Annotations,
    probed: Collection[str],
    now: datetime,
) -> tuple[HealthFinding, ...]:
    """Return what is reported about the volume, one finding for each source; `probed` are the drivers that we probe."""
    published = None if volume.driver in probed else published_finding(volume, annotations, now)
    others = reported_by_others(volume, snapshot, node_storage, now)
    return others if published is None else (published, *others)


def reported_by_others(
    volume: Volume, snapshot: Snapshot, node_storage: NodeStorage, now: datetime
) -> tuple[HealthFinding, ...]:
    """Return what neither the driver's controller nor an agent of ours reported."""
    if volume.claim is None and not snapshot.csi_nodes_by_unhealthy_driver:
        # True for nearly every Available volume, and a plan evaluates thousands of them.
        return ()
    claim = claim_of(volume, snapshot)
    findings = list(claim_findings(claim, now)) if claim is not None else []
    storage = node_storage.finding(volume, snapshot, now)
    if storage is not None:
        findings.append(storage)
    return tuple(findings)


def claim_of(volume: Volume, snapshot: Snapshot) -> Claim | None:
    """Return the claim if volume and claim refer to each other; reports on another claim are not about this volume."""
    if volume.claim is None:
        return None
    claim = snapshot.claims.get(volume.claim.key)
    return claim if claim is not None and claim.volume_name == volume.name else None
