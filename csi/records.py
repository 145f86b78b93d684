"""What is known of every volume's health, in memory, and the listeners for changes."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from csi.health.health import Absence, Debounce, HealthRecord, Observation, advance, is_transition
from csi.report_memory import ReportMemory, parts_of

REMEMBERED: Final = 200_000
"""Default number of volumes kept: twice the volumes of a large cluster."""

Listener = Callable[[str, str, HealthRecord | None, HealthRecord], None]
"""Called with driver, handle, old record (None for a new volume) and new record after each transition."""


class HealthRecords:
    """A record for each driver and handle. Beyond `remembered` the least recently updated record is dropped.

    What a driver reports of all its volumes is bounded in sum: csi.report_memory.
    """

    def __init__(self, debounce: Debounce, remembered: int = REMEMBERED) -> None:
        self._debounce, self._remembered = debounce, remembered
        self._records: dict[tuple[str, str], HealthRecord] = {}
        self._memories: dict[str, ReportMemory] = {}
        self.listeners: list[Listener] = []
        self.crowded: list[Callable[[str], None]] = []
        """Called with the name of a driver when there was no room for a report."""

    @contextmanager
    def listening(self, listener: Listener) -> Iterator[None]:
        """Call the listener after each transition while inside the context."""
        self.listeners.append(listener)
        try:
            yield
        finally:
            self.listeners.remove(listener)

    def observe(self, driver: str, handle: str, observation: Observation) -> HealthRecord:
        """Apply an observation and return the record. Calls the listeners before it returns."""
        key = (driver, handle)
        old = self._records.pop(key, None)
        new = self._records[key] = advance(old, self._fitted(driver, observation), self._debounce)
        memory = self._memories[driver]
        memory.hold(parts_of(new))
        if old is not None:
            memory.release(parts_of(old))
        if len(self._records) > self._remembered:
            self._drop(next(iter(self._records)))
        if is_transition(old, new):
            for listener in self.listeners:
                listener(driver, handle, old, new)
        return new

    def state(self, driver: str, handle: str) -> HealthRecord | None:
        """Return what is known of a volume, None if it was not probed."""
        return self._records.get((driver, handle))

    def keep(self, driver: str, handles: Collection[str], since: datetime) -> None:
        """Drop the driver's volumes that are not among `handles`, unless something was learned after `since`."""
        wanted = set(handles)
        gone = [
            key
            for key, record in self._records.items()
            if key[0] == driver and key[1] not in wanted and record.checked_at < since
        ]
        for key in gone:
            self._drop(key)

    def of_driver(self, driver: str) -> Iterator[tuple[str, HealthRecord]]:
        """Yield handle and record of each known volume of the driver."""
        return ((handle, record) for (name, handle), record in self._records.items() if name == driver)

    def _fitted(self, driver: str, observation: Observation) -> Observation:
        memory = self._memories.setdefault(driver, ReportMemory())
        if isinstance(observation, Absence):
            return Absence(memory.fitted(observation.implied))
        if not memory.fits(observation):
            for listener in self.crowded:
                listener(driver)
        return memory.fitted(observation)

    def _drop(self, key: tuple[str, str]) -> None:
        self._memories[key[0]].release(parts_of(self._records.pop(key)))
