"""The cluster as the watches show it, with the decisions that are not visible there yet.

Changes are recorded by name when they arrive, and looked up when a view is needed: so it does not matter in which order
watches, decisions and their results arrive, and a pod that changed ten times is counted once. At first every node is
new. Changes are applied in steps of some milliseconds, so that other tasks run in between, however many there are.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from types import MappingProxyType
from typing import Final

from binder.matching.rejection import Reason, Rejection
from binder.model.view import PlanSettings, View
from kube.clock import Clock
from kube.objects.labels import Pairs
from kube.objects.model import Namespace, Node, Pod
from kube.persistent_map import Map
from kube.store.snapshot import Snapshot
from kube.store.store import Store
from scheduler.framework.plugin import ReservePlugin, ScheduleResult
from scheduler.state.cluster import ClusterView, Place
from scheduler.volumes.storage_cache import StepSizes, StorageCache

MAX_CHANGES: Final = 20_000
"""Changed pods recorded while no view is needed, as in a standby replica; beyond it the next view is built from
scratch.
"""

PATIENCE: Final = 30.0
"""Seconds after which an assigned pod that no watch shows on its node is checked."""


class SchedulerCache:
    """Follows a store. Create it before the store's first list: it sees only changes.

    Until the first view it records nothing; that one is proportional to the size of the cluster.
    """

    def __init__(self, store: Store, settings: PlanSettings, steps: StepSizes | None = None) -> None:
        self._store = store
        self._steps = steps or StepSizes()
        self._storage = StorageCache(store, settings, self._steps)
        self._view: ClusterView | None = None
        self._looked: datetime | None = None
        self._assumed: dict[str, ScheduleResult] = {}
        self._bound: dict[str, float] = {}
        self._moved: dict[str, Place | None] = {}
        self._nodes: dict[str, None] = {}
        store.pods.listeners.append(self._pod_changed)
        store.nodes.listeners.append(self._node_changed)
        self._namespaces: Map[str, Pairs] = Map()
        store.namespaces.listeners.append(self._namespace_changed)

    async def current(self, clock: Clock) -> ClusterView:
        """Return the cluster of this moment, as `view`, but let other tasks run between the steps that it takes."""
        now = clock.now()
        while not self.step(now):
            await asyncio.sleep(0)
            now = clock.now()
        return self.view(now)

    def view(self, now: datetime) -> ClusterView:
        """Return the cluster of this moment, with the assumed pods and the reserved volumes."""
        while not self.step(now):
            pass
        assert self._view is not None
        self._looked = now
        return self._view

    def step(self, now: datetime) -> bool:
        """Apply some of the changes that the view does not have yet; return whether that was all."""
        if not self._storage.step(now):
            return False
        storage, view = self._storage.view(now), self._view
        if view is None:
            view = self._from_nothing(storage, now)
        if view.storage is not storage or view.now != now or view.namespaces is not self._namespaces:
            view = replace(view, storage=storage, now=now, namespaces=self._namespaces)
        if self._nodes:
            view = self._with_nodes(view)
        if self._moved and not self._nodes:
            moves = {key: self._moved.pop(key) for key in list(islice(self._moved, self._steps.moves))}
            view = view.with_moves((before, self._place(key)) for key, before in moves.items())
        if self._storage.has_touched:
            view = view.with_storage(storage, self._storage.touched(view.claim_users))
        self._view = view
        return not (self._nodes or self._moved or self._storage.has_touched)

    def snapshot(self) -> Snapshot:
        """Return what the watches show at this moment."""
        return self._store.snapshot()

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
        node = cluster.node(placement.node)
        if node is not None and placement.volumes.provision:
            self._storage.expect(placement.volumes.provision, node.node, self._looked)
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

    def _from_nothing(self, storage: View, now: datetime) -> ClusterView:
        self._nodes = dict.fromkeys(sorted(self._store.nodes.items))
        self._moved.clear()
        self._storage.untouched()
        return ClusterView(storage, now)

    def _with_nodes(self, view: ClusterView) -> ClusterView:
        """Apply changes of so many nodes that a step stays short."""
        nodes, new, pods, left = self._store.nodes.items, list[Node](), dict[str, list[Pod]](), self._steps.pods
        for name in list(islice(self._nodes, left)):
            del self._nodes[name]
            node, known = nodes.get(name), view.node(name)
            if known is None:
                there = pods[name] = self._on(name) if node is not None else []
                new += [node] if node is not None else []
                left -= 1 + len(there)
            else:
                left -= 1 + len(known.pods)
                view = view.with_node(node) if node is not None else view.without_node(name)
            if left <= 0:
                break
        return view.with_new_nodes(new, pods) if new else view

    def _on(self, node: str) -> list[Pod]:
        """Return the pods that count on a node from before it was known.

        Not those that the watch shows there and that are assumed elsewhere: they count where they are assumed, already.
        Nor those that have changed since: they follow.
        """
        keys = dict.fromkeys(self._store.snapshot().pods_by_node.get(node, ()))
        keys |= dict.fromkeys(key for key, placement in self._assumed.items() if placement.node == node)
        places = (self._place(key) for key in keys if key not in self._moved)
        return [place[0] for place in places if place is not None and place[1] == node]

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        if node is not None and self._view is not None:
            self._nodes[node.name] = None

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
        if len(self._moved) > MAX_CHANGES:
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
