"""Whatever the order of events, no more is placed in a pool than it has: the ledger against a model of a driver.

Reports are late, lost and repeated, of two classes that share the storage; provisioners make volumes before their
objects appear, within nine minutes; claims and volumes are deleted; others place claims too; the process restarts. What
no object shows is left out: a restart while a deleted claim's volume is being made, and other users of the disk. A
report is late by less than `report-after`, and is written within ten seconds after the driver was asked.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

import pytest
from msgspec.structs import replace

from kube.rules.quantity import NANO
from tests.binder.provisioning.clusters import GI, Cluster, local_class, made, report, selected
from tests.builders import EPOCH, claim

CAPACITY = 300
CLASSES = ("fast", "xfs")
REPORT_AFTER = timedelta(seconds=120)
LONGEST_WRITE = timedelta(seconds=10)
LONGEST_PROVISIONING = timedelta(minutes=9)

SIZES = (10, 20, 50, 80, 150)


@dataclass
class Reporting:
    """What a class's report says, and what the driver answered and is not written yet, oldest first."""

    free: int = CAPACITY
    includes: frozenset[str] = frozenset()
    answers: list[tuple[datetime, int, frozenset[str]]] = field(default_factory=list)


class DriverModel:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.reports = {name: Reporting() for name in CLASSES}
        first = [report(f"{CAPACITY}Gi", of=name, written=EPOCH) for name in CLASSES]
        self.cluster = Cluster(*map(local_class, CLASSES), *first)
        self.count = 0
        self.wanted: dict[str, tuple[int, str]] = {}
        """Claims without a volume: size and class."""
        self.begun: dict[str, datetime] = {}
        self.deleted: set[str] = set()
        self.on_disk: dict[str, tuple[int, str]] = {}
        self.saved: dict[str, datetime] = {}
        """Volumes with an object, and when that was created."""

    def place_a_pod(self) -> None:
        """As much as the ledger allows, all at once."""
        which, of = self.random.choices(SIZES, k=self.random.randint(1, 2)), self._class()
        if self.cluster.room(of=of).fits(*(size * GI for size in which)):
            for size in which:
                self._select(size, of, ours=True)

    def another_places_a_claim(self) -> None:
        size, of = self.random.choice(SIZES), self._class()
        if size <= CAPACITY - self.committed():
            self._select(size, of, ours=False)

    def _select(self, size: int, of: str, *, ours: bool) -> None:
        self.count += 1
        name = f"c{self.count}"
        self.wanted[name] = size, of
        self.begun[name] = self.cluster.now
        self.cluster.put(selected(name, f"{size}Gi", ours=ours, begun=True, of=of))

    def make_a_volume(self) -> None:
        """The driver has it; its object follows."""
        name = self._one_of(self.wanted)
        if not name:
            return
        self.on_disk[name] = self.wanted.pop(name)

    def save_a_volume(self) -> None:
        name = self._one_of(self.on_disk.keys() - self.saved.keys())
        if name:
            self._save(name)

    def _save(self, name: str) -> None:
        size, of = self.on_disk[name]
        self.saved[name] = self.cluster.now
        self.deleted.discard(name)
        self.cluster.put(made(name, f"{size}Gi", created=self.cluster.now, of=of))

    def delete_a_claim(self) -> None:
        """A provisioner that has begun goes on."""
        name = self._one_of({*self.wanted, *self.on_disk})
        if not name:
            return
        size, of = self.wanted.get(name) or self.on_disk[name]
        if name not in self.saved:
            self.deleted.add(name)
        self.cluster.delete(selected(name, f"{size}Gi", of=of))

    def give_up(self) -> None:
        """The provisioner removes the selected node."""
        name = self._one_of(self.wanted.keys() - self.deleted)
        if name:
            size, of = self.wanted.pop(name)
            self.cluster.put(claim(name, size=f"{size}Gi", storage_class=of))

    def delete_a_volume(self) -> None:
        name = self._one_of(self.saved)
        if not name:
            return
        size, of = self.on_disk.pop(name)
        del self.saved[name]
        self.cluster.delete(made(name, f"{size}Gi", of=of))

    def ask(self) -> None:
        self._ask(self._class())

    def _ask(self, of: str) -> None:
        """The driver answers a GetCapacity."""
        free = CAPACITY - sum(size for size, _ in self.on_disk.values())
        self.reports[of].answers.append((self.cluster.now, free, frozenset(self.on_disk)))

    def write(self) -> None:
        self._write(self._class(), lost=self.random.random() < 0.2)

    def _write(self, of: str, *, lost: bool) -> None:
        """The oldest answer is written, or lost; an equal one is never written."""
        reporting = self.reports[of]
        if not reporting.answers:
            return
        _, free, includes = reporting.answers.pop(0)
        if lost:
            return
        reporting.includes = includes
        if free != reporting.free:
            reporting.free = free
            self.cluster.put(report(f"{free}Gi", of=of, written=self.cluster.now))

    def show_a_report_again(self) -> None:
        of = self._class()
        old = self.cluster.store.capacities.items[report(of=of).key]
        self.cluster.put(replace(old, capacity=self.reports[of].free * GI * NANO))

    def pass_time(self) -> None:
        seconds = self.random.choice((1, 1, 5, 5, 16, 60, 121))
        later = self.cluster.now + timedelta(seconds=seconds)
        for name in [name for name, at in self.begun.items() if later - at >= LONGEST_PROVISIONING]:
            del self.begun[name]
            if name in self.wanted:
                self.on_disk[name] = self.wanted.pop(name)
            if name in self.on_disk and name not in self.saved:
                self._save(name)
        for of, reporting in self.reports.items():
            due = {name for name, at in self.saved.items() if at + REPORT_AFTER <= later}
            if due - reporting.includes:
                reporting.answers.clear()
                self._ask(of)
                self._write(of, lost=False)
            reporting.answers = [each for each in reporting.answers if later - each[0] < LONGEST_WRITE]
        self.cluster.wait(seconds=seconds)

    def restart(self) -> None:
        if not self.deleted:
            self.cluster.restart()

    def committed(self) -> int:
        """Return how much of the pool is used, or will be."""
        return sum(size for size, _ in (*self.wanted.values(), *self.on_disk.values()))

    def _class(self) -> str:
        return self.random.choice(CLASSES)

    def _one_of(self, names: Collection[str]) -> str:
        return self.random.choice(sorted(names)) if names else ""


STEPS = (
    [DriverModel.place_a_pod, DriverModel.make_a_volume, DriverModel.save_a_volume, DriverModel.write] * 4
    + [DriverModel.ask, DriverModel.pass_time, DriverModel.delete_a_volume] * 3
    + [DriverModel.another_places_a_claim, DriverModel.delete_a_claim, DriverModel.give_up]
    + [DriverModel.show_a_report_again, DriverModel.restart]
)


@pytest.mark.parametrize("seed", range(40))
def test_no_more_is_placed_than_the_pool_has(seed: int) -> None:
    model = DriverModel(seed)
    for _ in range(400):
        model.random.choice(STEPS)(model)
        assert model.committed() <= CAPACITY
    assert model.count > 5
