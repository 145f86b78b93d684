"""Pods with reserved volumes and no node yet: kube-scheduler will place them wherever these volumes are accessible.

The ledger has those of this process; what an earlier one committed is read from the claims and volumes. If such a pod's
volumes leave it a single node it can run nowhere else, so its room there is booked in a ledger that begins empty. If
there are several nodes kube-scheduler chooses, and nothing is booked.
"""

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass

from binder.matching.controller_match import committed_volume
from binder.model.ledger import Hold
from binder.model.view import View
from kube.objects.model import Claim, Node, Pod, Volume
from kube.pod_topology.node_index import NodeIndex
from kube.rules.quantity import NANO
from kube.rules.resource_fit import PODS, has_room
from kube.store.node_view import node_view


@dataclass(frozen=True, slots=True)
class ReservedPod:
    """A pod and the volumes that it has or that are reserved for it; all of them must be accessible from its node."""

    pod: Pod
    volumes: tuple[Volume, ...]


def reserved_pods(view: View, pods: Iterable[Pod], planned: Set[str]) -> Iterator[ReservedPod]:
    """Yield those of these pods that have reserved volumes and wait for a node; `planned` ones are decided now."""
    for pod in pods:
        if pod.claims and not pod.node_name and not pod.deleting and not pod.finished and pod.key not in planned:
            volumes = tuple(_volumes(view, pod))
            if volumes:
                yield ReservedPod(pod, volumes)


def _volumes(view: View, pod: Pod) -> Iterator[Volume]:
    snapshot = view.snapshot
    for key in pod.claim_keys:
        claim = snapshot.claims.get(key)
        volume = None if claim is None else snapshot.volumes.get(claim.volume_name) or _reserved_volume(view, claim)
        if volume is not None:
            yield volume


def _reserved_volume(view: View, claim: Claim) -> Volume | None:
    """Return the volume whose own side names the claim, or that the ledger holds for it."""
    volumes = view.snapshot.volumes
    committed = (volumes[name] for name in sorted(view.snapshot.volumes_by_claim.get(claim.key, ())))
    holds = (hold for hold in view.ledger.of_claim(claim.key) if hold.claim_uid == claim.uid)
    held = (volumes[hold.volume] for hold in holds if hold.volume in volumes)
    return committed_volume(claim, view.snapshot.classes, committed) or next(held, None)


def former_bookings(view: View) -> tuple[Hold, ...]:
    """Return holds that book the one node of each pod with reserved volumes, if it has room there."""
    holds: list[Hold] = []
    nodes = [node for _, node in sorted(view.snapshot.nodes.items())]
    index, free = NodeIndex.of(nodes), dict[str, dict[str, int]]()
    for reserved in reserved_pods(view, view.snapshot.pods.values(), frozenset()):
        node = _only_node(reserved, index, nodes)
        if node is None:
            continue
        left = free.get(node.name)
        if left is None:
            left = free[node.name] = dict(node_view(view.snapshot, node.name).free)
        if not has_room(left, reserved.pod.requests):
            continue
        left[PODS] -= NANO
        for name, amount in reserved.pod.requests:
            left[name] = left.get(name, 0) - amount
        holds.extend(_holds(view, reserved, node))
    return tuple(holds)


def _only_node(reserved: ReservedPod, index: NodeIndex, nodes: list[Node]) -> Node | None:
    pod = reserved.pod
    possible = index.selected(pod.node_selector, pod.node_affinity) & index.tolerated(pod.tolerations)
    for volume in reserved.volumes:
        possible &= index.reaching(volume.node_affinity)
    return nodes[possible.bit_length() - 1] if possible.bit_count() == 1 else None


def _holds(view: View, reserved: ReservedPod, node: Node) -> Iterator[Hold]:
    pod = reserved.pod
    for volume in reserved.volumes:
        if volume.claim is None:
            continue
        key = volume.claim.key
        claim = view.snapshot.claims.get(key)
        if claim is not None:
            yield Hold(
                volume=volume.name,
                claim_key=key,
                claim_uid=claim.uid,
                pod_key=pod.key,
                node=node.name,
                requests=pod.requests,
                resource_version=volume.resource_version,
                seen=True,
            )
