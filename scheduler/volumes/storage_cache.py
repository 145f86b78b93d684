"""Available volumes and reservations, kept in sync with the store, and the nodes on which storage has changed.

Both are applied in steps of some milliseconds: a cluster may have 100,000 volumes, or change on every node at once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Final

from binder.health.node_storage import NodeStorage
from binder.matching.index import VolumeIndex
from binder.model.ledger import Ledger
from binder.model.view import PlanSettings, View
from binder.provisioning.tracking import Provisioning
from kube.objects.model import Claim, CSIDriver, CSINode, Node, StorageClass, Volume, VolumeAttachment
from kube.persistent_map import Map
from kube.store.store import Store

_MAX_CHANGES: Final = 20_000
"""Changed volumes, or claims, recorded while no view is needed; beyond it everything is indexed or counted again."""

_Names = Map[str, str]


@dataclass(frozen=True, slots=True)
class StepSizes:
    """How many changes are applied in one step: some milliseconds.

    `pods` come with new nodes; a node counts as one more than it has pods. `counted_nodes` are those on which only
    attachments are counted again.
    """

    volumes: int = 250
    pods: int = 250
    moves: int = 100
    counted_nodes: int = 100


class StorageCache:
    """Follows a store. The caller writes to `ledger`."""

    def __init__(self, store: Store, settings: PlanSettings, steps: StepSizes) -> None:
        self.ledger = Ledger()
        self._store = store
        self._settings = settings
        self._steps = steps
        self._node_storage = NodeStorage()
        self._index: VolumeIndex | None = None
        self._changed: dict[str, Volume | None] = {}
        """Volumes whose change the index does not have yet, and what it has of them."""
        self._nodes: set[str] = set()
        self._claims: set[str] = set()
        self._everywhere = False
        self._attached_to: dict[str, dict[str, str]] = {}
        self._view: View | None = None
        self._provisioning = Provisioning(settings.annotations).follow(store)
        store.volumes.listeners.append(self._volume_changed)
        store.claims.listeners.append(self._claim_changed)
        store.classes.listeners.append(self._class_changed)
        store.csi_nodes.listeners.append(self._csi_node_changed)
        store.csi_drivers.listeners.append(self._csi_driver_changed)
        store.attachments.listeners.append(self._attachment_changed)

    def step(self, now: datetime) -> bool:
        """Index some of the volumes that have changed, or look at what is provisioned; return whether that was all."""
        if not self._provisioning.step(self._store.snapshot(), now):
            return False
        index, volumes = self._index, self._store.volumes.items
        if index is None:
            index, self._changed = VolumeIndex(), dict.fromkeys(volumes)
        for name in list(islice(self._changed, self._steps.volumes)):
            index = index.with_volume(self._changed.pop(name), volumes.get(name))
        self._index = index
        return not self._changed

    def view(self, now: datetime) -> View:
        """Return the storage of this moment; the same value while nothing changes. It takes all steps that are left."""
        snapshot, view = self._store.snapshot(), self._view
        pools = self._provisioning.ledger(snapshot, now)
        if view is None or view.snapshot is not snapshot or view.ledger is not self.ledger or view.pools is not pools:
            while not self.step(now):
                pass
            assert self._index is not None
            view = self._view = View(
                snapshot,
                self._index,
                self.ledger,
                settings=self._settings,
                node_storage=self._node_storage,
                pools=pools,
            )
        return view

    def touched(self, users: Mapping[str, _Names]) -> set[str]:
        """Return nodes whose attachments or reports may have changed, each once: some of them, at most as many as a
        step may have.

        `users` are the pods that use a claim, and their nodes.
        """
        if self._everywhere:
            self._nodes.update(self._store.nodes.items)
            self._everywhere = False
        for key in self._claims:
            self._nodes.update(users.get(key, _NO_NAMES).values())
        self._claims.clear()
        nodes = set(islice(self._nodes, self._steps.counted_nodes))
        self._nodes -= nodes
        return nodes

    @property
    def has_touched(self) -> bool:
        """Whether `touched` has more to return."""
        return bool(self._nodes or self._claims or self._everywhere)

    def untouched(self) -> None:
        """Every node is about to be counted again."""
        self._nodes.clear()
        self._claims.clear()
        self._everywhere = False

    def expect(self, claims: Iterable[Claim], node: Node, now: datetime) -> None:
        """Count volumes that are about to be provisioned for these claims, which no watch shows yet."""
        for claim in claims:
            self._provisioning.expect(claim, node, now)

    def release(self, pod_key: str) -> None:
        """Release what is reserved for the pod."""
        for hold in self.ledger.of_pod(pod_key):
            self._provisioning.look_again(hold.claim_uid, hold.claim_key)
        self.ledger = self.ledger.without(*self.ledger.by_pod.get(pod_key, Map()))

    def _volume_changed(self, old: Volume | None, new: Volume | None) -> None:
        volume = new or old
        if volume is None:
            return
        if self._index is not None:
            self._changed.setdefault(volume.name, old)
            if len(self._changed) > len(self._store.volumes.items) + _MAX_CHANGES:
                self._index = None
                self._changed.clear()
        if old is None or new is None or (old.driver, old.handle) != (new.driver, new.handle):
            self._claims.update(self._store.snapshot().claims_by_volume.get(volume.name, ()))
            self._nodes.update(self._attached_to.get(volume.name, {}).values())

    def _claim_changed(self, old: Claim | None, new: Claim | None) -> None:
        if _owned_by(old) != _owned_by(new):
            self._file_again(_owned_by(old), _owned_by(new))
        claim = new or old
        if claim is not None and (old is None or new is None or _kind_of(old) != _kind_of(new)):
            self._claims.add(claim.key)
            if len(self._claims) > _MAX_CHANGES:
                self._everywhere = True
                self._claims.clear()

    def _file_again(self, *names: str) -> None:
        """File free volumes again that a claim is, or was, bound to: cached results about them are outdated."""
        for name in names if self._index is not None else ():
            volume = self._store.volumes.items.get(name)
            if volume is not None and volume.claim is None:
                self._changed.setdefault(name, volume)

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        self._everywhere |= old is None or new is None or old.provisioner != new.provisioner

    def _csi_node_changed(self, old: CSINode | None, new: CSINode | None) -> None:
        csi_node = new or old
        if csi_node is not None and (old is None or new is None or _about_storage(old) != _about_storage(new)):
            self._nodes.add(csi_node.name)

    def _csi_driver_changed(self, old: CSIDriver | None, new: CSIDriver | None) -> None:
        before, after = (driver is not None and driver.prevent_pod_scheduling_if_missing for driver in (old, new))
        self._everywhere |= before != after

    def _attachment_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if old is not None:
            self._nodes.add(old.node_name)
            held = self._attached_to.get(old.volume_name, {})
            held.pop(old.name, None)
            if not held:
                self._attached_to.pop(old.volume_name, None)
        if new is not None:
            self._nodes.add(new.node_name)
            self._attached_to.setdefault(new.volume_name, {})[new.name] = new.node_name


_NO_NAMES: Final[_Names] = Map()


def _about_storage(csi_node: CSINode) -> tuple[object, object]:
    return csi_node.drivers, csi_node.storage


def _owned_by(claim: Claim | None) -> str:
    """Return the volume that the claim is bound to; empty if none (binder.assignment.volume_policy)."""
    return claim.volume_name if claim is not None and claim.bind_completed else ""


def _kind_of(claim: Claim) -> tuple[str, str | None]:
    """What determines how a claim counts as attached."""
    return claim.volume_name, claim.storage_class
