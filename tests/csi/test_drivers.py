"""The registry against scripted drivers: memory, sharing, bounds, cancellation. Time stands still unless moved."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import Message

from csi.client.channel import Limits
from csi.client.endpoint import Endpoint
from csi.drivers import Drivers
from csi.health.verdict import HealthState
from tests.csi.observers import Recorder
from tests.csi.scripted_driver import NAME, Rejected, Script, ScriptedDriver, gives, hangs, healthy
from tests.driver_process import eventually
from tests.fake_clock import FakeClock

NOW = timedelta()
MINUTE = timedelta(minutes=1)


@pytest.fixture
async def driver(tmp_path: Path) -> AsyncIterator[ScriptedDriver]:
    async with ScriptedDriver(tmp_path / "s.sock") as driver:
        yield driver


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def drivers(driver: ScriptedDriver, clock: FakeClock) -> AsyncIterator[Drivers]:
    endpoint = Endpoint(NAME, str(driver.socket))
    drivers = Drivers([endpoint], clock, Recorder(), Limits(calls_at_once=3, deadline=2))
    yield drivers
    await drivers.close()


def probe_count(driver: ScriptedDriver) -> int:
    return sum(path.endswith("/ControllerGetVolume") for path in driver.calls)


async def test_a_driver_without_an_endpoint_is_unsupported(drivers: Drivers) -> None:
    verdict = await drivers.verdict("other.csi.example", "v", NOW)
    assert (verdict.state, verdict.reason) == (HealthState.UNSUPPORTED, "NoEndpoint")


async def test_a_driver_configured_twice_is_an_error(clock: FakeClock) -> None:
    with pytest.raises(ValueError, match="'a' is given twice"):
        Drivers([Endpoint("a", "/x"), Endpoint("a", "/y")], clock, Recorder())


@pytest.mark.parametrize(
    ("passed", "back", "probes"),
    [(60, 0, 1), (61, 0, 2), (0, 10, 2)],
    ids=["as old as allowed", "too old", "clock set back"],
)
async def test_a_fresh_verdict_causes_no_probe(
    driver: ScriptedDriver, drivers: Drivers, clock: FakeClock, passed: int, back: int, probes: int
) -> None:
    await drivers.verdict(NAME, "v", MINUTE)
    clock.jump(passed)
    clock.set_time(-back)
    await drivers.verdict(NAME, "v", MINUTE)
    assert probe_count(driver) == probes


async def test_unknown_is_repeated_for_a_second_only(
    driver: ScriptedDriver, drivers: Drivers, clock: FakeClock
) -> None:
    driver.script["ControllerGetVolume"] = gives(Rejected(grpc.StatusCode.INTERNAL))
    assert (await drivers.verdict(NAME, "v", MINUTE)).reason == "Internal"
    driver.script["ControllerGetVolume"] = healthy
    clock.jump(1)
    assert (await drivers.verdict(NAME, "v", MINUTE)).reason == "Internal"
    clock.jump(1)
    assert (await drivers.verdict(NAME, "v", MINUTE)).state is HealthState.HEALTHY


async def test_volumes_have_their_own_verdicts(driver: ScriptedDriver, drivers: Drivers) -> None:
    for handle in ("v", "w", "v"):
        await drivers.verdict(NAME, handle, MINUTE)
    assert probe_count(driver) == 2


async def test_memory_is_bounded(driver: ScriptedDriver, clock: FakeClock) -> None:
    drivers = Drivers([Endpoint(NAME, str(driver.socket))], clock, Recorder(), remembered=2)
    for handle in ("v", "w", "x", "x", "w", "v"):
        await drivers.verdict(NAME, handle, MINUTE)
    await drivers.close()
    assert probe_count(driver) == 4, "only v, renewed longest ago, is asked about twice"


async def test_concurrent_callers_share_a_probe_of_one_volume(driver: ScriptedDriver, drivers: Drivers) -> None:
    verdicts = await asyncio.gather(*(drivers.verdict(NAME, "v", NOW) for _ in range(20)))
    assert probe_count(driver) == 1
    assert {verdict.state for verdict in verdicts} == {HealthState.HEALTHY}


async def test_a_cancelled_caller_does_not_disturb_the_others(driver: ScriptedDriver, drivers: Drivers) -> None:
    gate, entered = asyncio.Event(), asyncio.Event()
    driver.script["ControllerGetVolume"] = _gated(gate, entered.set)
    impatient = asyncio.create_task(drivers.verdict(NAME, "v", NOW))
    patient = asyncio.create_task(drivers.verdict(NAME, "v", NOW))
    await entered.wait()
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    gate.set()
    assert (await patient).state is HealthState.HEALTHY


async def test_no_driver_gets_more_calls_at_once_than_allowed(driver: ScriptedDriver, drivers: Drivers) -> None:
    under_way: list[int] = [0, 0]

    async def counting(request: bytes) -> Message:
        under_way[0] += 1
        under_way[1] = max(under_way)
        for _ in range(20):
            await asyncio.sleep(0)
        under_way[0] -= 1
        return await healthy(request)

    driver.script["ControllerGetVolume"] = counting
    verdicts = await asyncio.gather(*(drivers.verdict(NAME, f"v{number}", NOW) for number in range(30)))
    assert {verdict.state for verdict in verdicts} == {HealthState.HEALTHY}
    assert under_way == [0, 3]


async def test_a_caller_that_gets_no_turn_in_time_gets_an_error(driver: ScriptedDriver, drivers: Drivers) -> None:
    """Three get a turn and hang; by the time these give theirs back, most of the others have given up."""
    driver.script["ControllerGetVolume"] = hangs
    verdicts = await asyncio.gather(*(drivers.verdict(NAME, f"v{number}", NOW) for number in range(12)))
    assert {verdict.state for verdict in verdicts} == {HealthState.UNKNOWN}
    assert {verdict.reason for verdict in verdicts} == {"DeadlineExceeded", "DriverBusy"}
    assert drivers.endpoints_up() == {NAME: True}, "volumes hang, and the driver itself answers"


async def test_a_hanging_driver_stalls_no_other(tmp_path: Path, driver: ScriptedDriver, clock: FakeClock) -> None:
    async with ScriptedDriver(tmp_path / "h.sock", name="hanging", script={"GetPluginInfo": hangs}) as hanging:
        endpoints = [Endpoint(NAME, str(driver.socket)), Endpoint("hanging", str(hanging.socket))]
        drivers = Drivers(endpoints, clock, Recorder(), Limits(deadline=60))
        stuck = asyncio.create_task(drivers.verdict("hanging", "v", NOW))
        await eventually(_true_of(lambda: bool(hanging.calls)), "the hanging driver is asked")
        assert (await drivers.verdict(NAME, "v", NOW)).state is HealthState.HEALTHY
        assert not stuck.done()
        assert drivers.endpoints_up() == {NAME: True, "hanging": False}
        await drivers.close()
        with pytest.raises(asyncio.CancelledError):
            await stuck


async def test_closing_ends_the_calls_under_way(driver: ScriptedDriver, drivers: Drivers) -> None:
    driver.script["ControllerGetVolume"] = hangs
    waiting = asyncio.create_task(drivers.verdict(NAME, "v", NOW))
    await eventually(_true_of(lambda: probe_count(driver) == 1), "the driver is asked")
    await drivers.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def _gated(gate: asyncio.Event, entered: Callable[[], None]) -> Script:
    async def script(request: bytes) -> Message:
        entered()
        await gate.wait()
        return await healthy(request)

    return script


def _true_of(fact: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def condition() -> bool:
        return fact()

    return condition
