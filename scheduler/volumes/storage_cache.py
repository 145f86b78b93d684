"""Available volumes and reservations, kept in sync with the store, and the nodes on which storage has changed."""

from collections.abc import Mapping
from typing import Final

from immutables import Map

from binder.health.node_storage import NodeStorage
from binder.matching.index import VolumeIndex
from binder.model.ledger import Ledger
from binder.model.view import PlanSettings, View
from kube.objects.model import Claim, CSIDriver, CSINode, StorageClass, Volume, VolumeAttachment
from kube.store.store import Store

_WORTH_REBUILDING: Final = 4
"""If more than one volume in so many changed, the index is rebuilt: that is cheaper than updating it."""

_FEW: Final = 100

_MOST_CLAIMS: Final = 20_000
"""Changed claims recorded while no view is needed; beyond it all nodes are counted again."""

_Names = Map[str, str]


class StorageCache:
    """Follows a store. The caller writes to `ledger`."""

    def __init__(self, store: Store, settings: PlanSettings) -> None:
        self.ledger = Ledger()
        self._store = store
        self._settings = settings
        self._node_storage = NodeStorage()
        self._index = VolumeIndex()
        self._indexed: Mapping[str, Volume] = Map()
        self._rebuild = True
        self._changed: set[str] = set()
        self._nodes: set[str] = set()
        self._claims: set[str] = set()
        self._everywhere = False
        self._attached_to: dict[str, dict[str, str]] = {}
        self._view: View | None = None
        store.volumes.listeners.append(self._volume_changed)
        store.claims.listeners.append(self._claim_changed)
        store.classes.listeners.append(self._class_changed)
        store.csi_nodes.listeners.append(self._csi_node_changed)
        store.csi_drivers.listeners.append(self._csi_driver_changed)
        store.attachments.listeners.append(self._attachment_changed)

    def view(self) -> View:
        """Return the storage of this moment; the same value while nothing changes."""
        snapshot, view = self._store.snapshot(), self._view
        if view is None or view.snapshot is not snapshot or view.ledger is not self.ledger:
            self._catch_up(snapshot.volumes)
            view = self._view = View(
                snapshot, self._index, self.ledger, settings=self._settings, node_storage=self._node_storage
            )
        return view

    def touched(self, users: Mapping[str, _Names]) -> set[str] | None:
        """Return the nodes, None for all, whose attachments or reports may have changed since the last call.

        `users` are the pods that use a claim, and their nodes.
        """
        nodes, claims, everywhere = self._nodes, self._claims, self._everywhere
        if nodes or claims or everywhere:
            self._nodes, self._claims, self._everywhere = set(), set(), False
        if everywhere:
            return None
        for key in claims:
            nodes.update(users.get(key, _NO_NAMES).values())
        return nodes

    def release(self, pod_key: str) -> None:
        """Release what is reserved for the pod."""
        self.ledger = self.ledger.without(*self.ledger.by_pod.get(pod_key, Map()))

    def _catch_up(self, volumes: Map[str, Volume]) -> None:
        if self._rebuild:
            self._index = VolumeIndex.of(volumes.values())
        for name in self._changed:
            self._index = self._index.with_volume(self._indexed.get(name), volumes.get(name))
        self._rebuild, self._indexed = False, volumes
        self._changed.clear()

    def _volume_changed(self, old: Volume | None, new: Volume | None) -> None:
        volume = new or old
        if volume is None:
            return
        if not self._rebuild:
            self._changed.add(volume.name)
        if len(self._changed) > max(_FEW, len(self._store.volumes.items) // _WORTH_REBUILDING):
            self._rebuild = True
            self._changed.clear()
        if old is None or new is None or (old.driver, old.handle) != (new.driver, new.handle):
            self._claims.update(self._store.snapshot().claims_by_volume.get(volume.name, ()))
            self._nodes.update(self._attached_to.get(volume.name, {}).values())

    def _claim_changed(self, old: Claim | None, new: Claim | None) -> None:
        claim = new or old
        if claim is not None and (old is None or new is None or _kind_of(old) != _kind_of(new)):
            self._claims.add(claim.key)
            if len(self._claims) > _MOST_CLAIMS:
                self._everywhere = True
                self._claims.clear()

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


def _kind_of(claim: Claim) -> tuple[str, str | None]:
    """What determines how a claim counts as attached."""
    return claim.volume_name, claim.storage_class
