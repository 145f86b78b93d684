"""The cluster as a scheduling cycle sees it: immutable, and cheap to renew by one pod or one node."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from immutables import Map

from binder.view import View
from kube.model import Node, Pairs, Pod
from scheduler.crowd import Crowd
from scheduler.node_index import NodeIndex
from scheduler.node_state import NodeState, node_state, state_with_pod


@dataclass(frozen=True, slots=True)
class ClusterView:
    """One look at everything. `storage` has the snapshot, the index of free volumes, promises and health verdicts.

    Made by `view_of(storage, now)`. Nodes stand in `nodes` by number; a new one is added at the end. `index` answers
    which nodes have which labels and taints, `crowd` which pods run where. Pods may be on nodes here that the snapshot
    does not have there: those are assumed. `namespaces` are the labels of namespaces as far as they are known.
    """

    storage: View
    now: datetime
    nodes: tuple[NodeState, ...]
    numbers: Mapping[str, int]
    index: NodeIndex
    crowd: Crowd
    namespaces: Mapping[str, Pairs] = field(default_factory=Map)

    def node(self, name: str) -> NodeState | None:
        """Return a node by name, None when it is unknown."""
        number = self.numbers.get(name)
        return None if number is None else self.nodes[number]

    def at(self, now: datetime) -> "ClusterView":
        """Return the same at another moment."""
        return replace(self, now=now)

    def with_pod(self, pod: Pod, node_name: str) -> "ClusterView":
        """Return the view with one more pod on a node. On a node that is unknown it is nowhere.

        It must not be there yet: a pod that was assumed, or that changed, has to be taken away first.
        """
        number = self.numbers.get(node_name)
        if number is None:
            return self
        state = state_with_pod(self.nodes[number], pod, self.storage.snapshot)
        return replace(self, nodes=self._replaced(state), crowd=self.crowd.with_pod(pod, number))

    def without_pod(self, pod_key: str, node_name: str) -> "ClusterView":
        """Return the view without a pod that is on a node; the same view when it is not there."""
        number = self.numbers.get(node_name)
        before = None if number is None else self.nodes[number]
        gone = None if before is None else next((pod for pod in before.pods if pod.key == pod_key), None)
        if before is None or gone is None:
            return self
        left = tuple(pod for pod in before.pods if pod is not gone)
        state = node_state(before.number, before.node, left, self.storage.snapshot)
        return replace(self, nodes=self._replaced(state), crowd=self.crowd.without_pod(gone, before.number))

    def with_node(self, node: Node) -> "ClusterView":
        """Return the view with a node new or changed. What runs on it stays."""
        before = self.node(node.name)
        if before is None:
            return self._with_new(node)
        state = node_state(before.number, node, before.pods, self.storage.snapshot)
        index = self.index if _alike(before.node, node) else self.index.with_node(state.number, before.node, node)
        crowd = self.crowd
        return replace(self, nodes=self._replaced(state), index=index, crowd=crowd)

    def without_node(self, name: str) -> "ClusterView":
        """Return the view without a node and what is on it. Later nodes move up: this costs as much as a new view."""
        left = [state for state in self.nodes if state.name != name]
        if len(left) == len(self.nodes):
            return self
        return _assembled(self, [(state.node, state.pods) for state in left])

    def with_storage(self, storage: View, changed: Iterable[str] = ()) -> "ClusterView":
        """Return the view with other storage. `changed` names nodes on which claims, drivers or attachments changed."""
        nodes = list(self.nodes)
        for name in changed:
            number = self.numbers.get(name)
            if number is not None:
                nodes[number] = node_state(number, nodes[number].node, nodes[number].pods, storage.snapshot)
        return replace(self, storage=storage, nodes=tuple(nodes))

    def _with_new(self, node: Node) -> "ClusterView":
        number = len(self.nodes)
        return replace(
            self,
            nodes=(*self.nodes, node_state(number, node, (), self.storage.snapshot)),
            numbers={**self.numbers, node.name: number},
            index=self.index.with_node(number, None, node),
        )

    def _replaced(self, state: NodeState) -> tuple[NodeState, ...]:
        nodes = list(self.nodes)
        nodes[state.number] = state
        return tuple(nodes)


def view_of(storage: View, now: datetime, namespaces: Mapping[str, Pairs] | None = None) -> ClusterView:
    """Return the view of what a snapshot shows: nodes by name, and the pods assigned to them."""
    snapshot = storage.snapshot
    empty = ClusterView(storage, now, (), {}, NodeIndex(), Crowd(), namespaces or Map())
    pods = {name: [snapshot.pods[key] for key in keys] for name, keys in snapshot.pods_by_node.items()}
    return _assembled(empty, [(node, tuple(pods.get(name, ()))) for name, node in sorted(snapshot.nodes.items())])


def _assembled(base: ClusterView, found: list[tuple[Node, tuple[Pod, ...]]]) -> ClusterView:
    states = tuple(node_state(number, node, pods, base.storage.snapshot) for number, (node, pods) in enumerate(found))
    return replace(
        base,
        nodes=states,
        numbers={state.name: state.number for state in states},
        index=NodeIndex.of(node for node, _ in found),
        crowd=Crowd.of((pod, state.number) for state in states for pod in state.pods),
    )


def _alike(before: Node, after: Node) -> bool:
    """Whether nothing changed that decides which pods may come, as when a node says that it is alive."""
    return (
        before.labels == after.labels
        and before.taints == after.taints
        and (before.unschedulable, before.ready, before.deleting) == (after.unschedulable, after.ready, after.deleting)
    )
