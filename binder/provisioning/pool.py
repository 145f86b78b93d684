"""A pool: storage that claims share, what its driver reports as free, and what is in flight beside that.

A report is older than it looks: the provisioner asks its driver once a minute or after a volume was made, and writes
the answers one by one (external-provisioner pkg/capacity, `--capacity-poll-interval`, `--kube-api-capacity-qps`). So a
volume counts beside a report until the report provably includes it. That is so while the reported value is as low as
what was left when the volume was booked: a fall by less may be another volume's. All sizes are bytes.
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from kube.objects.labels import LabelSelector
from kube.objects.model import CSIStorageCapacity
from kube.persistent_map import Map
from kube.rules.quantity import whole_units

MAX_FOREIGN_AGE: Final = timedelta(minutes=10)
"""How long a claim that we did not place counts without a volume: kube-scheduler's bind timeout."""

REPORT_LAG: Final = timedelta(seconds=15)
"""A report written so long after a volume was saved was also asked for after that: the provisioner waits at most 10 s
for its driver (`--timeout`), then about a second for its turn to write.
"""

MAX_BY_FALL: Final = 1_000
"""Bookings of a pool. With more of them only time says which ones a report includes: each change would correct all."""

ALWAYS: Final = 1 << 80
NEVER: Final = -(1 << 80)
"""A report includes a volume whatever its value is, or is not known to before it is old enough."""


@dataclass(frozen=True, slots=True)
class PoolKey:
    """Names a pool: a driver, classes of it that share storage (the first of them by name), and a topology."""

    driver: str
    family: str
    topology: LabelSelector


@dataclass(frozen=True, slots=True)
class CapacityReport:
    """A CSIStorageCapacity. `free` is -1 if the driver states nothing, which means no room. `largest` is how large one
    volume may be where that is less, None otherwise. `written` is when the object last changed, in whole seconds.
    """

    key: str
    pool: PoolKey
    free: int
    largest: int | None = None
    written: datetime | None = None


@dataclass(frozen=True, slots=True)
class InFlight:
    """A volume that is being made, or was made and may not be part of the reports yet.

    `id` is the claim's uid. `ours`: we selected its node. `begun`: a provisioner may have been called already. `made`
    is when the volume was saved, None before; `until` is when it is part of every report at the latest. `since` is
    when it was first seen. `gone` is when its claim was deleted, with a provisioner that may still make it. `low` is by
    report the value from which on it includes the volume.
    """

    id: str
    claim: str
    size: int
    since: datetime
    ours: bool = False
    begun: bool = False
    made: datetime | None = None
    until: datetime | None = None
    gone: datetime | None = None
    number: int = 0
    low: tuple[tuple[str, int], ...] = ()

    def included(self, report: CapacityReport) -> bool:
        """Whether the report includes the volume, as far as its value and its age prove that."""
        return self.made is not None and any(key == report.key and report.free <= low for key, low in self.low)

    def counts(self, report: CapacityReport, now: datetime) -> bool:
        """Whether it takes room beside what the report says."""
        if self.made is None:
            if self.gone is not None:
                return now - self.gone < MAX_FOREIGN_AGE
            return self.ours or (self.size <= report.free and now - self.since < MAX_FOREIGN_AGE)
        return not self.included(report) and (self.until is None or now < self.until)

    def ignored(self, pool: "StoragePool", now: datetime) -> str:
        """Return why a claim without a volume takes no room of its pool; empty if it does."""
        if self.made is not None or self.gone is not None or self.ours:
            return ""
        if now - self.since >= MAX_FOREIGN_AGE:
            return "Expired"
        return "" if any(self.size <= report.free for report in pool.reports.values()) else "TooLarge"


@dataclass(frozen=True, slots=True)
class PoolRoom:
    """What is left of a pool: None if no limit is known. `reported` is what its driver says, `in_flight` the bookings
    that count beside it, and `largest` how large one volume may be, None if as large as what is left.
    """

    left: int | None = None
    reported: int = 0
    largest: int | None = None
    in_flight: tuple[InFlight, ...] = ()

    @property
    def booked(self) -> int:
        return sum(booking.size for booking in self.in_flight)

    @property
    def together(self) -> int:
        """How much several pods may take together, each of which fits alone: a size that the driver rejected limits
        each of them, not their sum.
        """
        left = self.reported - self.booked
        return left if self.largest is None else min(left, self.largest - self.booked)

    def fits(self, *sizes: int) -> bool:
        """Whether volumes of these sizes certainly fit beside what is in flight.

        Where one volume may not be as large as what is free, the pool consists of several parts: what fits into the
        largest part is safe, beyond it only one volume beside nothing.
        """
        if self.left is None or not sizes:
            return True
        if sum(sizes) > self.left:
            return False
        if self.largest is None or self.booked + sum(sizes) <= self.largest:
            return True
        return len(sizes) == 1 and not self.in_flight and sizes[0] <= self.largest

    def may_fit(self, *sizes: int) -> bool:
        """Whether they fit unless the parts of the pool are in the way."""
        if self.left is None or not sizes:
            return True
        return sum(sizes) <= self.left and (self.largest is None or max(sizes) <= self.largest)


@dataclass(frozen=True, slots=True)
class Cap:
    """The driver had no room for a volume of this size (ResourceExhausted), while it reported `free`.

    It holds until the report changes or `until`; `failures` in a row make that longer.
    """

    size: int
    free: int
    until: datetime
    failures: int = 1


@dataclass(frozen=True, slots=True)
class StoragePool:
    """A pool's reports, one for each of its classes, and its bookings, by id.

    `by_fall`: whether a report's fall may prove what it includes.
    """

    key: PoolKey
    reports: Map[str, CapacityReport] = Map()
    bookings: Map[str, InFlight] = Map()
    cap: Cap | None = None
    by_fall: bool = True

    def room(self, now: datetime, without: Container[str] = ()) -> PoolRoom:
        """Return what is left; of several reports the one that leaves least holds. Bookings `without` do not count."""
        rooms = [self._room(report, now, without) for report in self.reports.values()]
        least = rooms[0] if len(rooms) == 1 else min(rooms, key=lambda room: room.left or 0, default=PoolRoom(-1, -1))
        parts = [report.largest for report in self.reports.values() if report.largest is not None]
        left = least.left if least.left is not None else -1
        cap = self.cap
        if cap is not None and now < cap.until:
            left = min(left, cap.size - 1)
        return PoolRoom(left, least.reported, min(parts, default=None), least.in_flight)

    def _room(self, report: CapacityReport, now: datetime, without: Container[str]) -> PoolRoom:
        # Lists, as this is asked of each of thousands of pools while kube-scheduler waits for an answer.
        counting = [each for each in self.bookings.values() if each.counts(report, now) and each.id not in without]
        return PoolRoom(report.free - sum([each.size for each in counting]), report.free, None, tuple(counting))

    def booked(self, booking: InFlight, number: int) -> "StoragePool":
        """Return the pool with a new booking. What is left now is what a report says that includes it."""
        if self.by_fall and len(self.bookings) >= MAX_BY_FALL:
            return self._without_falls().booked(booking, number)
        low = tuple((report.key, self._low(booking, report)) for report in self.reports.values())
        entry = replace(booking, number=number, low=low)
        return replace(self, bookings=self.bookings.set(booking.id, entry))

    def _low(self, booking: InFlight, report: CapacityReport) -> int:
        if _is_older(booking, report):
            return ALWAYS
        if not self.by_fall:
            return NEVER
        return report.free - booking.size - sum(each.size for each in self._beside(report))

    def updated(self, booking: InFlight) -> "StoragePool":
        """Return the pool with other facts about a booking. A volume larger than its claim lowers what is left."""
        known = self.bookings[booking.id]
        entry = replace(booking, since=known.since, number=known.number, low=known.low)
        pool = replace(self, bookings=self.bookings.set(booking.id, entry))
        if booking.size > known.size:
            pool = pool._corrected(known.size - booking.size, first=known.number)
        for report in self.reports.values():
            pool = pool._covering(report)
        return pool

    def withdrawn(self, booking_id: str) -> "StoragePool":
        """Return the pool without a booking whose volume was not made, or is gone: as if it had never been."""
        known = self.bookings.get(booking_id)
        if known is None:
            return self
        uncovered = frozenset(key for key, low in known.low if low < ALWAYS)
        pool = replace(self, bookings=self.bookings.delete(booking_id))
        return pool._corrected(known.size, first=known.number, keys=uncovered)

    def expired(self, booking_id: str) -> "StoragePool":
        """Return the pool without a booking that every report includes by now.

        How far it made a report fall may have been taken for earlier bookings.
        """
        known = self.bookings.get(booking_id)
        if known is None:
            return self
        uncovered = frozenset(key for key, low in known.low if low < ALWAYS)
        pool = replace(self, bookings=self.bookings.delete(booking_id))
        return pool._corrected(-known.size, last=known.number, keys=uncovered)

    def reported(self, report: CapacityReport) -> "StoragePool":
        """Return the pool with a new or changed report."""
        cap = self.cap if self.cap is not None and self.cap.free == report.free else None
        return replace(self, reports=self.reports.set(report.key, report), cap=cap)._covering(report)

    def settled(self) -> tuple[InFlight, ...]:
        """Return the bookings of volumes that every report was written after."""
        return tuple(
            booking
            for booking in self.bookings.values()
            if booking.made is not None and booking.low and all(low == ALWAYS for _, low in booking.low)
        )

    def unreported(self, key: str) -> "StoragePool":
        """Return the pool without a report."""
        return replace(self, reports=self.reports.delete(key))

    def exhausted(self, size: int, now: datetime) -> "StoragePool":
        """Return the pool after its driver had no room for a volume of this size: it is not tried again before the
        report changes, or after a time that doubles with every failure.
        """
        free = min((report.free for report in self.reports.values()), default=-1)
        known = self.cap
        failures = known.failures + 1 if known is not None else 1
        smallest = min(size, known.size) if known is not None and now < known.until else size
        wait = min(MAX_BACKOFF, BACKOFF * 2 ** min(failures - 1, 10))
        return replace(self, cap=Cap(smallest, free, now + wait, failures))

    def _beside(self, report: CapacityReport) -> Iterator[InFlight]:
        return (booking for booking in self.bookings.values() if not booking.included(report))

    def _covering(self, report: CapacityReport) -> "StoragePool":
        """Return the pool after a report covers volumes that were made well before it was written."""
        pool = self
        for booking in self.bookings.values():
            if _is_older(booking, report) and dict(booking.low).get(report.key, ALWAYS) < ALWAYS:
                low = tuple((key, ALWAYS if key == report.key else value) for key, value in booking.low)
                bookings = pool.bookings.set(booking.id, replace(pool.bookings[booking.id], low=low))
                keys = frozenset({report.key})
                pool = replace(pool, bookings=bookings)._corrected(-booking.size, last=booking.number, keys=keys)
        return pool

    def _corrected(
        self, by: int, *, first: int = 0, last: int | None = None, keys: Container[str] | None = None
    ) -> "StoragePool":
        """Return the pool as if what was left had been more by so much when these bookings were made."""
        if not self.by_fall:
            return self
        mutation = self.bookings.mutate()
        for booking in self.bookings.values():
            if first <= booking.number and (last is None or booking.number < last):
                low = tuple(
                    (key, value + by if value < ALWAYS and (keys is None or key in keys) else value)
                    for key, value in booking.low
                )
                mutation[booking.id] = replace(booking, low=low)
        return replace(self, bookings=mutation.finish())

    def _without_falls(self) -> "StoragePool":
        mutation = self.bookings.mutate()
        for booking in self.bookings.values():
            low = tuple((key, value if value == ALWAYS else NEVER) for key, value in booking.low)
            mutation[booking.id] = replace(booking, low=low)
        return replace(self, bookings=mutation.finish(), by_fall=False)


def _is_older(booking: InFlight, report: CapacityReport) -> bool:
    """Whether the driver was asked for the report after the volume was saved."""
    return booking.made is not None and report.written is not None and report.written - booking.made >= REPORT_LAG


BACKOFF: Final = timedelta(seconds=10)
"""How long a pool is not tried again after its first failure."""

MAX_BACKOFF: Final = timedelta(minutes=10)


def report_of(capacity: CSIStorageCapacity, pool: PoolKey) -> CapacityReport:
    """Return the report that the object is."""
    largest = _bytes(capacity.maximum_volume_size)
    free = _bytes(capacity.capacity)
    if free is None:
        return CapacityReport(capacity.key, pool, -1 if largest is None else largest, None, capacity.written)
    one_part = largest is None or largest >= free
    return CapacityReport(capacity.key, pool, free, None if one_part else largest, capacity.written)


def _bytes(quantity: int | None) -> int | None:
    return None if quantity is None else whole_units(quantity)
