"""The verdicts of kube-scheduler's VolumeBinding, VolumeZone and NodeVolumeLimits on a pod and each node, together."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from binder.matching.index import VolumeIndex
from binder.matching.rejection import Rejection
from kube.objects.model import Claim, Node, Pod, Volume
from kube.store.snapshot import Snapshot
from scheduler.state.attach_limits import AttachUse, attach_rejection, attachments_of
from scheduler.volumes.volume_binding import PodClaims, choose_volumes
from scheduler.volumes.volume_zone import zone_rejection, zoned_volumes


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What a pod's claims get on a node. Bound claims are not repeated; where the pod does not fit, the list is
    empty.
    """

    node: str
    volumes: tuple[tuple[Claim, Volume], ...] = ()
    provision: tuple[Claim, ...] = ()
    rejections: tuple[Rejection, ...] = ()

    @property
    def fits(self) -> bool:
        return not self.rejections


def on_nodes(
    pod: Pod, claims: PodClaims, uses: Iterable[tuple[Node, AttachUse]], snapshot: Snapshot, index: VolumeIndex
) -> Iterator[NodeAnswer]:
    """Yield the result on each node for a pod whose claims were looked up. `uses` is what the nodes have attached."""
    attached = attachments_of(pod, snapshot)
    zoned = tuple(zoned_volumes(pod, snapshot))
    for node, use in uses:
        choice = choose_volumes(claims, node, snapshot, index)
        others = attach_rejection(node.name, attached, use), zone_rejection(zoned, node)
        rejections = (*choice.rejections, *(rejection for rejection in others if rejection is not None))
        if rejections:
            yield NodeAnswer(node.name, rejections=rejections)
        else:
            yield NodeAnswer(node.name, choice.volumes, choice.provision)
