"""The verdicts of kube-scheduler's VolumeBinding, VolumeZone and NodeVolumeLimits on each waiting pod and node.

Nothing else about nodes is evaluated here: taints, resources and affinities also exclude nodes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from binder.matching.index import VolumeIndex
from binder.matching.rejection import Rejection
from kube.objects.model import Node, Pod
from kube.store.snapshot import Snapshot
from scheduler.state.attach_limits import attach_use
from scheduler.volumes.node_answer import NodeAnswer, on_nodes
from scheduler.volumes.volume_binding import claims_of


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
