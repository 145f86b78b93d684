"""Which changes cause a pod to be planned again: its own, those of its claims, and new room for a rejected pod.

Rejected pods wait by the class of their open claims, and those that require something of other pods for pods to be
placed on nodes. One change wakes only so many of them, those that waited longest first; a pod that gets nothing goes to
the end. No pod is forgotten: each rejected pod is also retried after a while. What changes all the time in a large
cluster, nodes and pods that end, wakes a pod no sooner than its backoff allows, as kube-scheduler keeps pods affected
by an event in its backoff queue.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Final, TypeVar

import msgspec

from binder.matching.index import is_free
from binder.matching.matching import class_of
from kube.clock import Elapsed
from kube.objects.model import Claim, CSINode, CSIStorageCapacity, Node, Pod, StorageClass, Volume
from kube.store.store import Store
from kube.workqueue import WorkQueue

WOKEN_AT_ONCE: Final = 100
MAX_BACKOFF_SECONDS: Final = 10.0
"""Seconds, kube-scheduler's podMaxBackoff: after them a change wakes a rejected pod at once, whatever its backoff."""

R = TypeVar("R", Claim, Volume, Pod, Node, StorageClass)


class Wakeups:
    """Adds keys of pods to the queue as the store changes."""

    def __init__(self, store: Store, queue: WorkQueue[str], clock: Elapsed) -> None:
        self._store = store
        self._queue = queue
        self._clock = clock
        self._waiting: dict[str, dict[str, None]] = {}
        self._rejected: dict[str, tuple[frozenset[str], float]] = {}
        self._tied: dict[str, None] = {}

    def rejected(self, pod_key: str, classes: Iterable[str], backoff: float) -> None:
        """The pod waits for room in these classes, and is not to be planned for every change within the backoff."""
        self.forget(pod_key)
        self._rejected[pod_key] = (frozenset(classes), self._clock.monotonic() + min(backoff, MAX_BACKOFF_SECONDS))
        for name in self._rejected[pod_key][0]:
            self._waiting.setdefault(name, {})[pod_key] = None
        pod = self._store.snapshot().pods.get(pod_key)
        if pod is not None and pod.constraints is not None and pod.constraints.is_required:
            self._tied[pod_key] = None

    def room_in(self, class_name: str) -> None:
        """A volume of the class may be used again, although nothing about it changed in the cluster."""
        self._wake(class_name)

    def driver_answers(self, driver: str) -> None:
        """Volumes of the driver may be available again: plan every pod that waits for a class with such Available
        volumes.
        """
        volumes = self._store.snapshot().volumes.values()
        for name in {class_of(volume) for volume in volumes if volume.driver == driver and is_free(volume)}:
            self._wake(name, len(self._waiting.get(name, ())))

    def forget(self, pod_key: str) -> None:
        """The pod waits for nothing any more."""
        classes, _ = self._rejected.pop(pod_key, (frozenset[str](), 0.0))
        self._tied.pop(pod_key, None)
        for name in classes:
            del self._waiting[name][pod_key]
            if not self._waiting[name]:
                del self._waiting[name]

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow the store while inside the context, and begin with every existing pod."""
        with ExitStack() as stack:
            stack.enter_context(self._store.pods.listening(self._pod_changed))
            stack.enter_context(self._store.claims.listening(self._claim_changed))
            stack.enter_context(self._store.volumes.listening(self._volume_changed))
            stack.enter_context(self._store.classes.listening(self._class_changed))
            stack.enter_context(self._store.nodes.listening(self._node_changed))
            stack.enter_context(self._store.csi_nodes.listening(self._csi_node_changed))
            stack.enter_context(self._store.capacities.listening(self._capacity_changed))
            for pod in self._store.snapshot().pods.values():
                self._pod_changed(None, pod)
            yield

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is not None and (pod.claims or pod.scheduling_gates) and not _same(old, new):
            self._queue.add(pod.key)
        if _gives_room(old, new):
            self._wake_all()
        elif new is not None and new.node_name and old is not None and not old.node_name:
            self._wake_when_due(islice(self._tied, WOKEN_AT_ONCE))

    def _claim_changed(self, old: Claim | None, new: Claim | None) -> None:
        claim = new or old
        if claim is not None and not _same(old, new):
            self._wake_claim(claim.key)

    def _volume_changed(self, old: Volume | None, new: Volume | None) -> None:
        if new is not None and is_free(new) and not _same(old, new):
            self._wake(class_of(new))
        had, has = (None if volume is None else volume.claim for volume in (old, new))
        for reference in (had, has) if had != has else ():
            if reference is not None:
                self._wake_claim(reference.key)

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        """A class that appears or changes its mode affects every claim of it; that is rare enough for a search."""
        if new is None or _same(old, new):
            return
        for claim in self._store.snapshot().claims.values():
            if not claim.volume_name and class_of(claim) == new.name:
                self._wake_claim(claim.key)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is not None and not _same(old, new):
            self._wake_all()

    def _csi_node_changed(self, old: CSINode | None, new: CSINode | None) -> None:
        if new is not None and (old is None or (old.drivers, old.storage) != (new.drivers, new.storage)):
            self._wake_all()

    def _capacity_changed(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        """More room for volumes to be made wakes pods that wait for it, each when its backoff is over."""
        if new is not None and (old is None or _size(new.capacity) > _size(old.capacity)):
            self._wake_when_due(islice(self._waiting.get(new.storage_class, ()), WOKEN_AT_ONCE))

    def _wake_claim(self, claim_key: str) -> None:
        for pod_key in self._store.snapshot().pods_by_claim.get(claim_key, ()):
            self._queue.add(pod_key)

    def _wake_all(self) -> None:
        """Wake pods of every class, each when its backoff is over; until then they keep waiting for what affects
        them.
        """
        for name in list(self._waiting):
            self._wake_when_due(islice(self._waiting.get(name, ()), WOKEN_AT_ONCE))

    def _wake_when_due(self, pod_keys: Iterable[str]) -> None:
        now = self._clock.monotonic()
        for pod_key in list(pod_keys):
            _, earliest = self._rejected[pod_key]
            if earliest > now:
                self._queue.add_after(pod_key, earliest - now)
            else:
                self.forget(pod_key)
                self._queue.add(pod_key)

    def _wake(self, class_name: str, most: int = WOKEN_AT_ONCE) -> None:
        for pod_key in list(islice(self._waiting.get(class_name, ()), most)):
            self.forget(pod_key)
            self._queue.add(pod_key)


def _gives_room(old: Pod | None, new: Pod | None) -> bool:
    """Whether a pod has left its node, or does not keep room on one any more without being assigned."""
    if old is None:
        return False
    if old.node_name:
        return new is None or new.finished
    if not old.nominated_node or (new is not None and new.node_name):
        return False
    return new is None or new.finished or new.deleting or new.nominated_node != old.nominated_node


def _size(amount: int | None) -> int:
    return -1 if amount is None else amount


def _same(old: R | None, new: R | None) -> bool:
    """Whether only the version changed, as far as our records show."""
    if old is None or new is None:
        return False
    return msgspec.structs.replace(new, resource_version=old.resource_version) == old
