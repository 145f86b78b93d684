"""Keeps the ledger in step with a store: what has changed is looked at once, when the ledger is next needed.

Everything is looked at in steps of some milliseconds, which an event loop may spread over as many turns: what is there
at first, what changes at once, and what moves because a class says that it shares storage.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import chain, islice
from typing import Any, Final

from binder.matching.matching import class_of
from binder.provisioning.claims_in_flight import (
    EXPANSION,
    claim_in_flight,
    expansion_in_flight,
    is_provisioned,
    report_after,
    volume_in_flight,
    with_booked,
)
from binder.provisioning.families import families_of
from binder.provisioning.ledger import Ignored, PoolLedger, Why
from binder.provisioning.pool import MAX_FOREIGN_AGE, InFlight, PoolKey, report_of
from binder.reservation.contract import Annotations
from kube.objects.model import (
    SELECTED_NODE,
    Claim,
    CSINode,
    CSIStorageCapacity,
    Node,
    StorageClass,
    Volume,
    value_of,
)
from kube.store.snapshot import Snapshot
from kube.store.store import Store

STEP: Final = 100
"""Changed objects looked at in one step, some 10 ms."""
READ: Final = 50
"""So many times as many objects are read at first: most of them concern no pool."""

POLL: Final = timedelta(seconds=60)
"""external-provisioner's default `--capacity-poll-interval`."""


@dataclass(frozen=True, slots=True)
class _Exhausted:
    """The driver had no room for a volume of this class and size on a node with these labels."""

    class_name: str
    labels: Mapping[str, str]
    size: int
    at: datetime


@dataclass(slots=True)
class _Changes:
    """What has changed since the ledger was last brought up to date: claims and volumes as they were, by uid and name,
    keys of reports, and names of nodes; pools whose bookings are to be moved, and what drivers had no room for.
    """

    claims: dict[str, str] = field(default_factory=dict)
    volumes: dict[str, Volume | None] = field(default_factory=dict)
    reports: dict[str, None] = field(default_factory=dict)
    nodes: dict[str, None] = field(default_factory=dict)
    classes: bool = False
    pools: dict[PoolKey, None] = field(default_factory=dict)
    exhausted: list[_Exhausted] = field(default_factory=list)

    def __bool__(self) -> bool:
        objects = self.claims or self.volumes or self.reports or self.nodes or self.classes
        return bool(objects or self.pools or self.exhausted)


class Provisioning:
    """Follows a store. `ledger` brings everything up to date, `step` a part of it. `latest` is the ledger as it was
    when it was last up to date.
    """

    def __init__(self, annotations: Annotations, poll: timedelta = POLL) -> None:
        self._annotations = annotations
        self._poll = poll
        self.latest = PoolLedger()
        self._ledger = PoolLedger()
        self._changes = _Changes(classes=True)
        self._unread: Iterator[Claim | Volume] = iter(())
        """Claims and volumes that were there at first and have not been read yet."""
        self._due: list[tuple[datetime, str]] = []
        self._has_reports = False
        """Until there is one nothing is recorded: most drivers count no capacity, and clusters have 100,000 claims."""

    def follow(self, store: Store) -> "Provisioning":
        """Take what the store holds, and from now on every change."""
        for listeners, listener in self._listeners(store):
            listeners.append(listener)
        return self

    def unfollow(self, store: Store) -> None:
        """Take no changes any more."""
        for listeners, listener in self._listeners(store):
            listeners.remove(listener)

    def _listeners(self, store: Store) -> Iterator[tuple[list[Any], Any]]:
        yield store.claims.listeners, self._claim_changed
        yield store.volumes.listeners, self._volume_changed
        yield store.classes.listeners, self._class_changed
        yield store.capacities.listeners, self._report_changed
        yield store.nodes.listeners, self._node_changed
        yield store.csi_nodes.listeners, self._csi_node_changed

    def take(self, snapshot: Snapshot) -> None:
        """Look at everything of a snapshot when the ledger is next needed."""
        self._has_reports = True
        self._unread = chain(snapshot.volumes.values(), snapshot.claims.values())
        self._changes.reports.update(dict.fromkeys(snapshot.capacities))
        self._changes.classes = True

    def ledger(self, snapshot: Snapshot, now: datetime) -> PoolLedger:
        """Return the ledger of this moment; the same value while nothing has changed. It takes all steps that are
        left.
        """
        while not self.step(snapshot, now):
            pass
        return self._ledger

    def step(self, snapshot: Snapshot, now: datetime, most: int = STEP) -> bool:
        """Look at so much of what has changed; return whether that was all.

        At first that is everything: with 5,000 pools and 20,000 claims a second, which an event loop has to spend in
        parts. Between two steps the ledger is of no moment.
        """
        if not self._has_reports:
            if not snapshot.capacities:
                return True
            self.take(snapshot)
        if self._changes and not self._take_changes(snapshot, now, most):
            return False
        if not self._read(most * READ) or not self._forget_due(now, most):
            return False
        self.latest = self._ledger
        return True

    def _read(self, most: int) -> bool:
        """Note so many of the objects that were there at first; return whether that was all."""
        for record in islice(self._unread, most):
            if isinstance(record, Claim):
                self._claim_changed(None, record)
            else:
                self._volume_changed(None, record)
            most -= 1
        return bool(most) and not self._changes

    def _take_changes(self, snapshot: Snapshot, now: datetime, most: int) -> bool:
        """Look at so many changes; return whether that was all of them."""
        changes = self._changes
        self._ledger = replace(self._ledger, capacities=snapshot.capacities_by_class)
        if changes.classes:
            changes.classes = False
            self._regroup(snapshot)
            self._look_at_ignored(lambda _: True)
        if changes.nodes:
            nodes, changes.nodes = changes.nodes, {}
            self._look_at_ignored(lambda ignored: ignored.node in nodes)
        left = self._take_reports(changes, snapshot, most)
        left = self._move_bookings(changes, left)
        for name in list(islice(changes.volumes, max(left, 0))):
            self._take_volume(name, changes.volumes.pop(name), snapshot, now)
            left -= 1
        for uid in list(islice(changes.claims, max(left, 0))):
            self._take_claim(uid, changes.claims.pop(uid), snapshot, now)
            left -= 1
        if left > 0:
            self._take_exhausted(changes)
        return not changes

    def _look_at_ignored(self, concerns: Callable[[Ignored], bool]) -> None:
        """Look again at claims that took no room so far, for a reason that may not hold any more."""
        for ignored in self._ledger.ignored.values():
            if concerns(ignored):
                self._changes.claims.setdefault(ignored.id, ignored.claim)

    def expect(self, claim: Claim, node: Node, now: datetime) -> None:
        """Count a volume that is about to be made for the claim on this node, before the claim shows it."""
        if self._ledger.booking(claim.uid) is None:
            self._ledger = with_booked(self._ledger, claim, node, now)

    def look_again(self, uid: str, key: str) -> None:
        """Believe what the claim itself shows from now on."""
        self._changes.claims[uid] = key

    def exhausted(self, class_name: str, node: Node, size: int, now: datetime) -> None:
        """The driver had no room for a volume of this size on the node (ProvisioningFailed, ResourceExhausted)."""
        if self._has_reports:
            self._changes.exhausted.append(_Exhausted(class_name, dict(node.labels), size, now))

    def _take_exhausted(self, changes: _Changes) -> None:
        exhausted, changes.exhausted = changes.exhausted, []
        for each in exhausted:
            for pool in self._ledger.pools_of(each.class_name, each.labels):
                self._ledger = self._ledger.exhausted(pool.key, each.size, each.at)

    def _regroup(self, snapshot: Snapshot) -> None:
        """Have reports and bookings put into other pools after classes have changed; what is known of them stays."""
        before = self._ledger.families
        families = {**before, **families_of(snapshot.classes.values(), self._annotations)}
        changed = {name for name, family in families.items() if before.get(name) != family}
        if not changed:
            return
        self._ledger = replace(self._ledger, families=families)
        for name in changed:
            self._changes.reports.update((report.key, None) for report in snapshot.capacities_by_class.of_class(name))
        if any(name in before for name in changed):
            moved = (key for key in self._ledger.pools if families.get(key.family, key.family) != key.family)
            self._changes.pools.update(dict.fromkeys(moved))

    def _move_bookings(self, changes: _Changes, most: int) -> int:
        """Move bookings of pools that are to be moved, in their order; return how many more could have been moved."""
        for key in list(islice(changes.pools, max(most, 0))):
            if most <= 0:
                break
            del changes.pools[key]
            pool = self._ledger.pools.get(key)
            bookings = sorted(pool.bookings.values(), key=lambda booking: booking.number) if pool is not None else ()
            for booking in bookings:
                homes = (self._ledger.at_home(home) for home in self._ledger.homes[booking.id])
                self._ledger = self._ledger.booked(booking, homes)
            most -= 1 + len(bookings)
        return most

    def _take_reports(self, changes: _Changes, snapshot: Snapshot, most: int) -> int:
        """Take at most so many of the changed reports; return how many more could have been taken."""
        known, keys = self._ledger.reports, list(islice(changes.reports, most))
        for key in keys:
            del changes.reports[key]
            self._take_report(key, snapshot)
        if any(key not in known for key in keys):
            self._look_at_ignored(lambda ignored: ignored.why is Why.NO_REPORT)
        return most - len(keys)

    def _take_report(self, key: str, snapshot: Snapshot) -> None:
        capacity = snapshot.capacities.get(key)
        storage_class = snapshot.classes.get(capacity.storage_class) if capacity is not None else None
        if capacity is None or storage_class is None or capacity.node_topology is None:
            self._ledger = self._ledger.unreported(key)
            return
        family = self._ledger.families.get(storage_class.name, storage_class.name)
        pool = PoolKey(storage_class.provisioner, family, capacity.node_topology)
        self._ledger = self._ledger.reported(report_of(capacity, pool))

    def _take_volume(self, name: str, old: Volume | None, snapshot: Snapshot, now: datetime) -> None:
        volume = snapshot.volumes.get(name)
        if old is not None and old.claim is not None and (volume is None or volume.uid != old.uid):
            for id_ in (old.claim.uid, old.claim.uid + EXPANSION):
                self._ledger = self._ledger.withdrawn(id_).forgetting(id_)
        if volume is None or volume.claim is None or not is_provisioned(volume):
            return
        placed = volume_in_flight(volume, snapshot, self._ledger, self._annotations, self._poll, now)
        if placed is not None:
            self._take_made(*placed, now)
        claim = snapshot.claims.get(volume.claim.key)
        if claim is not None and claim.uid == volume.claim.uid:
            self._take_expansion(claim, volume, snapshot, now)

    def _take_made(self, booking: InFlight, pools: tuple[PoolKey, ...], now: datetime) -> None:
        if booking.until is None or booking.until <= now:
            self._ledger = self._ledger.expired(booking.id).forgetting(booking.id)
        elif booking.id not in self._ledger.settled:
            self._ledger = self._ledger.booked(booking, pools)
            heappush(self._due, (booking.until, booking.id))

    def _take_claim(self, uid: str, key: str, snapshot: Snapshot, now: datetime) -> None:
        claim = snapshot.claims.get(key)
        if claim is None or claim.uid != uid:
            self._claim_gone(uid, now)
            return
        volume = _volume_of(claim, snapshot)
        if volume is not None and is_provisioned(volume):
            self._ledger = self._ledger.forgetting_claim(uid)
            self._take_expansion(claim, volume, snapshot, now)
            return
        placed = claim_in_flight(claim, snapshot, self._ledger, self._annotations, now)
        if isinstance(placed, Ignored):
            self._ledger = self._ledger.ignoring(placed)
        elif placed is not None:
            self._ledger = self._ledger.booked(*placed)
        elif not claim.volume_name or volume is not None:  # Else its volume is about to be seen.
            self._ledger = self._ledger.withdrawn(uid).forgetting_claim(uid)

    def _claim_gone(self, uid: str, now: datetime) -> None:
        """Keep what a provisioner may have begun: it calls its driver until it knows the outcome, whatever becomes of
        the claim (sig-storage-lib-external-provisioner, controller.go).
        """
        self._ledger = self._ledger.withdrawn(uid + EXPANSION).forgetting_claim(uid)
        booking = self._ledger.booking(uid)
        if booking is None or booking.made is not None:
            return
        if not booking.begun:
            self._ledger = self._ledger.withdrawn(uid)
        elif booking.gone is None:
            self._ledger = self._ledger.booked(replace(booking, gone=now), self._ledger.homes[uid])
            heappush(self._due, (now + MAX_FOREIGN_AGE, uid))

    def _take_expansion(self, claim: Claim, volume: Volume, snapshot: Snapshot, now: datetime) -> None:
        storage_class = snapshot.classes.get(class_of(volume))
        if storage_class is None:
            return
        after = report_after(storage_class, self._ledger, self._annotations, self._poll)
        placed = expansion_in_flight(claim, volume, snapshot, self._ledger, after, now)
        if placed is not None and placed[1]:
            self._ledger = self._ledger.booked(*placed)
            if placed[0].until is not None:
                heappush(self._due, (placed[0].until, placed[0].id))

    def _forget_due(self, now: datetime, most: int) -> bool:
        """Forget so many of the bookings whose time is over; return whether that was all of them."""
        while self._due and self._due[0][0] <= now:
            if not most:
                return False
            most -= 1
            _, id_ = heappop(self._due)
            booking = self._ledger.booking(id_)
            if booking is not None and booking.made is not None and booking.until is not None and booking.until <= now:
                self._ledger = self._ledger.expired(id_)
            elif booking is not None and booking.gone is not None and now - booking.gone >= MAX_FOREIGN_AGE:
                self._ledger = self._ledger.withdrawn(id_)
            until = self._ledger.settled.get(id_)
            if until is not None and until <= now:
                self._ledger = self._ledger.forgetting(id_)
        return True

    def _claim_changed(self, old: Claim | None, new: Claim | None) -> None:
        for claim in (old, new) if self._has_reports else ():
            if claim is not None and (claim.volume_name or value_of(claim.annotations, SELECTED_NODE) is not None):
                self._changes.claims[claim.uid] = claim.key

    def _volume_changed(self, old: Volume | None, new: Volume | None) -> None:
        volume = new or old
        if (
            self._has_reports
            and volume is not None
            and any(each is not None and is_provisioned(each) for each in (old, new))
        ):
            self._changes.volumes.setdefault(volume.name, old)

    def _class_changed(self, _old: StorageClass | None, _new: StorageClass | None) -> None:
        self._changes.classes = True

    def _report_changed(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        report = new or old
        if report is not None:
            self._changes.reports[report.key] = None

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        if node is not None and (old is None or new is None or old.labels != new.labels):
            self._changes.nodes[node.name] = None

    def _csi_node_changed(self, old: CSINode | None, new: CSINode | None) -> None:
        csi_node = new or old
        if csi_node is not None and (old is None or new is None or old.drivers != new.drivers):
            self._changes.nodes[csi_node.name] = None


def ledger_of(snapshot: Snapshot, annotations: Annotations, now: datetime, poll: timedelta = POLL) -> PoolLedger:
    """Return what the objects alone say, as after a restart."""
    provisioning = Provisioning(annotations, poll)
    provisioning.take(snapshot)
    return provisioning.ledger(snapshot, now)


def _volume_of(claim: Claim, snapshot: Snapshot) -> Volume | None:
    """Return the volume that the claim has, or that was made for it."""
    names = (claim.volume_name, *snapshot.volumes_by_claim.get(claim.key, ()))
    volumes = (snapshot.volumes[name] for name in names if name in snapshot.volumes)
    return next((volume for volume in volumes if volume.claim is not None and volume.claim.uid == claim.uid), None)
