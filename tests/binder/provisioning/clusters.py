"""A driver with node-local pools, as objects that change."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from binder.provisioning.ledger import PoolLedger
from binder.provisioning.pool import PoolRoom
from binder.provisioning.tracking import Provisioning
from binder.reservation.contract import Annotations
from kube.objects.labels import NodeSelector
from kube.objects.model import (
    PROVISIONED_BY,
    PROVISIONER_ANNOTATIONS,
    SELECTED_NODE,
    Claim,
    CSINode,
    CSIStorageCapacity,
    NodeDriver,
    Record,
    StorageClass,
    Volume,
    record_key,
)
from kube.store.collection import Collection
from kube.store.store import Store, store_of
from tests.builders import (
    EPOCH,
    capacity,
    claim,
    csi_driver,
    node,
    node_selector,
    reference,
    storage_class,
    volume,
)

DRIVER = "disk.csi.example"
PLACE = "topology.disk.csi.example/node"
GI = 2**30
OURS = Annotations()


def local_class(name: str = "fast", **parameters: str) -> StorageClass:
    return storage_class(name, provisioner=DRIVER, parameters=parameters)


def with_driver(name: str) -> CSINode:
    return CSINode(name, f"csi-{name}", 1, (NodeDriver(DRIVER, name, (PLACE,)),))


def place(name: str = "n1") -> tuple[Record, ...]:
    """A node with its CSINode."""
    return node(name, labels={PLACE: name}), with_driver(name)


def report(
    size: str | None = "200Gi",
    where: str = "n1",
    of: str = "fast",
    *,
    largest: str | None = None,
    written: datetime | None = None,
) -> CSIStorageCapacity:
    return capacity(of, {PLACE: where}, size, largest=largest, written=written)


def selected(
    name: str = "data",
    size: str = "100Gi",
    where: str = "n1",
    *,
    ours: bool = True,
    begun: bool = False,
    annotations: Mapping[str, str] | None = None,
    of: str = "fast",
) -> Claim:
    """A claim whose volume is to be made on the node."""
    marks = {SELECTED_NODE: where, **(annotations or {})}
    if ours:
        marks[OURS.selected_at] = "2026-01-01T00:00:00Z"
    if begun:
        marks[PROVISIONER_ANNOTATIONS[0]] = DRIVER
    return claim(name, size=size, storage_class=of, annotations=marks)


def made(
    name: str = "data",
    size: str = "100Gi",
    where: str = "n1",
    *,
    created: datetime = EPOCH,
    of: str = "fast",
    affinity: NodeSelector | None = None,
) -> Volume:
    """The volume that was made for the claim of this name."""
    return volume(
        f"pvc-{name}",
        size=size,
        storage_class=of,
        node_affinity=affinity or node_selector({PLACE: where}),
        claim=reference(f"default/{name}", f"uid-default-{name}"),
        phase="Bound",
        annotations={PROVISIONED_BY: DRIVER},
        created=created,
    )


KINDS = {Claim: "PersistentVolumeClaim", Volume: "PersistentVolume"}


def collection_of(store: Store, record: Record) -> Collection[Any]:
    return store.collections[KINDS.get(type(record), type(record).__name__)]


class Cluster:
    """One node's pool in a store, followed; time passes when told to. Rooms are in GiB."""

    def __init__(self, *records: Record, poll: timedelta = timedelta(seconds=60)) -> None:
        base = (csi_driver(DRIVER, storage_capacity=True), *place("n1"), *place("n2"))
        classes = () if any(isinstance(record, StorageClass) for record in records) else (local_class(),)
        self.store: Store = store_of((*base, *classes, *records))
        self.now = EPOCH
        self._poll = poll
        self._version = 1
        self._provisioning = Provisioning(OURS, poll).follow(self.store)
        self.ledger()

    def put(self, *records: Record) -> None:
        """Objects appear or change; the ledger looks at them at once."""
        for record in records:
            self._version += 1
            collection_of(self.store, record).upsert(replace(record, resource_version=self._version))
        self.ledger()

    def delete(self, *records: Record) -> None:
        for record in records:
            collection_of(self.store, record).delete(record_key(record))
        self.ledger()

    def wait(self, **duration: float) -> None:
        self.now += timedelta(**duration)
        self.ledger()

    def restart(self) -> None:
        """All that was seen is forgotten; the objects remain."""
        for collection in self.store.collections.values():
            collection.listeners.clear()
        self._provisioning = Provisioning(OURS, self._poll).follow(self.store)
        self.ledger()

    def ledger(self) -> PoolLedger:
        return self._provisioning.ledger(self.store.snapshot(), self.now)

    def exhausted(self, size: int, where: str = "n1") -> None:
        self._provisioning.exhausted("fast", self.store.snapshot().nodes[where], size * GI, self.now)

    def room(self, where: str = "n1", of: str = "fast", without: tuple[str, ...] = ()) -> PoolRoom:
        (pool,) = self.ledger().pools_of(of, {PLACE: where})
        return pool.room(self.now, without)

    def left(self, where: str = "n1", of: str = "fast") -> int:
        return (self.room(where, of).left or 0) // GI

    def ignored(self) -> dict[str, str]:
        """Claims that take no room, and why."""
        return {each.claim: str(each.why) for each in self.ledger().not_counted(self.now)}
