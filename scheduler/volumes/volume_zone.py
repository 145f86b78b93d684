"""Which nodes are in the zones of a pod's bound volumes.

Source: pkg/scheduler/framework/plugins/volumezone/volume_zone.go. It reads labels of volumes, which is how in-tree
cloud volumes record their zone, and ignores claims of generic ephemeral volumes.
"""

from collections.abc import Iterable, Iterator

from binder.matching.rejection import Reason, Rejection
from kube.objects.model import Node, Pod, Volume
from kube.rules.topology import ZONE_LABELS, volume_zone_matches
from kube.store.snapshot import Snapshot


def zoned_volumes(pod: Pod, snapshot: Snapshot) -> Iterator[Volume]:
    """Yield the pod's volumes that have a label of a zone or region. Those that do not exist are omitted."""
    for named in pod.claims:
        claim = None if named.ephemeral else snapshot.claims.get(f"{pod.namespace}/{named.name}")
        volume = snapshot.volumes.get(claim.volume_name) if claim is not None else None
        if volume is not None and any(key in ZONE_LABELS for key, _ in volume.labels):
            yield volume


def zone_rejection(volumes: Iterable[Volume], node: Node) -> Rejection | None:
    """Return the first volume that is in another zone or region than the node, or None."""
    for volume in volumes:
        if not volume_zone_matches(volume.labels, node.labels):
            wanted = f"a node in {_places(volume.labels)}, where volume {volume.name} is"
            return Rejection(Reason.VOLUME_ZONE_MISMATCH, node.name, wanted, _places(node.labels))
    return None


def _places(labels: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{key}={value}" for key, value in labels if key in ZONE_LABELS)
