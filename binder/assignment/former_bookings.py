"""What pods that were promised volumes before this process began leave of nodes, for a ledger that begins empty.

Whoever held the lease before us may have committed volumes for pods that kube-scheduler has not placed yet. A pod whose
volumes leave it a single node can run nowhere else, so its room there is not for others. Where there are several nodes
kube-scheduler chooses, and nothing is booked.
"""

from collections.abc import Iterator
from datetime import datetime

from binder.assignment.promised_pods import PromisedPod, promised_pods
from binder.model.ledger import Hold
from binder.model.view import View
from kube.objects.model import Node
from kube.pod_topology.node_index import NodeIndex
from kube.rules.quantity import NANO
from kube.rules.resource_fit import PODS, has_room
from kube.store.node_view import node_view


def former_bookings(view: View, now: datetime) -> tuple[Hold, ...]:
    """Return holds that book the one node of each pod that was promised volumes, where it has room there."""
    holds: list[Hold] = []
    nodes = [node for _, node in sorted(view.snapshot.nodes.items())]
    index, free = NodeIndex.of(nodes), dict[str, dict[str, int]]()
    for promised in promised_pods(view, view.snapshot.pods.values(), frozenset()):
        node = _only_node(promised, index, nodes)
        if node is None:
            continue
        left = free.get(node.name)
        if left is None:
            left = free[node.name] = dict(node_view(view.snapshot, node.name).free)
        if not has_room(left, promised.pod.requests):
            continue
        left[PODS] -= NANO
        for name, amount in promised.pod.requests:
            left[name] = left.get(name, 0) - amount
        holds.extend(_holds(view, promised, node, now))
    return tuple(holds)


def _only_node(promised: PromisedPod, index: NodeIndex, nodes: list[Node]) -> Node | None:
    pod = promised.pod
    possible = index.selected(pod.node_selector, pod.node_affinity) & index.tolerated(pod.tolerations)
    for volume in promised.volumes:
        possible &= index.reaching(volume.node_affinity)
    return nodes[possible.bit_length() - 1] if possible.bit_count() == 1 else None


def _holds(view: View, promised: PromisedPod, node: Node, now: datetime) -> Iterator[Hold]:
    pod = promised.pod
    for volume in promised.volumes:
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
                made_at=now,
                resource_version=volume.resource_version,
                seen=True,
            )
