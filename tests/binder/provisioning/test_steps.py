"""The ledger is brought up to date in steps of a few objects: at first, and when much changes at once."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec

from binder.provisioning.ledger import PoolLedger, Why
from binder.provisioning.pool import InFlight, PoolKey
from binder.provisioning.tracking import Provisioning
from kube.objects.model import Record
from kube.store.store import Store, store_of
from tests.binder.provisioning.clusters import DRIVER, GI, OURS, local_class, made, place, report, selected
from tests.builders import EPOCH, csi_driver


def rooms(ledger: PoolLedger) -> dict[PoolKey, tuple[int, list[str]]]:
    """What is left of each pool, and the claims in flight there in the order in which they were booked."""
    rooms = {key: pool.room(EPOCH) for key, pool in ledger.pools.items()}
    return {key: (room.left or 0, in_order(room.in_flight)) for key, room in rooms.items()}


def in_order(bookings: Iterable[InFlight]) -> list[str]:
    return [each.claim for each in sorted(bookings, key=lambda booking: booking.number)]


def steps_of(provisioning: Provisioning, store: Store, now: datetime = EPOCH) -> int:
    """Take all steps that are left, of three objects each; return how many there were."""
    return 1 + sum(1 for _ in iter(lambda: provisioning.step(store.snapshot(), now, most=3), True))


def followed(pools: int, records: Sequence[Record]) -> tuple[Store, Provisioning]:
    """Return a store with these records and so many nodes with a pool of 200Gi each, and what has read all of it."""
    places = [record for number in range(pools) for record in place(f"n{number}")]
    reports = [report("200Gi", f"n{number}") for number in range(pools)]
    store = store_of((csi_driver(DRIVER, storage_capacity=True), local_class(), *places, *reports, *records))
    provisioning = Provisioning(OURS).follow(store)
    steps_of(provisioning, store)
    return store, provisioning


def test_pools_that_a_class_joins_are_moved_in_steps() -> None:
    """It is the first by name from now on. What was in flight still is, in the order in which it was booked."""
    claims = [selected(f"c{number}", "10Gi", f"n{number % 4}") for number in range(20)]
    store, provisioning = followed(4, claims)
    before = provisioning.latest
    store.classes.upsert(local_class("a-first", **{"csi.storage.k8s.io/fstype": "xfs"}))
    for number in range(4):
        store.capacities.upsert(report("150Gi", f"n{number}", of="a-first"))

    assert not provisioning.step(store.snapshot(), EPOCH, most=3)
    assert provisioning.latest is before, "what is half moved is not shown"
    assert steps_of(provisioning, store) >= len(before.pools) == 4, "a pool at once at most"
    moved = rooms(provisioning.latest)
    expected = {replace(key, family="a-first"): (100 * GI, claims) for key, (_, claims) in rooms(before).items()}
    assert moved == expected


def test_volumes_whose_time_is_over_at_once_are_forgotten_in_steps() -> None:
    volumes = [made(f"c{number}", "10Gi", f"n{number % 2}") for number in range(20)]
    store, provisioning = followed(2, volumes)
    assert {left for left, _ in rooms(provisioning.latest).values()} == {100 * GI}

    assert steps_of(provisioning, store, EPOCH + timedelta(days=1)) >= len(volumes) // 3
    assert not any(pool.bookings for pool in provisioning.latest.pools.values())


def test_a_driver_without_room_is_known_after_the_steps_before_it() -> None:
    """The provisioner gave up while the ledger of a large cluster was being built."""
    records = [*place("n1"), report("200Gi"), *(selected(f"c{number}", "1Gi") for number in range(10))]
    store = store_of((csi_driver(DRIVER, storage_capacity=True), local_class(), *records))
    provisioning = Provisioning(OURS).follow(store)
    provisioning.step(store.snapshot(), EPOCH, most=3)
    provisioning.exhausted("fast", store.snapshot().nodes["n1"], 80 * GI, EPOCH)
    steps_of(provisioning, store)
    assert [left for left, _ in rooms(provisioning.latest).values()] == [80 * GI - 1]


def test_in_steps_the_ledger_becomes_what_it_is_at_once() -> None:
    """Classes, reports, volumes and claims mixed, and claims that are ignored until their pool is reported."""
    places = [record for number in range(6) for record in place(f"n{number}")]
    reports = [report("200Gi", f"n{number}") for number in range(1, 5)]
    claims = [selected(f"c{number}", "10Gi", f"n{number % 6}", ours=number % 2 == 0) for number in range(30)]
    volumes = [made(f"c{number}", "10Gi", f"n{number % 6}") for number in range(1, 30, 3)]
    store = store_of((csi_driver(DRIVER, storage_capacity=True), local_class(), *places, *reports, *claims, *volumes))
    at_once, in_steps = (Provisioning(OURS).follow(store) for _ in range(2))
    count = 1
    while not in_steps.step(store.snapshot(), EPOCH, most=3):
        count += 1
        if count == 5:
            store.capacities.upsert(msgspec.structs.replace(report("50Gi", "n5"), resource_version=2))
    whole = at_once.ledger(store.snapshot(), EPOCH)
    assert count >= (len(reports) + len(claims) + len(volumes)) // 3
    stepped = in_steps.ledger(store.snapshot(), EPOCH)
    assert set(whole.pools) == set(stepped.pools)
    for key, pool in whole.pools.items():
        assert stepped.pools[key].room(EPOCH) == pool.room(EPOCH)
    assert dict(whole.ignored) == dict(stepped.ignored)
    assert {each.why for each in whole.ignored.values()} == {Why.NO_REPORT}
