"""What the extender keeps ready, so that an answer takes no search: it follows the store, event by event."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, TypeVar

from binder.health.node_storage import NodeStorage
from binder.matching.claim_shape import ClaimShape, shape_of
from binder.matching.index import VolumeIndex
from binder.matching.matching import class_of
from binder.provisioning.ledger import PoolLedger
from binder.provisioning.tracking import Provisioning
from binder.reservation.contract import Annotations
from kube.objects.labels import NodeSelector
from kube.objects.memory import remembered
from kube.objects.model import Claim, Node, Volume, VolumeAttachment
from kube.rules.selectors import label_keys
from kube.rules.topology import LabelKeys, NodeKind, kind_of_node, labels_of_kind
from kube.store.store import Store
from scheduler.extender.rules import NodeRejection, Storage, VolumeProblem, problem_of_volume

_MAX_GROUPINGS: Final = 64
"""Storage classes use few different label keys; the least recently used grouping is dropped first."""

_MAX_SCORINGS: Final = 16
"""Zones in which volumes may be reserved, and how much of a pod's volumes is there: beyond it all are dropped."""


class Grouping:
    """The nodes by some label keys. `numbers` are by node name and count into `kinds`; read them, but do not keep
    them.
    """

    def __init__(self, keys: LabelKeys) -> None:
        self.keys = keys
        self.numbers: dict[str, int] = {}
        self.kinds: list[NodeKind] = []
        self._number_of: dict[NodeKind, int] = {}
        self._scorings: dict[tuple[int, ...], dict[str, int]] = {}

    def labels(self, number: int) -> dict[str, str]:
        """Return the labels that nodes of a kind have in common, of the keys."""
        return labels_of_kind(self.kinds[number], self.keys)

    def put(self, name: str, labels: Mapping[str, str]) -> None:
        kind = kind_of_node(labels, self.keys)
        number = self._number_of.setdefault(kind, len(self.kinds))
        if number == len(self.kinds):
            self.kinds.append(kind)
        self.numbers[name] = number
        self._scorings.clear()

    def forget(self, name: str) -> None:
        self.numbers.pop(name, None)
        self._scorings.clear()

    def scores(self, of_kinds: tuple[int, ...]) -> Mapping[str, int]:
        """Return the nodes' scores by those of their kinds: pod after pod they are the same few."""
        by_node = self._scorings.get(of_kinds)
        if by_node is None:
            if len(self._scorings) >= _MAX_SCORINGS:
                self._scorings.clear()
            by_node = self._scorings[of_kinds] = {name: of_kinds[number] for name, number in self.numbers.items()}
        return by_node

    @property
    def overgrown(self) -> bool:
        """Whether most kinds are those of deleted nodes."""
        return len(self.kinds) > 2 * len(self.numbers) + 64


class NodeGroups:
    """Follows the nodes of a store: give `node_changed` to their collection as a listener."""

    def __init__(self) -> None:
        self._labels: dict[str, Mapping[str, str]] = {}
        self._groupings: dict[LabelKeys, Grouping] = {}

    def by(self, keys: LabelKeys) -> Grouping:
        """Return the grouping of all known nodes by these keys."""
        grouping = self._groupings.get(keys)
        if grouping is None or grouping.overgrown:
            self._groupings.pop(keys, None)
            while len(self._groupings) >= _MAX_GROUPINGS:
                del self._groupings[next(iter(self._groupings))]
            grouping = self._groupings[keys] = Grouping(keys)
            for name, labels in self._labels.items():
                grouping.put(name, labels)
        return grouping

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Apply a change; None means absent."""
        if new is None:
            self._forget(old)
        elif old is None or old.labels != new.labels:
            labels = self._labels[new.name] = dict(new.labels)
            for grouping in self._groupings.values():
                grouping.put(new.name, labels)

    def _forget(self, node: Node | None) -> None:
        if node is not None:
            self._labels.pop(node.name, None)
            for grouping in self._groupings.values():
                grouping.forget(node.name)


_AFFINITY_BYTES: Final = 8 * 2**20
"""Of node affinities that are remembered: 10,000 local volumes have one each of some 500 bytes."""


class VolumeLabels:
    """Counts the label keys in volumes' node affinities: register `volume_changed` at their collection as a
    listener.
    """

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}

    def keys(self, storage_class: str) -> LabelKeys:
        """Return the keys, sorted."""
        return tuple(sorted(self._counts.get(storage_class, ())))

    def volume_changed(self, old: Volume | None, new: Volume | None) -> None:
        """Apply a change; None means absent."""
        if old is not None and new is not None and _place(old) == _place(new):
            return
        if old is not None:
            self._count(old, -1)
        if new is not None:
            self._count(new, 1)

    def _count(self, volume: Volume, by: int) -> None:
        name = class_of(volume)
        counts = self._counts.setdefault(name, Counter())
        for key in label_keys(volume.node_affinity):
            counts[key] += by
            if not counts[key]:
                del counts[key]
        if not counts:
            del self._counts[name]


Pin = tuple[str, tuple[str, ...]]
"""The key of a label, and values of which a node must have one."""


@remembered(_AFFINITY_BYTES)
def pin_of(affinity: NodeSelector | None) -> Pin | None:
    """Return the one label that an affinity requires and the values that match; None for an affinity of another
    form.
    """
    terms = affinity.terms if affinity is not None else ()
    wanted = [requirement for term in terms for requirement in term.match_expressions]
    if len(terms) != 1 or len(wanted) != 1 or wanted[0].operator != "In":
        return None
    return wanted[0].key, wanted[0].values


def _place(volume: Volume) -> tuple[str, NodeSelector | None]:
    return class_of(volume), volume.node_affinity


Demand = tuple[LabelKeys, ClaimShape]
"""By which labels nodes are distinguished, and what of a claim determines which volumes fit."""

PodDemand = tuple[LabelKeys, tuple[ClaimShape, ...]]
"""The same for all open claims of a pod, in the order they are served."""

_MAX_DEMANDS: Final = 256
"""Of one class; the one that was requested first is dropped first."""

_MAX_PODS: Final = 64
"""Each of them is looked at when a volume changes."""

_MAX_REJECTIONS: Final = 100_000
"""Of all pods together, some 300 bytes each: at 5,000 nodes with local volumes those of 20 demands."""

V = TypeVar("V")


class Tightest:
    """Give `volume_changed` to the volumes' collection as a listener."""

    def __init__(self) -> None:
        self._known: dict[str, dict[Demand, dict[NodeKind, float]]] = {}

    def known(self, claim: Claim, keys: LabelKeys) -> dict[NodeKind, float]:
        """Return the points known for a claim by kind of node: to be read, and to be filled with what is found out."""
        demands = self._known.setdefault(class_of(claim), {})
        demand = (keys, shape_of(claim))
        while demand not in demands and len(demands) >= _MAX_DEMANDS:
            del demands[next(iter(demands))]
        return demands.setdefault(demand, {})

    def volume_changed(self, old: Volume | None, new: Volume | None) -> None:
        """Apply a change; None means absent."""
        for volume in (old, new):
            if volume is not None:
                pin = pin_of(volume.node_affinity)
                for demand, kinds in self._known.get(class_of(volume), {}).items():
                    _forget(demand[0], kinds, pin)


class KnownRejections:
    """What pods are rejected, by kind of node, as if no volume were reserved for any of them: give `volume_changed` to
    the volumes' collection as a listener.
    """

    def __init__(self) -> None:
        self._known: dict[PodDemand, dict[NodeKind, NodeRejection]] = {}
        self._classes: dict[PodDemand, frozenset[str]] = {}

    def known(self, claims: Iterable[Claim], keys: LabelKeys) -> dict[NodeKind, NodeRejection]:
        """Return what is known for pods with such open claims: to be read, and to be filled with what is found out."""
        demand = (keys, tuple(map(shape_of, claims)))
        room = _MAX_PODS if demand in self._known else _MAX_PODS - 1
        while len(self._known) > room or sum(map(len, self._known.values())) > _MAX_REJECTIONS:
            first = next(iter(self._known))
            del self._known[first], self._classes[first]
        self._classes[demand] = frozenset(shape.pool.storage_class for shape in demand[1])
        return self._known.setdefault(demand, {})

    def volume_changed(self, old: Volume | None, new: Volume | None) -> None:
        """Apply a change; None means absent."""
        for name, affinity in {_place(volume) for volume in (old, new) if volume is not None}:
            pin = pin_of(affinity)
            for demand, classes in self._classes.items():
                if name in classes:
                    _forget(demand[0], self._known[demand], pin)


def _forget(keys: LabelKeys, kinds: dict[NodeKind, V], pin: Pin | None) -> None:
    if pin is None or keys != (pin[0],):
        kinds.clear()
        return
    for value in pin[1]:
        kinds.pop((value,), None)


class ExtenderCache:
    """Make it before the store's first list: it takes everything from changes."""

    def __init__(self, store: Store, annotations: Annotations) -> None:
        self._store = store
        self._annotations = annotations
        self._clear = VolumeIndex()
        self._suspect = VolumeIndex()
        self._problems: dict[str, VolumeProblem] = {}
        self._attachments: dict[str, dict[str, str]] = {}
        self._node_storage = NodeStorage()
        self._provisioning = Provisioning(annotations).follow(store)
        self.groups = NodeGroups()
        self.labels = VolumeLabels()
        self.tightest = Tightest()
        self.rejections = KnownRejections()
        store.nodes.listeners.append(self.groups.node_changed)
        store.volumes.listeners += [self.labels.volume_changed, self.tightest.volume_changed]
        store.volumes.listeners += [self.rejections.volume_changed, self._volume_changed]
        store.attachments.listeners.append(self._attachment_changed)

    def storage(self) -> Storage:
        """Return the volumes of this moment, to be read before the next await."""
        return Storage(self._store.snapshot(), self._clear, self._suspect, self._problems, self._node_storage)

    def pools(self, now: datetime) -> PoolLedger:
        """Return what is left of the storage from which volumes are provisioned."""
        return self._provisioning.ledger(self._store.snapshot(), now)

    def step(self, now: datetime) -> bool:
        """Look at some of what has changed in that storage; return whether that was all."""
        return self._provisioning.step(self._store.snapshot(), now)

    def nodes_with(self, volume: str) -> set[str]:
        """Return the nodes that a volume is attached to."""
        return set(self._attachments.get(volume, {}).values())

    def _volume_changed(self, old: Volume | None, new: Volume | None) -> None:
        was_suspect = old is not None and self._problems.pop(old.name, None) is not None
        problem = problem_of_volume(new, self._annotations) if new is not None else None
        if new is not None and problem is not None:
            self._problems[new.name] = problem
        if was_suspect == (problem is not None):
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
