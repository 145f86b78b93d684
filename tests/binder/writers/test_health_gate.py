"""The gate asks once for each volume and age, and only where there is a driver."""

import asyncio
from datetime import timedelta

import pytest

from binder.writers.health_gate import PATIENCE, HealthGate
from csi.health.verdict import Verdict
from kube.objects.model import Volume
from tests.binder.world import Doctor
from tests.builders import volume
from tests.fake_clock import FakeClock, settle


def chosen_volumes(*sources: str) -> list[Volume]:
    return [volume(f"pv-{number}", source=source) for number, source in enumerate(sources)]


async def test_a_fresh_verdict_causes_no_probe() -> None:
    clock = FakeClock()
    doctor = Doctor(clock)
    gate = HealthGate(doctor, timedelta(seconds=30), clock)
    chosen = chosen_volumes("csi", "csi")
    assert await gate.probe(chosen, clock.now())
    assert not await gate.probe(chosen, clock.now() + timedelta(seconds=30))
    assert await gate.probe(chosen, clock.now() + timedelta(seconds=31))
    assert doctor.probed == ["handle-pv-0", "handle-pv-1"] * 2
    assert set(gate.verdicts) == {("disk.csi.example", "handle-pv-0"), ("disk.csi.example", "handle-pv-1")}


async def test_volumes_without_a_driver_need_no_verdict() -> None:
    clock = FakeClock()
    doctor = Doctor(clock)
    gate = HealthGate(doctor, timedelta(seconds=30), clock)
    assert not await gate.probe(chosen_volumes("local", "nfs"), clock.now())
    assert doctor.probed == []


async def test_a_report_about_a_volume_outdates_its_verdict() -> None:
    clock = FakeClock()
    doctor = Doctor(clock)
    gate = HealthGate(doctor, timedelta(seconds=30), clock)
    chosen = chosen_volumes("csi", "csi")
    await gate.probe(chosen, clock.now())
    gate.outdated("disk.csi.example", "handle-pv-1")
    gate.outdated("disk.csi.example", "never-asked")
    assert await gate.probe(chosen, clock.now())
    assert doctor.probed == ["handle-pv-0", "handle-pv-1", "handle-pv-1"]


async def test_a_clock_that_is_set_back_outdates_verdicts() -> None:
    clock = FakeClock()
    doctor = Doctor(clock)
    gate = HealthGate(doctor, timedelta(seconds=30), clock)
    chosen = chosen_volumes("csi")
    await gate.probe(chosen, clock.now())
    assert not await gate.probe(chosen, clock.now() - timedelta(seconds=1)), "a plan that began before the answer"
    clock.set_time(-3600)
    assert await gate.probe(chosen, clock.now())
    assert not await gate.probe(chosen, clock.now())


async def test_what_was_reported_of_volumes_chosen_long_ago_is_dropped() -> None:
    clock = FakeClock()
    gate = HealthGate(Doctor(clock), timedelta(seconds=30), clock)
    for number in range(10):
        await gate.probe([volume(f"pv-{number}", source="csi")], clock.now())
        clock.jump(20)
    assert set(gate.verdicts) == {("disk.csi.example", f"handle-pv-{number}") for number in (7, 8, 9)}


async def test_a_probe_that_hangs_ends_with_the_term() -> None:
    clock = FakeClock()
    doctor = Doctor(clock)
    doctor.hang.add("handle-pv-0")
    gate = HealthGate(doctor, timedelta(seconds=30), clock)
    before = asyncio.all_tasks()
    with gate.following():
        waiting = asyncio.create_task(gate.probe(chosen_volumes("csi"), clock.now()))
        await clock.advance(2)
        await waiting
        assert asyncio.all_tasks() > before
    await settle()
    assert asyncio.all_tasks() == before


async def test_the_end_of_a_term_is_no_crash_of_its_probes() -> None:
    crashes: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, crash: crashes.append(crash))
    clock = FakeClock()
    doctor = Doctor(clock)
    doctor.hang.add("handle-pv-0")
    gate = HealthGate(doctor, timedelta(seconds=30), clock)
    with gate.following():
        waiting = asyncio.create_task(gate.probe(chosen_volumes("csi"), clock.now()))
        await clock.advance(PATIENCE)
        await waiting
    await settle()
    assert crashes == []


async def test_a_driver_is_slow_as_soon_as_a_probe_was_waited_for_without_a_response() -> None:
    """Those that waited decide by this at the same instant."""
    clock = FakeClock()
    doctor = Doctor(clock)
    doctor.hang.add("handle-pv-0")
    gate, chosen = HealthGate(doctor, timedelta(seconds=30), clock), chosen_volumes("csi")
    with gate.following():
        waiting = asyncio.create_task(gate.probe(chosen, clock.now()))
        await settle()
        assert not gate.is_slow(chosen)
        await clock.advance(PATIENCE)
        await waiting
        assert gate.is_slow(chosen)


async def test_a_probe_that_cannot_be_made_at_all_fails_those_that_wait_for_it() -> None:
    class Broken(Doctor):
        async def verdict(self, driver: str, handle: str, max_age: timedelta) -> Verdict:
            raise ZeroDivisionError(handle)

    clock = FakeClock()
    gate = HealthGate(Broken(clock), timedelta(seconds=30), clock)
    with pytest.raises(ZeroDivisionError):
        await gate.probe(chosen_volumes("csi"), clock.now())
