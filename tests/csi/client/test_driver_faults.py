"""Against real driver processes: stopped (SIGSTOP), killed (SIGKILL), restarted, with volumes that become unhealthy."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from csi.client.channel import Limits
from csi.drivers import Drivers
from csi.health.verdict import HealthState, Segment, Verdict
from devcluster.driver.health import VolumeFault
from devcluster.driver.volumes import break_volume, create_volume, delete_volume, make_well
from kube.clock import SystemClock
from tests.csi.observers import Recorder
from tests.driver_process import DriverProcess, eventually

NOW = timedelta()
A, B = "a.csi.example", "b.csi.example"
ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[DriverProcess, DriverProcess]]:
    async with DriverProcess(tmp_path, A, "--topology", f"{ZONE}=a") as first, DriverProcess(tmp_path, B) as other:
        for driver in (first, other):
            create_volume(driver.root, "v", 1024, {ZONE: "c"})
        yield first, other


@pytest.fixture
async def drivers(pair: tuple[DriverProcess, DriverProcess]) -> AsyncIterator[Drivers]:
    drivers = Drivers([driver.endpoint for driver in pair], SystemClock(), Recorder(), Limits(deadline=2))
    yield drivers
    await drivers.close()


async def probe(drivers: Drivers, driver: str = A, handle: str = "v") -> Verdict:
    return await drivers.verdict(driver, handle, NOW)


async def becomes(drivers: Drivers, state: HealthState) -> None:
    async def there() -> bool:
        return (await probe(drivers)).state is state

    await eventually(there, f"the volume is {state}")


def down(drivers: Drivers) -> Callable[[], Awaitable[bool]]:
    async def is_down() -> bool:
        return drivers.endpoints_up()[A] is False

    return is_down


async def test_a_stopped_driver_is_unknown_while_another_answers(
    pair: tuple[DriverProcess, DriverProcess], drivers: Drivers
) -> None:
    assert (await probe(drivers, A)).state is HealthState.HEALTHY
    assert (await probe(drivers, B)).state is HealthState.HEALTHY
    await pair[0].send(signal.SIGSTOP)
    stopped = asyncio.create_task(probe(drivers, A))
    others = [await probe(drivers, B) for _ in range(5)]
    assert {verdict.state for verdict in others} == {HealthState.HEALTHY}
    assert not stopped.done(), "the other driver had to wait"
    assert ((await stopped).state, (await stopped).reason) == (HealthState.UNKNOWN, "DeadlineExceeded")
    await eventually(down(drivers), "the stopped driver is seen to be down")
    assert drivers.endpoints_up()[B] is True
    await pair[0].send(signal.SIGCONT)
    await becomes(drivers, HealthState.HEALTHY)


async def test_an_unhealthy_volume_does_not_recover_by_a_stopped_driver(
    pair: tuple[DriverProcess, DriverProcess], drivers: Drivers
) -> None:
    break_volume(pair[0].root, "v", VolumeFault.GONE)
    assert (await probe(drivers)).unhealthy
    await pair[0].send(signal.SIGSTOP)
    assert (await probe(drivers)).unhealthy, "a failed call is no recovery"
    record = drivers.records.state(A, "v")
    assert record is not None
    assert record.state is HealthState.UNKNOWN
    assert record.unhealthy


async def test_a_killed_driver_recovers_by_itself(pair: tuple[DriverProcess, DriverProcess], drivers: Drivers) -> None:
    assert (await probe(drivers)).state is HealthState.HEALTHY
    await pair[0].send(signal.SIGKILL)
    assert (await probe(drivers)).state is HealthState.UNKNOWN
    await eventually(down(drivers), "the killed driver is seen to be down")
    back: list[str] = []
    drivers.answering.append(back.append)
    await pair[0].start()
    await becomes(drivers, HealthState.HEALTHY)
    assert drivers.endpoints_up()[A] is True
    assert back == [A], "told once"


@pytest.mark.parametrize("fault", VolumeFault)
async def test_a_volume_becomes_unhealthy_and_recovers(
    pair: tuple[DriverProcess, DriverProcess], drivers: Drivers, fault: VolumeFault
) -> None:
    break_volume(pair[0].root, "v", fault)
    verdict = await probe(drivers)
    assert verdict.unhealthy
    assert str(pair[0].root / "volumes" / "v") in verdict.message
    make_well(pair[0].root, "v")
    assert (await probe(drivers)).state is HealthState.HEALTHY


async def test_a_deleted_volume_is_inaccessible(pair: tuple[DriverProcess, DriverProcess], drivers: Drivers) -> None:
    delete_volume(pair[0].root, "v")
    verdict = await probe(drivers)
    assert (verdict.state, verdict.reason) == (HealthState.INACCESSIBLE, "VolumeNotFound")


async def test_the_driver_says_where_a_volume_is(pair: tuple[DriverProcess, DriverProcess], drivers: Drivers) -> None:
    create_volume(pair[1].root, "anywhere", 1024)
    assert (await probe(drivers, A)).topology == (Segment(((ZONE, "c"),)),)
    assert (await probe(drivers, B, "anywhere")).topology == ()
