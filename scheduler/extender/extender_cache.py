"""What the extender keeps ready, so that an answer takes no search: it follows the store, event by event."""

from binder.health.node_storage import NodeStorage
from binder.matching.index import VolumeIndex
from binder.reservation.contract import Annotations
from kube.objects.model import Volume, VolumeAttachment
from kube.store.store import Store
from scheduler.extender.extender_rules import Storage, Suspicion, suspicion_of
from scheduler.extender.tightest import Tightest
from scheduler.state.node_groups import NodeGroups
from scheduler.volumes.volume_labels import VolumeLabels


class ExtenderCache:
    """Make it before the store's first list: it takes everything from changes."""

    def __init__(self, store: Store, annotations: Annotations) -> None:
        self._store = store
        self._annotations = annotations
        self._clear = VolumeIndex()
        self._suspect = VolumeIndex()
        self._suspicions: dict[str, Suspicion] = {}
        self._attachments: dict[str, dict[str, str]] = {}
        self._node_storage = NodeStorage()
        self.groups = NodeGroups()
        self.labels = VolumeLabels()
        self.tightest = Tightest()
        store.nodes.listeners.append(self.groups.node_changed)
        store.volumes.listeners += [self.labels.volume_changed, self.tightest.volume_changed, self._volume_changed]
        store.attachments.listeners.append(self._attachment_changed)

    def storage(self) -> Storage:
        """Return the volumes of this moment, to be read before anything is awaited."""
        return Storage(self._store.snapshot(), self._clear, self._suspect, self._suspicions, self._node_storage)

    def nodes_with(self, volume: str) -> set[str]:
        """Return the nodes that a volume is attached to."""
        return set(self._attachments.get(volume, {}).values())

    def _volume_changed(self, old: Volume | None, new: Volume | None) -> None:
        was_suspect = old is not None and self._suspicions.pop(old.name, None) is not None
        suspicion = suspicion_of(new, self._annotations) if new is not None else None
        if new is not None and suspicion is not None:
            self._suspicions[new.name] = suspicion
        if was_suspect == (suspicion is not None):
            self._file(was_suspect, old, new)
        else:
            self._file(was_suspect, old, None)
            self._file(not was_suspect, None, new)

    def _file(self, suspect: bool, old: Volume | None, new: Volume | None) -> None:
        if suspect:
            self._suspect = self._suspect.with_volume(old, new)
        else:
            self._clear = self._clear.with_volume(old, new)

    def _attachment_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if old is not None:
            held = self._attachments.get(old.volume_name, {})
            held.pop(old.name, None)
            if not held:
                self._attachments.pop(old.volume_name, None)
        if new is not None and new.volume_name and new.attached:
            self._attachments.setdefault(new.volume_name, {})[new.name] = new.node_name
