"""The cluster as a scheduling cycle sees it: immutable, and cheap to update by one pod or one node."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from msgspec.structs import replace as with_fields

from binder.health.node_storage import cut_off
from binder.model.view import View
from kube.objects.labels import Pairs
from kube.objects.model import Node, Pod
from kube.persistent_map import Map
from kube.pod_topology.node_index import NodeIndex
from kube.pod_topology.pod_groups import PodGroups
from kube.store.snapshot import Snapshot
from scheduler.state.attach_limits import attach_use_by
from scheduler.state.node_info import NodeInfo, node_info, state_with_news, state_with_pod, state_without_pod

Place = tuple[Pod, str]
"""A pod and the name of the node it is on."""

Move = tuple[Place | None, Place | None]
"""Where a pod was and where it is; None means nowhere."""

ClaimUsers = Map[str, Map[str, str]]
"""Claim key -> key of a pod on a node that uses it -> name of that node."""

_NO_USERS: Final[Map[str, str]] = Map()


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A view of everything. `storage` has the snapshot, the index of Available volumes, reservations and health
    verdicts.

    `view_of` returns that of a snapshot. Nodes are in `nodes` by number; a new one is added at the end. `index` holds
    which nodes have which labels and taints, `pod_groups` which pods run where, `claim_users` the nodes of pods by
    claim and pod. Pods may be on nodes here that the snapshot does not have there: those are assumed. `namespaces` are
    the labels of namespaces as far as known.
    """

    storage: View
    now: datetime
    nodes: tuple[NodeInfo, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)
    index: NodeIndex = field(default_factory=NodeIndex)
    pod_groups: PodGroups = field(default_factory=PodGroups)
    claim_users: ClaimUsers = field(default_factory=Map)
    namespaces: Mapping[str, Pairs] = field(default_factory=Map)

    def node(self, name: str) -> NodeInfo | None:
        """Return a node by name, None if it is unknown."""
        number = self.numbers.get(name)
        return None if number is None else self.nodes[number]

    def at(self, now: datetime) -> "ClusterView":
        """Return the same at another moment."""
        return replace(self, now=now)

    def with_pod(self, pod: Pod, node_name: str) -> "ClusterView":
        """Return the view with another pod on a node. On an unknown node it is nowhere.

        It must not be there yet: a pod that was assumed, or that changed, has to be removed first.
        """
        return self.with_moves([(None, (pod, node_name))]) if node_name in self.numbers else self

    def without_pod(self, pod_key: str, node_name: str) -> "ClusterView":
        """Return the view without a pod that is on a node; the same view if it is not there."""
        state = self.node(node_name)
        gone = None if state is None else next((pod for pod in state.pods if pod.key == pod_key), None)
        return self if gone is None else self.with_moves([((gone, node_name), None)])

    def with_moves(self, moves: Iterable[Move]) -> "ClusterView":
        """Return the view after pods were added, removed or changed: each with its place before and after.

        Places on an unknown node, or where the pod is not, are ignored.
        """
        draft = _Draft(list(self.nodes), self.pod_groups, self.claim_users, self.storage.snapshot)
        for before, after in moves:
            stays = before is not None and after is not None and before[1] == after[1]
            if after is not None and stays and draft.renew(after[0], self.numbers.get(after[1])):
                continue
            if before is not None and before[1] in self.numbers:
                draft.take(before[0], self.numbers[before[1]])
            if after is not None and after[1] in self.numbers:
                draft.put(after[0], self.numbers[after[1]])
        return replace(self, nodes=tuple(draft.nodes), pod_groups=draft.pod_groups, claim_users=draft.claim_users)

    def with_node(self, node: Node) -> "ClusterView":
        """Return the view with a node added or changed. What runs on it stays."""
        before = self.node(node.name)
        if before is None:
            return self.with_new_nodes((node,), {})
        state = node_info(before.number, node, before.pods, self.storage.snapshot)
        index = self.index if _alike(before.node, node) else self.index.with_node(state.number, before.node, node)
        return replace(self, nodes=self._replaced(state), index=index)

    def with_new_nodes(self, nodes: Sequence[Node], pods: Mapping[str, Iterable[Pod]]) -> "ClusterView":
        """Return the view with nodes that it did not have, and the pods on them by node; none is in the view yet."""
        first, snapshot = len(self.nodes), self.storage.snapshot
        states = [
            node_info(number, node, pods.get(node.name, ()), snapshot) for number, node in enumerate(nodes, first)
        ]
        users: dict[str, dict[str, str]] = {}
        for state in states:
            for pod in state.pods:
                for key in pod.claim_keys:
                    users.setdefault(key, {})[pod.key] = state.name
        claim_users = self.claim_users.mutate()
        for key, more in users.items():
            claim_users[key] = claim_users.get(key, _NO_USERS).update(more)
        return replace(
            self,
            nodes=(*self.nodes, *states),
            numbers={**self.numbers, **{state.name: state.number for state in states}},
            index=self.index.with_nodes(first, nodes),
            pod_groups=self.pod_groups.with_pods((pod, state.number) for state in states for pod in state.pods),
            claim_users=claim_users.finish(),
        )

    def without_node(self, name: str) -> "ClusterView":
        """Return the view without a node and what is on it. The last node gets its number."""
        number = self.numbers.get(name)
        if number is None:
            return self
        gone, last = self.nodes[number], self.nodes[-1]
        draft = _Draft(list(self.nodes), self.pod_groups, self.claim_users, self.storage.snapshot)
        for pod in gone.pods:
            draft.uncount(pod, number)
        index = self.index.without_node(number, gone.node)
        numbers = {known: at for known, at in self.numbers.items() if known != name}
        if last is not gone:
            index = index.without_node(last.number, last.node).with_node(number, None, last.node)
            draft.pod_groups = draft.pod_groups.moved(last.pods, last.number, number)
            draft.nodes[number] = with_fields(last, number=number)
            numbers[last.name] = number
        nodes = tuple(draft.nodes[:-1])
        return replace(
            self, nodes=nodes, numbers=numbers, index=index, pod_groups=draft.pod_groups, claim_users=draft.claim_users
        )

    def with_storage(self, storage: View, changed: Iterable[str] = ()) -> "ClusterView":
        """Return the view with other storage. `changed` names nodes of whose claims, attachments or CSINode

        something changed. One on which nothing counts otherwise after all stays the same object.
        """
        names = [name for name in changed if name in self.numbers]
        if not names:
            return replace(self, storage=storage)
        nodes = list(self.nodes)
        for name in names:
            state = self.nodes[self.numbers[name]]
            use = attach_use_by(state.pods, storage.snapshot, name)
            cut = cut_off(storage.snapshot, name)
            if use != state.attach or cut != state.cut_off:
                nodes[state.number] = with_fields(state, attach=use, cut_off=cut)
        return replace(self, storage=storage, nodes=tuple(nodes))

    def _replaced(self, state: NodeInfo) -> tuple[NodeInfo, ...]:
        nodes = list(self.nodes)
        nodes[state.number] = state
        return tuple(nodes)


def view_of(storage: View, now: datetime, namespaces: Mapping[str, Pairs] | None = None) -> ClusterView:
    """Return the view of a snapshot: nodes by name, and the pods assigned to them."""
    snapshot = storage.snapshot
    pods = {name: [snapshot.pods[key] for key in keys] for name, keys in snapshot.pods_by_node.items()}
    nodes = [node for _, node in sorted(snapshot.nodes.items())]
    return ClusterView(storage, now, namespaces=namespaces or Map()).with_new_nodes(nodes, pods)


@dataclass(slots=True)
class _Draft:
    """The changes while pods are added and removed."""

    nodes: list[NodeInfo]
    pod_groups: PodGroups
    claim_users: ClaimUsers
    snapshot: Snapshot

    def take(self, pod: Pod, number: int) -> None:
        """Remove a pod from its node, if it is there."""
        state = state_without_pod(self.nodes[number], pod, self.snapshot)
        if state is None:
            return
        self.nodes[number] = state
        self.uncount(pod, number)

    def uncount(self, pod: Pod, number: int) -> None:
        """Remove a pod from what is known about all nodes together."""
        self.pod_groups = self.pod_groups.without_pod(pod, number)
        for key in pod.claim_keys if pod.claims else ():
            left = self.claim_users[key].delete(pod.key)
            self.claim_users = self.claim_users.set(key, left) if left else self.claim_users.delete(key)

    def renew(self, pod: Pod, number: int | None) -> bool:
        """Replace the record of a pod that uses the same as before; return whether it does."""
        state = None if number is None else state_with_news(self.nodes[number], pod)
        if state is None:
            return False
        self.nodes[state.number] = state
        return True

    def put(self, pod: Pod, number: int) -> None:
        """Add a pod to a node, unless it has ended."""
        if pod.finished:
            return
        state = self.nodes[number] = state_with_pod(self.nodes[number], pod, self.snapshot)
        self.pod_groups = self.pod_groups.with_pod(pod, number)
        for key in pod.claim_keys if pod.claims else ():
            self.claim_users = self.claim_users.set(key, self.claim_users.get(key, _NO_USERS).set(pod.key, state.name))


def _alike(before: Node, after: Node) -> bool:
    """Whether nothing changed that affects scheduling, as with a heartbeat of the node."""
    return (
        before.labels == after.labels and before.taints == after.taints and before.unschedulable == after.unschedulable
    )
