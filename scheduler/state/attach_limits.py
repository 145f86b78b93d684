"""Whether a node has the CSI drivers of another pod's volumes, and whether they can attach them.

Source: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go. A claim without a volume counts as one of its class's
provisioner. A volume that is attached although no pod on the node uses it counts as attached, and once more as new when
the pod brings it, as upstream. In-tree volumes that Kubernetes hands to a CSI driver count as that driver's, but not
their attachments, and so do those in a pod's own spec (kube.rules.csi_migration).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from binder.matching.node_fit import reject_attachments, reject_missing_driver
from binder.matching.rejection import Rejection
from kube.objects.model import Pod
from kube.store.node_view import UsedVolume, inline_volumes, missing_drivers, used_volume
from kube.store.snapshot import Snapshot

_NONE: Final[frozenset[UsedVolume]] = frozenset()


@dataclass(frozen=True, slots=True)
class AttachUse:
    """What is attached on a node: `used` by its pods, or `left` there: attached without a pod that uses it.

    `limits` are by driver; one that states no limit is absent. `missing` are drivers that allow none of their volumes
    here because they are not registered on the node.
    """

    used: frozenset[UsedVolume]
    left: frozenset[UsedVolume]
    limits: Mapping[str, int]
    missing: frozenset[str] = frozenset()


def attach_use(snapshot: Snapshot, node_name: str) -> AttachUse:
    """Return what is attached on a node, at a cost that grows with the pods on it."""
    pods = (snapshot.pods[key] for key in snapshot.pods_by_node.get(node_name, ()))
    return attach_use_by(pods, snapshot, node_name)


def attach_use_by(pods: Iterable[Pod], snapshot: Snapshot, node_name: str) -> AttachUse:
    """Return what would be attached on a node if these pods were the ones on it."""
    used = frozenset(volume for pod in pods for volume in attachments_of(pod, snapshot))
    csi_node = snapshot.csi_nodes.get(node_name)
    drivers = csi_node.drivers if csi_node is not None else ()
    limits = {driver.name: driver.attach_limit for driver in drivers if driver.attach_limit is not None}
    left = frozenset(_attached(snapshot, node_name)) - used
    return AttachUse(used, left, limits, missing_drivers(snapshot, node_name))


def attachments_of(pod: Pod, snapshot: Snapshot) -> frozenset[UsedVolume]:
    """Return the volumes of a pod that have to be attached wherever it runs, each once."""
    if not pod.claims and pod.constraints is None:
        return _NONE
    claims = (snapshot.claims.get(key) for key in pod.claim_keys)
    used = (used_volume(snapshot, claim) for claim in claims if claim is not None)
    return inline_volumes(pod).union(attachment for attachment in used if attachment is not None)


def missing_driver(wanted: Iterable[UsedVolume], use: AttachUse) -> str | None:
    """Return the first driver of these volumes, by name, that the node lacks although it must have it, or None."""
    return min((driver for driver, _ in wanted if driver in use.missing), default=None)


def attach_rejection(name: str, wanted: frozenset[UsedVolume], use: AttachUse) -> Rejection | None:
    """Return the first driver, by name, that the node lacks or whose limit there these volumes would exceed, or None.

    A driver that has to be there has to be there for volumes, too, that another pod on the node uses already.
    """
    if not wanted:
        return None
    if use.missing:
        rejection = reject_missing_driver(name, sorted({driver for driver, _ in wanted}), use.missing)
        if rejection is not None:
            return rejection
    if not use.limits:
        return None
    new = Counter(driver for driver, _ in wanted - use.used)
    held = Counter(driver for driver, _ in (*use.used, *use.left))
    return reject_attachments(name, sorted(new.items()), held, use.limits)


def has_plenty(wanted: frozenset[UsedVolume], use: AttachUse) -> bool:
    """Whether no driver is missing and even a single one could attach all of them: most nodes are far from a limit."""
    if use.missing:
        return False
    return not use.limits or len(wanted) + len(use.used) + len(use.left) <= min(use.limits.values())


def _attached(snapshot: Snapshot, node_name: str) -> Iterator[UsedVolume]:
    for name in snapshot.attachments_by_node.get(node_name, ()):
        attachment = snapshot.attachments[name]
        volume = snapshot.volumes.get(attachment.volume_name)
        if attachment.attacher and volume is not None and volume.driver:
            yield attachment.attacher, volume.handle
