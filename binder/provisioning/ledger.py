"""Every pool with what is in flight there, as one frozen value."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from binder.provisioning.pool import CapacityReport, InFlight, PoolKey, StoragePool
from kube.persistent_map import Map
from kube.store.storage_capacities import StorageCapacities


class Why(StrEnum):
    """Why a claim with a selected node takes no room: any user of a namespace can write that annotation."""

    SELECTOR = "Selector"
    """Volumes are not provisioned for a claim with a selector (pv_controller.go, provisionClaim)."""
    CLASS = "Class"
    NODE = "NodeMissing"
    DRIVER = "DriverMissing"
    TOPOLOGY = "TopologyNotAllowed"
    NO_REPORT = "NoReport"
    TOO_LARGE = "TooLarge"
    EXPIRED = "Expired"


@dataclass(frozen=True, slots=True)
class Ignored:
    """A claim that takes no room, and why."""

    id: str
    claim: str
    node: str
    why: Why


@dataclass(frozen=True, slots=True)
class PoolLedger:
    """`homes` are the pools of a booking: several where a volume's place is not exactly one. `settled` are bookings
    that reports include by now, with the time after which they need not be remembered. `families` are those of
    classes (`binder.provisioning.families`), `capacities` the reports by class and node labels.
    """

    pools: Map[PoolKey, StoragePool] = Map()
    homes: Map[str, tuple[PoolKey, ...]] = Map()
    reports: Map[str, PoolKey] = Map()
    settled: Map[str, datetime] = Map()
    ignored: Map[str, Ignored] = Map()
    reports_of: Map[str, int] = Map()
    families: Mapping[str, str] = field(default_factory=Map)
    capacities: StorageCapacities = field(default_factory=StorageCapacities)
    count: int = 0

    def pools_of(self, class_name: str, labels: Mapping[str, str]) -> tuple[StoragePool, ...]:
        """Return the pools of a class for a node with these labels: usually one."""
        keys = (self.reports.get(report.key) for report in self.capacities.of_node(class_name, labels))
        return tuple(self.pools[key] for key in dict.fromkeys(keys) if key is not None)

    def at_home(self, pool: PoolKey) -> PoolKey:
        """Return the pool as it is named by the family that its classes belong to by now."""
        family = self.families.get(pool.family, pool.family)
        return pool if family == pool.family else replace(pool, family=family)

    def booking(self, booking_id: str) -> InFlight | None:
        """Return a booking that has a pool."""
        homes = self.homes.get(booking_id)
        return self.pools[homes[0]].bookings.get(booking_id) if homes else None

    def booked(self, booking: InFlight, pools: Iterable[PoolKey]) -> "PoolLedger":
        """Add a booking, update it, or move it."""
        keys = tuple(dict.fromkeys(pools))
        if self.homes.get(booking.id) == keys:
            return self._with(*(self.pools[key].updated(booking) for key in keys))
        ledger = self.withdrawn(booking.id)
        number = ledger.count + 1
        added = (ledger.pools.get(key, StoragePool(key)).booked(booking, number) for key in keys)
        ignored = ledger.ignored.delete(booking.id) if booking.id in ledger.ignored else ledger.ignored
        homes = ledger.homes.set(booking.id, keys)
        return replace(ledger._with(*added), homes=homes, ignored=ignored, count=number)

    def withdrawn(self, booking_id: str) -> "PoolLedger":
        """Drop a booking whose volume was not made, or is gone."""
        return self._without(booking_id, StoragePool.withdrawn)

    def expired(self, booking_id: str) -> "PoolLedger":
        """Drop a booking of a volume that is part of every report by now."""
        return self._without(booking_id, StoragePool.expired)

    def ignoring(self, claim: Ignored) -> "PoolLedger":
        """Drop the booking of a claim that takes no room."""
        ledger = self.withdrawn(claim.id)
        return replace(ledger, ignored=ledger.ignored.set(claim.id, claim))

    def forgetting(self, booking_id: str) -> "PoolLedger":
        """Forget a settled volume: it is gone, or too old to count."""
        return replace(self, settled=self.settled.delete(booking_id)) if booking_id in self.settled else self

    def forgetting_claim(self, uid: str) -> "PoolLedger":
        """Forget that a claim was ignored."""
        return replace(self, ignored=self.ignored.delete(uid)) if uid in self.ignored else self

    def reported(self, report: CapacityReport) -> "PoolLedger":
        """Take a new or changed report, and settle what every report of its pool includes."""
        ledger = self.with_report(report)
        return ledger._settling(ledger.pools[report.pool])

    def with_report(self, report: CapacityReport) -> "PoolLedger":
        """Take a new or changed report."""
        known = self.reports.get(report.key)
        ledger = self if known in (None, report.pool) else self.unreported(report.key)
        if report.key not in ledger.reports:
            count = ledger.reports_of.get(report.pool.driver, 0) + 1
            ledger = replace(ledger, reports_of=ledger.reports_of.set(report.pool.driver, count))
        pool = ledger.pools.get(report.pool, StoragePool(report.pool)).reported(report)
        return replace(ledger._with(pool), reports=ledger.reports.set(report.key, report.pool))

    def unreported(self, key: str) -> "PoolLedger":
        """Drop a report; what is in flight stays, for the provisioner may replace the object by another."""
        home = self.reports.get(key)
        if home is None:
            return self
        left = self.reports_of.get(home.driver, 1) - 1
        reports_of = self.reports_of.set(home.driver, left) if left else self.reports_of.delete(home.driver)
        ledger = self._with(self.pools[home].unreported(key))
        return replace(ledger, reports=self.reports.delete(key), reports_of=reports_of)

    def exhausted(self, key: PoolKey, size: int, now: datetime) -> "PoolLedger":
        """The driver had no room for a volume of this size."""
        pool = self.pools.get(key)
        return self if pool is None else self._with(pool.exhausted(size, now))

    def not_counted(self, now: datetime) -> Iterator[Ignored]:
        """Yield the claims that take no room although they have a selected node and no volume."""
        yield from self.ignored.values()
        for pool in self.pools.values():
            for booking in pool.bookings.values():
                why = booking.ignored(pool, now)
                if why:
                    yield Ignored(booking.id, booking.claim, "", Why(why))

    def _settling(self, pool: StoragePool) -> "PoolLedger":
        ledger = self
        for booking in pool.settled():
            homes = [self.pools[key] for key in self.homes[booking.id]]
            if all(home.bookings[booking.id] in home.settled() for home in homes if home.key != pool.key):
                ledger = ledger.expired(booking.id)
                if booking.until is not None:
                    ledger = replace(ledger, settled=ledger.settled.set(booking.id, booking.until))
        return ledger

    def _without(self, booking_id: str, drop: Callable[[StoragePool, str], StoragePool]) -> "PoolLedger":
        homes = self.homes.get(booking_id)
        if homes is None:
            return self
        ledger = self._with(*(drop(self.pools[key], booking_id) for key in homes))
        return replace(ledger, homes=ledger.homes.delete(booking_id))

    def _with(self, *pools: StoragePool) -> "PoolLedger":
        mutation = self.pools.mutate()
        for pool in pools:
            if pool.reports or pool.bookings:
                mutation[pool.key] = pool
            elif pool.key in mutation:
                del mutation[pool.key]
        return replace(self, pools=mutation.finish())
