"""Waits for objects of the store to change, without polling."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from kube.objects.model import Claim, Node, Pod, Volume
from kube.store.collection import Collection
from kube.store.store import Store
from scheduler.framework.plugin import ScheduleResult

Subject = tuple[type, str]
"""A kind of record and a key."""


class StoreWaits:
    """Wakes those that wait for changes around a placement. It listens only while there are any.

    `pods` are those that wait to be scheduled.
    """

    def __init__(self, store: Store, pods: Collection[Pod]) -> None:
        self._store = store
        self._pods = pods
        self._waiting: dict[Subject, set[asyncio.Event]] = {}
        self._listening = ExitStack()

    @contextmanager
    def changes(self, placement: ScheduleResult) -> Iterator[asyncio.Event]:
        """Set the event at each change of the pod, its node, its claims or their volumes while inside the context."""
        event, subjects = asyncio.Event(), _subjects(placement)
        if not self._waiting:
            self._listen()
        for subject in subjects:
            self._waiting.setdefault(subject, set()).add(event)
        try:
            yield event
        finally:
            for subject in subjects:
                waiting = self._waiting[subject]
                waiting.discard(event)
                if not waiting:
                    del self._waiting[subject]
            if not self._waiting:
                self._listening.close()

    def _listen(self) -> None:
        store = self._store
        self._listening.enter_context(self._pods.listening(self._pod_changed))
        self._listening.enter_context(store.nodes.listening(self._node_changed))
        self._listening.enter_context(store.claims.listening(self._claim_changed))
        self._listening.enter_context(store.volumes.listening(self._volume_changed))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is not None:
            self._wake(Pod, pod.key)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None or old is None or old.labels != new.labels:
            node = new or old
            self._wake(Node, node.name if node is not None else "")

    def _claim_changed(self, old: Claim | None, new: Claim | None) -> None:
        claim = new or old
        if claim is not None:
            self._wake(Claim, claim.key)

    def _volume_changed(self, old: Volume | None, new: Volume | None) -> None:
        for volume in (old, new):
            if volume is not None:
                self._wake(Volume, volume.name)
                if volume.claim is not None:
                    # Those that wait know a volume that was just provisioned by its claim only.
                    self._wake(Claim, volume.claim.key)

    def _wake(self, kind: type, key: str) -> None:
        for event in self._waiting.get((kind, key), ()):
            event.set()


def _subjects(placement: ScheduleResult) -> set[Subject]:
    choice = placement.volumes
    claims = [*(claim for claim, _ in choice.volumes), *choice.provision]
    return {
        (Pod, placement.pod.key),
        (Node, placement.node),
        *((Claim, claim.key) for claim in claims),
        *((Volume, volume.name) for _, volume in choice.volumes),
    }
