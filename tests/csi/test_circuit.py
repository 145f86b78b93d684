"""A driver that does not respond is called by one check at a time, which also ends the silence. Time stands still."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import grpc
import pytest

from csi.circuit import CHECK_AGAIN
from csi.client.channel import Limits
from csi.client.endpoint import Endpoint
from csi.drivers import Drivers
from csi.health.verdict import HealthState, Verdict
from csi.proto import csi_v1_pb2 as csi
from tests.csi.observers import Recorder
from tests.csi.scripted_driver import NAME, Rejected, ScriptedDriver, gives, hangs, healthy
from tests.driver_process import eventually
from tests.fake_clock import FakeClock

NOW = timedelta()
GONE = gives(Rejected(grpc.StatusCode.UNAVAILABLE, "the backend is gone"))


@pytest.fixture
async def driver(tmp_path: Path) -> AsyncIterator[ScriptedDriver]:
    async with ScriptedDriver(tmp_path / "s.sock") as driver:
        yield driver


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def drivers(driver: ScriptedDriver, clock: FakeClock) -> AsyncIterator[Drivers]:
    drivers = Drivers([Endpoint(NAME, str(driver.socket))], clock, Recorder(), Limits(calls_at_once=3, deadline=1.0))
    yield drivers
    await drivers.close()


def is_up(drivers: Drivers, up: bool) -> Callable[[], Awaitable[bool]]:
    async def condition() -> bool:
        return drivers.endpoints_up() == {NAME: up}

    return condition


def count(driver: ScriptedDriver, method: str) -> int:
    return sum(path.endswith(f"/{method}") for path in driver.calls)


async def verdicts(drivers: Drivers, number: int) -> list[Verdict]:
    return [await drivers.verdict(NAME, f"v{each}", NOW) for each in range(number)]


async def goes_down(driver: ScriptedDriver, drivers: Drivers) -> None:
    """It responds once, and then to nothing any more. No check is in progress afterwards."""
    assert (await drivers.verdict(NAME, "first", NOW)).state is HealthState.HEALTHY
    driver.script |= {"ControllerGetVolume": hangs, "Probe": hangs}
    assert (await drivers.verdict(NAME, "second", NOW)).reason == "DeadlineExceeded"
    await eventually(is_up(drivers, False), "the driver is seen to be down")


async def checked(driver: ScriptedDriver, drivers: Drivers) -> None:
    """A check of the driver that is down has ended."""
    before = count(driver, "Probe")
    assert list(drivers.silent()) == [NAME]

    async def again() -> bool:
        return count(driver, "Probe") > before

    await eventually(again, "the driver is checked")


async def test_a_driver_that_is_down_makes_all_its_volumes_unknown_without_a_call_each(
    driver: ScriptedDriver, drivers: Drivers
) -> None:
    await goes_down(driver, drivers)
    driver.calls.clear()
    async with asyncio.timeout(0.9):
        results = await verdicts(drivers, 50)
    assert {(verdict.state, verdict.reason) for verdict in results} == {(HealthState.UNKNOWN, "DeadlineExceeded")}
    assert {verdict.source for verdict in results} == {f"CSI driver {NAME}"}
    assert count(driver, "ControllerGetVolume") <= 1
    assert count(driver, "Probe") <= 1


async def test_checks_of_a_driver_without_a_listener_are_a_second_apart(
    driver: ScriptedDriver, drivers: Drivers, clock: FakeClock
) -> None:
    driver.script |= {"ControllerGetVolume": GONE, "Probe": GONE}
    await drivers.verdict(NAME, "first", NOW)
    await eventually(is_up(drivers, False), "the driver is seen to be down")
    await checked(driver, drivers)
    for _ in range(50):
        await asyncio.sleep(0)
        await verdicts(drivers, 2)
    before = count(driver, "Probe")
    assert before <= 3
    clock.jump(CHECK_AGAIN)
    await checked(driver, drivers)


@pytest.mark.parametrize(
    "recovered",
    [
        pytest.param({"Probe": gives(csi.ProbeResponse())}, id="Probe"),
        pytest.param({"ControllerGetVolume": healthy}, id="a-volume"),
        pytest.param({"ControllerGetVolume": healthy, "Probe": gives(csi.ProbeResponse())}, id="both"),
    ],
)
async def test_one_response_of_the_driver_ends_the_silence(
    driver: ScriptedDriver, drivers: Drivers, clock: FakeClock, recovered: dict[str, object]
) -> None:
    await goes_down(driver, drivers)
    back: list[str] = []
    drivers.answering.append(back.append)
    driver.script |= recovered  # type: ignore[arg-type]

    async def up() -> bool:
        clock.jump(CHECK_AGAIN)
        return not drivers.silent()

    await eventually(up, "the driver responds again")
    assert back == [NAME]


async def test_a_volume_that_hangs_silences_no_driver_that_responds(driver: ScriptedDriver, drivers: Drivers) -> None:
    assert (await drivers.verdict(NAME, "first", NOW)).state is HealthState.HEALTHY
    driver.script["ControllerGetVolume"] = hangs
    assert (await drivers.verdict(NAME, "second", NOW)).reason == "DeadlineExceeded"
    await eventually(_true_of(lambda: count(driver, "Probe") == 1), "the driver is checked")
    driver.script["ControllerGetVolume"] = healthy
    assert (await drivers.verdict(NAME, "third", NOW)).state is HealthState.HEALTHY
    assert drivers.silent() == {}


async def test_another_driver_at_the_socket_is_not_taken_for_the_one_that_is_awaited(
    driver: ScriptedDriver, drivers: Drivers, clock: FakeClock
) -> None:
    """It responds to Probe, and would be up and down by turns, with every pod planned again each time."""
    driver.script["GetPluginInfo"] = gives(csi.GetPluginInfoResponse(name="another"))
    back: list[str] = []
    drivers.answering.append(back.append)
    assert (await drivers.verdict(NAME, "v", NOW)).reason == "WrongDriver"
    for _ in range(3):
        clock.jump(CHECK_AGAIN)
        await checked(driver, drivers)
    assert (drivers.endpoints_up(), back) == ({NAME: False}, [])


def _true_of(fact: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def condition() -> bool:
        return fact()

    return condition
