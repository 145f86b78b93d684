"""The verdicts of kube-scheduler's VolumeBinding, VolumeZone and NodeVolumeLimits on each waiting pod and node.

Nothing else about nodes is evaluated here: taints, resources and affinities also exclude nodes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from binder.matching.index import VolumeIndex
from binder.matching.rejection import Rejection
from kube.objects.model import Claim, Node, Pod, Volume
from kube.store.snapshot import Snapshot
from scheduler.state.attach_limits import AttachUse, attach_refusal, attach_use, attachments_of
from scheduler.volumes.volume_binding import PodClaims, choose_volumes, claims_of
from scheduler.volumes.volume_zone import zone_refusal, zoned_volumes


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


@dataclass(frozen=True, slots=True)
class PodAnswer:
    """The result for a pod. `rejection` rejects it as a whole, before any node is evaluated."""

    pod: Pod
    rejection: Rejection | None
    nodes: tuple[NodeAnswer, ...] = ()


def waiting(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods that still need a node."""
    return [pod for pod in pods if not (pod.node_name or pod.finished or pod.deleting)]


def pod_answers(pods: Iterable[Pod], nodes: Sequence[Node], snapshot: Snapshot) -> Iterator[PodAnswer]:
    """Yield the result for each pod, as if the others did not exist."""
    index = VolumeIndex.of(snapshot.volumes.values())
    uses = [(node, attach_use(snapshot, node.name)) for node in nodes]
    for pod in pods:
        claims = claims_of(pod, snapshot)
        if isinstance(claims, Rejection):
            yield PodAnswer(pod, claims)
        else:
            yield PodAnswer(pod, None, tuple(on_nodes(pod, claims, uses, snapshot, index)))


def on_nodes(
    pod: Pod, claims: PodClaims, uses: Iterable[tuple[Node, AttachUse]], snapshot: Snapshot, index: VolumeIndex
) -> Iterator[NodeAnswer]:
    """Yield the result on each node for a pod whose claims were looked up. `uses` is what the nodes have attached."""
    attached = attachments_of(pod, snapshot)
    zoned = tuple(zoned_volumes(pod, snapshot))
    for node, use in uses:
        choice = choose_volumes(claims, node, snapshot, index)
        others = attach_refusal(node.name, attached, use), zone_refusal(zoned, node)
        rejections = (*choice.rejections, *(rejection for rejection in others if rejection is not None))
        if rejections:
            yield NodeAnswer(node.name, rejections=rejections)
        else:
            yield NodeAnswer(node.name, choice.volumes, choice.provision)
