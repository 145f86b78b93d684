"""Probes of volumes that pods wait for or use, in between and beside sweeps. The frame: NAME has the volumes a to e."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import Message

from csi.proto import csi_v1_pb2 as csi
from csi.sweep import IN_USE_TICK
from csi.volume_probes import SWEEPS_PER_GET, Pace
from tests.csi.scripted_driver import (
    NAME,
    Rejected,
    Rpc,
    Script,
    ScriptedDriver,
    gives,
    health_answer,
    healthy,
    volume_health,
)
from tests.csi.stage import Stage
from tests.fake_clock import FakeClock

GET, GET_HEALTH, LISTED_UNHEALTHY = "ControllerGetVolume", "ControllerGetVolumeHealth", "ControllerListVolumeHealth"
LOST = (csi.DATA_LOSS, "DiskGone")
ALL = ("a", "b", "c", "d", "e")
PACE = Pace(rate=100.0, at_once=2)
"""100 volumes would be swept in a second; the interval is 60 s, and 10 s for volumes in use."""
ROUND = PACE.in_use_interval - IN_USE_TICK
"""Seconds from one round to the next: a call is up to a tick late."""


class Leaping(FakeClock):
    """A sleep moves time."""

    async def sleep(self, seconds: float) -> None:
        self.jump(seconds)
        await asyncio.sleep(0)


class Watched(Stage):
    """Swept once; `probed` are the volumes probed individually since then."""

    def __init__(self, driver: ScriptedDriver, pace: Pace = PACE) -> None:
        self.clock = Leaping()
        super().__init__(driver, self.clock, pace)
        self.order.ordered = list(ALL)
        self.probed: list[str] = []

    async def in_use(self, seconds: float) -> list[str]:
        """Let time pass; return the volumes probed by the calls of the job."""
        self.probed.clear()
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            self.clock.jump(IN_USE_TICK)
            await self.sweep.run_in_use()
        return list(self.probed)


@asynccontextmanager
async def watched(path: Path, *rpcs: int, pace: Pace = PACE) -> AsyncIterator[Watched]:
    async with ScriptedDriver(path / "s.sock", rpcs=rpcs or (Rpc.GET_VOLUME, Rpc.VOLUME_CONDITION)) as driver:
        stage = Watched(driver, pace)
        driver.script[GET] = noted(stage, healthy)
        await stage.sweep.run()
        stage.probed.clear()
        stage.calls()
        yield stage
        await stage.drivers.close()


def noted(stage: Watched, script: Script) -> Script:
    async def answer(request: bytes) -> Message | bytes | None:
        stage.probed.append(csi.ControllerGetVolumeRequest.FromString(request).volume_id)
        return await script(request)

    return answer


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Watched]:
    async with watched(tmp_path) as stage:
        yield stage


async def test_only_volumes_in_use_are_probed_each_once_in_the_interval(stage: Watched) -> None:
    stage.order.used = [["d"], ["b", "a"]]
    for _ in range(3):
        assert sorted(await stage.in_use(ROUND)) == ["a", "b", "d"]
    stage.order.used = [[], ["c"]]
    assert await stage.in_use(ROUND) == ["c"]
    stage.order.used = [[], []]
    assert not await stage.in_use(ROUND)


async def test_a_loss_is_reported_without_a_sweep(stage: Watched) -> None:
    changes: list[tuple[str, str]] = []
    stage.drivers.records.listeners.append(lambda _driver, handle, _, new: changes.append((handle, new.state)))
    stage.order.used = [[], ["b"]]
    stage.driver.script[GET] = noted(stage, gives(Rejected(grpc.StatusCode.NOT_FOUND)))
    await stage.in_use(ROUND)
    assert changes == [("b", "Inaccessible")]
    assert stage.states() == ["Healthy", "Inaccessible", "Healthy", "Healthy", "Healthy"]
    assert len(stage.sweeps.ended) == 1


async def test_as_many_as_the_rate_leaves_those_that_pods_wait_for_first_and_then_in_turn(tmp_path: Path) -> None:
    """The rate is just enough for sweeps, so a tenth of it remains: one volume in ten seconds."""
    async with watched(tmp_path, pace=Pace(rate=0.1, at_once=1, interval=50.0)) as stage:
        stage.order.used = [["d"], ["a", "b", "c", "e"]]
        assert set(await stage.in_use(60.0)) == {"d"}
        stage.order.used = [[], ["a", "b", "c", "e"]]
        probed = await stage.in_use(120.0)
        assert set(probed[:4]) == {"a", "b", "c", "e"}


async def test_a_sweep_does_not_repeat_what_was_probed_since_it_began(stage: Watched) -> None:
    stage.order.used = [["e"], []]
    began = asyncio.Event()
    go_on = asyncio.Event()

    async def pausing(request: bytes) -> Message | bytes | None:
        if stage.probed[-1] != "e":
            began.set()
            await go_on.wait()
        return await healthy(request)

    stage.driver.script[GET] = noted(stage, pausing)
    sweep = asyncio.create_task(stage.sweep.run())
    await began.wait()
    stage.clock.jump(PACE.in_use_interval)
    await stage.sweep.run_in_use()
    go_on.set()
    await sweep
    assert sorted(stage.probed) == sorted(ALL)
    end = stage.sweeps.ended[-1]
    assert (end.done, end.total) == (5, 5)
    assert end.complete is not None
    assert not end.complete.exceptions


async def test_nothing_before_the_first_sweep_nor_while_the_driver_does_not_respond(tmp_path: Path) -> None:
    async with ScriptedDriver(tmp_path / "s.sock") as driver:
        stage = Watched(driver)
        stage.order.used = [["a"], ["b"]]
        await stage.in_use(ROUND)
        assert not driver.calls
        driver.script["Probe"] = gives(Rejected(grpc.StatusCode.UNAVAILABLE))
        await stage.sweep.run()
        stage.calls()
        await stage.in_use(ROUND)
        assert not driver.calls
        assert stage.states() == ["Unknown"] * 5
        await stage.drivers.close()


async def test_with_sweeps_as_frequent_there_is_no_need(tmp_path: Path) -> None:
    async with watched(tmp_path, pace=Pace(rate=100.0, interval=10.0)) as stage:
        stage.order.used = [["a"], ["b"]]
        assert not await stage.in_use(60.0)


def with_health(**unhealthy: tuple[int, str]) -> Script:
    async def script(request: bytes) -> Message:
        handle = csi.ControllerGetVolumeHealthRequest.FromString(request).volume_id
        return health_answer(handle, unhealthy[handle]) if handle in unhealthy else health_answer(handle)

    return script


async def test_by_list_where_the_driver_lists(tmp_path: Path) -> None:
    async with watched(tmp_path, Rpc.GET_VOLUME_HEALTH, Rpc.LIST_VOLUME_HEALTH) as stage:
        stage.order.used = [["d"], ["b", "a"]]
        entries = [volume_health("b", LOST), volume_health("c", LOST)]
        stage.driver.script[LISTED_UNHEALTHY] = gives(csi.ControllerListVolumeHealthResponse(entries=entries))
        stage.driver.script[GET_HEALTH] = with_health(b=LOST, c=LOST)
        await stage.in_use(ROUND)
        calls = stage.calls()
        assert (calls[LISTED_UNHEALTHY], calls[GET_HEALTH]) == (1, 1), "only what the list changes is confirmed"
        assert stage.states() == ["Healthy", "DataLoss", "Healthy", "Healthy", "Healthy"]
        await stage.sweep.run()
        assert stage.state("c") == "DataLoss"


async def test_a_list_that_breaks_off_changes_nothing(tmp_path: Path) -> None:
    async with watched(tmp_path, Rpc.GET_VOLUME_HEALTH, Rpc.LIST_VOLUME_HEALTH) as stage:
        stage.order.used = [["d"], ["b", "a"]]
        stage.driver.script[LISTED_UNHEALTHY] = gives(Rejected(grpc.StatusCode.INTERNAL))
        await stage.in_use(2 * ROUND)
        assert stage.calls()[LISTED_UNHEALTHY] == 2
        assert stage.states() == ["Healthy"] * 5
        assert stage.sweeps.lists[-1] == (f"/csi.v1.Controller/{LISTED_UNHEALTHY}", "Internal")
        assert stage.drivers.endpoints_up() == {NAME: True}


async def test_volumes_that_a_list_omits_are_left_to_the_sweeps(tmp_path: Path) -> None:
    async with watched(tmp_path, Rpc.GET_VOLUME_HEALTH, Rpc.LIST_VOLUME_HEALTH) as stage:
        stage.order.used = [[], list(ALL)]
        await stage.in_use(SWEEPS_PER_GET * ROUND)
        calls = stage.calls()
        assert (calls[LISTED_UNHEALTHY], calls[GET_HEALTH]) == (SWEEPS_PER_GET, 0)


async def test_a_round_that_confirmed_many_volumes_does_not_delay_the_next(tmp_path: Path) -> None:
    """The first round probes each volume, at one in ten seconds; the next begins at once."""
    pace = Pace(rate=0.1, at_once=2)
    async with ScriptedDriver(tmp_path / "s.sock", rpcs=(Rpc.GET_VOLUME_HEALTH, Rpc.LIST_VOLUME_HEALTH)) as driver:
        stage = Watched(driver, pace)
        stage.order.ordered = ["a"]
        await stage.sweep.run()
        stage.order.used = [[], list(ALL)]
        stage.calls()
        await stage.in_use(ROUND)
        assert stage.calls()[GET_HEALTH] == len(ALL) - 1
        await stage.in_use(2 * IN_USE_TICK)
        assert stage.calls()[LISTED_UNHEALTHY] == 1
        await stage.drivers.close()
