"""From one look at the cluster to the view of it, as cheaply as the last one allows."""

from collections.abc import Mapping
from datetime import datetime

from binder.reservation.contract import Annotations
from kube.store.snapshot import Snapshot
from prebinder.view.model.nodes import class_rows, node_rows
from prebinder.view.model.view import PodRow, Unreadable, View
from prebinder.view.model.volumes import VolumeRows
from prebinder.view.model.waiting import Cause, waiting_rows


class ViewBuilder:
    """Makes one view after another. `source` names the cluster or the files; `live` is whether it changes."""

    def __init__(self, source: str, annotations: Annotations, *, live: bool) -> None:
        self._source = source
        self._live = live
        self._volumes = VolumeRows(annotations)

    def view(
        self,
        snapshot: Snapshot,
        causes: Mapping[str, Cause],
        unreadable: Mapping[str, str],
        now: datetime,
        stale: datetime | None = None,
    ) -> View:
        """Return the view. `causes` are by the keys of what waits, `unreadable` says why by resource."""
        volumes = self._volumes.rows(snapshot, now)
        return View(
            source=self._source,
            live=self._live,
            at=now,
            volumes=volumes,
            nodes=node_rows(snapshot),
            classes=class_rows(snapshot, volumes.values()),
            pending=waiting_rows(snapshot, causes),
            pods=_pods(snapshot),
            unreadable=tuple(Unreadable(resource, because) for resource, because in sorted(unreadable.items())),
            stale=stale,
        )


def _pods(snapshot: Snapshot) -> dict[str, PodRow]:
    return {
        key: PodRow(key, pod.phase, pod.node_name, pod.claim_keys)
        for key, pod in snapshot.pods.items()
        if pod.claims and not pod.finished
    }
