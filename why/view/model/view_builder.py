"""From a snapshot of the cluster to its view, incrementally from the last one."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Generic, TypeVar

from binder.reservation.contract import Annotations
from kube.store.snapshot import Snapshot
from why.facts.facts import Facts
from why.view.model.nodes import class_rows, node_rows
from why.view.model.swept_rows import SweptRows, sweeps_of
from why.view.model.view import NodeRow, PageView, PendingRow, PodRow, UnreadKind
from why.view.model.volumes import VolumeRows
from why.view.model.waiting import WaitingCause, waiting_rows

T = TypeVar("T")


class Remembered(Generic[T]):
    """The last result of a pure function, as long as what it was worked out from is the same."""

    def __init__(self) -> None:
        self._held: tuple[tuple[object, ...], T] | None = None

    def get(self, basis: tuple[object, ...], make: Callable[[], T]) -> T:
        """Return it, rebuilt if any object that it depends on is a different one."""
        if self._held is None or any(a is not b for a, b in zip(self._held[0], basis, strict=True)):
            self._held = basis, make()
        return self._held[1]


class ViewBuilder:
    """Makes one view after another. `source` names the cluster or the files; `live` is whether it changes."""

    def __init__(self, source: str, annotations: Annotations, *, live: bool) -> None:
        self._source = source
        self._live = live
        self._volumes = VolumeRows(annotations)
        self._swept = SweptRows(annotations)
        self._nodes: Remembered[dict[str, NodeRow]] = Remembered()
        self._pending: Remembered[dict[str, PendingRow]] = Remembered()
        self._pods: Remembered[dict[str, PodRow]] = Remembered()

    def view(
        self,
        facts: Facts,
        causes: Mapping[str, WaitingCause],
        unreadable: Mapping[str, str],
        stale: datetime | None = None,
    ) -> PageView:
        """Return the view. `causes` are by the keys of what is pending, `unreadable` has the reason by resource."""
        snapshot, now = facts.snapshot, facts.now
        volumes = self._swept.rows(self._volumes.rows(snapshot, now), snapshot, sweeps_of(facts.leases), now)
        return PageView(
            source=self._source,
            live=self._live,
            at=now,
            volumes=volumes,
            nodes=self._nodes.get(
                (snapshot.nodes, snapshot.csi_nodes, snapshot.attachments, snapshot.pods), partial(node_rows, snapshot)
            ),
            classes=class_rows(snapshot, volumes.values()),
            pending=self._pending.get(
                (snapshot.claims, snapshot.pods, snapshot.nodes, causes), partial(waiting_rows, snapshot, causes)
            ),
            pods=self._pods.get((snapshot.pods,), partial(_pod_rows, snapshot)),
            unreadable=tuple(UnreadKind(resource, because) for resource, because in sorted(unreadable.items())),
            stale=stale,
        )


def _pod_rows(snapshot: Snapshot) -> dict[str, PodRow]:
    return {
        key: PodRow(key, pod.phase, pod.node_name, pod.claim_keys)
        for key, pod in snapshot.pods.items()
        if pod.claims and not pod.finished
    }
