"""What pools have left during a pass, as claims are placed."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from binder.matching.matching import class_of
from binder.matching.node_fit import reject_allowed_topologies, reject_missing_driver
from binder.matching.rejection import Reason, Rejection
from binder.provisioning.claims_in_flight import size_of, to_be_made
from binder.provisioning.ledger import PoolLedger
from binder.provisioning.pool import PoolKey, PoolRoom
from binder.provisioning.sums import Sum, WantedVolumes, first_lacking, left_after, provided_by, rejection, sums_on
from kube.objects.model import Claim, Node, StorageClass
from kube.rules.selectors import label_keys
from kube.store.snapshot import Snapshot


def deciding_labels(claims: Iterable[Claim], snapshot: Snapshot) -> frozenset[str]:
    """Return the keys of the labels that determine which pools these claims have on a node."""
    keys: set[str] = set()
    for name, claim in {class_of(claim): claim for claim in claims}.items():
        keys.update(label_keys(snapshot.classes[name].allowed_topologies))
        if provided_by(claim, snapshot) is not None:
            keys.update(snapshot.capacities_by_class.deciding_labels(name))
    return frozenset(keys)


class PassPools:
    """The pools of a pass. A pool serves several classes, and a node usually has one for each class."""

    def __init__(self, snapshot: Snapshot, pools: PoolLedger, now: datetime) -> None:
        self._snapshot = snapshot
        self._now = now
        self.pools = pools
        self._places: dict[tuple[str, str], Rejection | tuple[PoolKey, ...]] = {}
        self._rooms: dict[PoolKey, PoolRoom] = {}
        """Of pools where nothing was booked or given back since."""

    def wanted(self, claims: Iterable[Claim]) -> WantedVolumes:
        """Return what `sums` are computed of, for each node, until something is taken or given back."""
        wanted = WantedVolumes.of(claims, self._snapshot)
        return replace(wanted, own=frozenset(uid for uid in wanted.own if uid in self.pools.homes))

    def sums(self, wanted: WantedVolumes, node: Node) -> tuple[Sum, ...] | Rejection:
        """Return what is needed of the node's pools, or why the volumes cannot be made there whatever is left."""
        places: dict[str, tuple[PoolKey, ...]] = {}
        for name in wanted.classes:
            place = self._place(name, node)
            if isinstance(place, Rejection):
                return place
            places[name] = place
        return wanted.sums(places.__getitem__, partial(self._room_of, wanted.own))

    def reject(self, claims: Sequence[Claim], node: Node) -> Rejection | None:
        """Return why the volumes of these claims cannot all be made for the node, or None.

        Claims that are booked already, because their pod is tied to a place, are not counted twice.
        """
        sums = self.sums(self.wanted(claims), node)
        if isinstance(sums, Rejection):
            return sums
        lacking = first_lacking(sums, certain=True)
        return None if lacking is None else rejection(lacking, node)

    def has_room(self, claims: Sequence[Claim], name: str) -> bool:
        """Whether the volumes of these claims can all be made for the node of this name."""
        return not claims or self.reject(claims, self._snapshot.nodes[name]) is None

    def any_has_room(self, claims: Sequence[Claim], nodes: Iterable[Node]) -> bool:
        """Whether they can be for one of these nodes, which have the same pools."""
        if not claims:
            return True
        classes = {class_of(claim) for claim in claims}
        served = (node for node in nodes if not any(self._excludes(name, node) for name in classes))
        first = next(served, None)
        return first is not None and self.reject(claims, first) is None

    def needs(self, claims: Iterable[Claim], node: Node) -> Mapping[PoolKey, int]:
        """Return how many bytes these claims need of each pool of the node."""
        needs: Counter[PoolKey] = Counter()
        for claim in claims:
            if provided_by(claim, self._snapshot) is not None:
                for pool in self.pools.pools_of(class_of(claim), dict(node.labels)):
                    needs[pool.key] += size_of(claim)
        return needs

    def left_together(self, pool: PoolKey) -> int:
        """Return how many bytes volumes of several pods may take of a pool together, each of which fits alone."""
        return self.pools.pools[pool].room(self._now).together

    def sharing(self, claim: Claim) -> str:
        """Return a name that claims have in common whose volumes may come from the same storage."""
        name = class_of(claim)
        return self.pools.families.get(name, name)

    def left(self, claims: Sequence[Claim], node: Node) -> float:
        """Return how many bytes are left of the scarcest pool once these volumes are made there."""
        return left_after(sums_on(claims, dict(node.labels), self._snapshot, self.pools, self._now))

    def scarcest_first(self, claims: Iterable[Claim], name: str) -> tuple[Claim, ...]:
        """Return the claims in the order in which a failure is noticed earliest: the largest of the scarcest pool."""
        node = self._snapshot.nodes[name]
        return tuple(sorted(claims, key=lambda claim: (self.left((claim,), node), -size_of(claim), claim.key)))

    def take(self, claims: Iterable[Claim], name: str) -> None:
        """Book the volumes of these claims for the node of this name."""
        for claim in claims:
            place = self._place(class_of(claim), self._snapshot.nodes[name])
            if not isinstance(place, Rejection) and place:
                self._changes(claim.uid, place)
                self.pools = self.pools.booked(to_be_made(claim, self._now), place)

    def take_new(self, claims: Iterable[Claim], name: str) -> None:
        """Book those of these volumes that have no booking."""
        self.take([claim for claim in claims if self.pools.booking(claim.uid) is None], name)

    def give_back(self, claims: Iterable[Claim]) -> None:
        """Undo `take`."""
        for claim in claims:
            self._changes(claim.uid)
            self.pools = self.pools.withdrawn(claim.uid)

    def _changes(self, uid: str, pools: Iterable[PoolKey] = ()) -> None:
        for key in (*self.pools.homes.get(uid, ()), *pools):
            self._rooms.pop(key, None)

    def _room_of(self, own: Container[str], key: PoolKey) -> PoolRoom:
        """Return what is left of a pool beside all but its `own` bookings."""
        if own:
            return self.pools.pools[key].room(self._now, own)
        room = self._rooms.get(key)
        if room is None:
            room = self._rooms[key] = self.pools.pools[key].room(self._now)
        return room

    def _excludes(self, class_name: str, node: Node) -> bool:
        return isinstance(self._place(class_name, node), Rejection)

    def _place(self, class_name: str, node: Node) -> Rejection | tuple[PoolKey, ...]:
        known = self._places.get((class_name, node.name))
        if known is None:
            storage_class = self._snapshot.classes[class_name]
            known = self._reject_node(storage_class, node) or self._pools_at(storage_class, node)
            self._places[class_name, node.name] = known
        return known

    def _reject_node(self, storage_class: StorageClass, node: Node) -> Rejection | None:
        """Return why the class makes no volumes for the node, or None."""
        excluded = reject_allowed_topologies(storage_class, node)
        if excluded is not None:
            return excluded
        driver = storage_class.provisioner
        if driver not in self._snapshot.csi_drivers:
            return None
        csi_node = self._snapshot.csi_nodes.get(node.name)
        there = next((each for each in csi_node.drivers if each.name == driver), None) if csi_node is not None else None
        if there is None:
            return reject_missing_driver(node.name, (driver,), (driver,))
        lacking = set(there.topology_keys) - dict(node.labels).keys()
        if lacking:
            wanted = f"the labels that driver {driver} names as topology keys"
            return Rejection(Reason.TOPOLOGY_LABEL_MISSING, node.name, wanted, f"no label {min(lacking)}")
        return None

    def _pools_at(self, storage_class: StorageClass, node: Node) -> Rejection | tuple[PoolKey, ...]:
        driver = self._snapshot.csi_drivers.get(storage_class.provisioner)
        if driver is None or not driver.storage_capacity:
            return ()
        pools = self.pools.pools_of(storage_class.name, dict(node.labels))
        if pools:
            return tuple(pool.key for pool in pools)
        wanted = f"a capacity for class {storage_class.name}, reported by its driver"
        return Rejection(Reason.INSUFFICIENT_STORAGE, node.name, wanted, "no CSIStorageCapacity for the node")
