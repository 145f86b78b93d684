"""The cluster as the watches show it, with the decisions that are not visible there yet.

Changes are recorded by name when they arrive, and looked up when a view is needed: so it does not matter in which order
watches, decisions and their results arrive, and a pod that changed ten times is counted once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Final

from immutables import Map

from binder.matching.rejection import Reason, Rejection
from binder.model.view import PlanSettings, View
from kube.objects.model import Namespace, Node, Pairs, Pod
from kube.store.store import Store
from scheduler.framework.plugin import ReservePlugin, ScheduleResult
from scheduler.state.cluster import ClusterView, Place, view_of
from scheduler.volumes.storage_cache import StorageCache

MOST_CHANGES: Final = 20_000
"""Changed pods recorded while no view is needed, as in a standby replica; beyond it the next view is built from
scratch.
"""

PATIENCE: Final = 30.0
"""Seconds after which an assigned pod that no watch shows on its node is checked."""


class SchedulerCache:
    """Follows a store. Create it before the store's first list: it sees only changes.

    Until `view` is called for the first time it records nothing; that first call is proportional to the size of the
    cluster.
    """

    def __init__(self, store: Store, settings: PlanSettings) -> None:
        self._store = store
        self._storage = StorageCache(store, settings)
        self._view: ClusterView | None = None
        self._looked: datetime | None = None
        self._assumed: dict[str, ScheduleResult] = {}
        self._bound: dict[str, float] = {}
        self._moved: dict[str, Place | None] = {}
        self._nodes: set[str] = set()
        store.pods.listeners.append(self._pod_changed)
        store.nodes.listeners.append(self._node_changed)
        self._namespaces: Map[str, Pairs] = Map()
        store.namespaces.listeners.append(self._namespace_changed)

    def view(self, now: datetime) -> ClusterView:
        """Return the cluster of this moment, with the assumed pods and the reserved volumes."""
        storage = self._storage.view()
        view = self._view
        if view is None:
            view = view_of(storage, now, self._namespaces)
            self._nodes.clear()
            self._storage.touched(Map())
            self._moved = {key: _place(self._store.pods.items.get(key), None) for key in self._assumed}
        self._looked = now
        self._view = self._caught_up(view, storage, now)
        return self._view

    def assume(self, placement: ScheduleResult, reserves: Sequence[ReservePlugin]) -> Rejection | None:
        """Count the pod on its node from now on and reserve its volumes; return why that is not possible."""
        pod = placement.pod
        shown = self._store.pods.items.get(pod.key)
        if shown is not None and _says_more(shown, pod):
            wanted = "a pod without a node"
            return Rejection(
                Reason.POD_ENDED, pod.key, wanted, f"bound to {shown.node_name or 'no node'} by another scheduler"
            )
        if self._looked is None:
            raise RuntimeError("a placement was decided without a view of this cluster")
        cluster = self.view(self._looked)
        for reserve in reserves:
            result = reserve.reserve(placement, cluster)
            if isinstance(result, Rejection):
                return result
            cluster = result
        self._storage.ledger = cluster.storage.ledger
        self._note(pod.key, self._place(pod.key))
        self._assumed[pod.key] = placement
        self._bound.pop(pod.key, None)
        return None

    def bound(self, pod_key: str, at: float) -> None:
        """Record that the pod was assigned, at this monotonic time; the watch is about to show it."""
        if pod_key in self._assumed:
            self._bound[pod_key] = at

    def forget(self, pod_key: str) -> None:
        """The pod is not assumed any more, and its reservations are released."""
        if pod_key in self._assumed:
            self._note(pod_key, self._place(pod_key))
            del self._assumed[pod_key]
            self._bound.pop(pod_key, None)
            self._storage.release(pod_key)

    def overdue(self, at: float) -> list[ScheduleResult]:
        """Return those that were assigned long before this monotonic time and never shown. They continue to count."""
        return [self._assumed[key] for key, since in self._bound.items() if at - since >= PATIENCE]

    def counts(self, pod: Pod) -> bool:
        """Whether the pod counts on a node, because it is assumed or shown there."""
        placement, shown = self._assumed.get(pod.key), self._store.pods.items.get(pod.key)
        return (placement is not None and placement.pod.uid == pod.uid) or (
            shown is not None and shown.uid == pod.uid and bool(shown.node_name)
        )

    def assumed(self) -> Mapping[str, ScheduleResult]:
        """Return the placements that are assumed, by pod."""
        return MappingProxyType(self._assumed)

    def _caught_up(self, view: ClusterView, storage: View, now: datetime) -> ClusterView:
        if view.storage is not storage or view.now != now or view.namespaces is not self._namespaces:
            view = replace(view, storage=storage, now=now, namespaces=self._namespaces)
        if self._nodes:
            view = self._with_nodes(view)
        if self._moved:
            moved, self._moved = self._moved, {}
            view = view.with_moves((before, self._place(key)) for key, before in moved.items())
        touched = self._storage.touched(view.claim_users)
        return view if touched is not None and not touched else view.with_storage(storage, touched)

    def _with_nodes(self, view: ClusterView) -> ClusterView:
        nodes, names = self._store.nodes.items, self._nodes
        self._nodes = set()
        for name in sorted(names):
            node = nodes.get(name)
            if node is None:
                view = view.without_node(name)
                continue
            if name not in view.numbers:
                self._arrive(name)
            view = view.with_node(node)
        return view

    def _arrive(self, node: str) -> None:
        """Count the pods that were on the node before it was known.

        Not those that the watch shows there and that are assumed elsewhere: they count where they are assumed, already.
        """
        there = (key for key, placement in self._assumed.items() if placement.node == node)
        for key in (*self._store.snapshot().pods_by_node.get(node, ()), *there):
            place = self._place(key)
            if place is not None and place[1] == node:
                self._moved.setdefault(key, None)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        if node is not None and self._view is not None:
            self._nodes.add(node.name)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None:
            return
        key = pod.key
        placement = self._assumed.get(key)
        self._note(key, _place(old, placement))
        if placement is not None and (_says_more(pod, placement.pod) if new else pod.uid == placement.pod.uid):
            del self._assumed[key]
            self._bound.pop(key, None)
            self._storage.release(key)

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is not None:
            self._namespaces = self._namespaces.set(new.name, new.labels)
        elif old is not None:
            self._namespaces = self._namespaces.delete(old.name)

    def _note(self, key: str, before: Place | None) -> None:
        """Record where a pod counts in the present view."""
        if self._view is not None:
            self._moved.setdefault(key, before)
        if len(self._moved) > MOST_CHANGES:
            self._view = None
            self._moved.clear()

    def _place(self, key: str) -> Place | None:
        return _place(self._store.pods.items.get(key), self._assumed.get(key))


def _place(shown: Pod | None, placement: ScheduleResult | None) -> Place | None:
    """Return where a pod counts. Of two with one name the assumed one is newer: otherwise it would not be assumed."""
    if placement is not None:
        return placement.pod, placement.node
    return (shown, shown.node_name) if shown is not None and shown.node_name and not shown.finished else None


def _says_more(shown: Pod, assumed: Pod) -> bool:
    """Whether the watch supersedes an assumption: the pod is assigned or has ended, or a later one exists.

    A pod of another uid may be the previous one, whose end the watch has not shown yet: versions decide.
    """
    if shown.uid == assumed.uid:
        return bool(shown.node_name) or shown.finished
    return shown.resource_version > assumed.resource_version
