"""Sweeps of a scripted driver on a real socket, volume by volume. The frame: NAME has the volumes a, b, c."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import Message

from csi.health.verdict import HealthState
from csi.volume_probes import Pace
from tests.csi.scripted_driver import NAME, Rejected, Rpc, ScriptedDriver, gives, hangs, healthy, volume_answer
from tests.csi.stage import FAST, Stage
from tests.fake_clock import FakeClock


class Leaping(FakeClock):
    """A sleep moves time."""

    async def sleep(self, seconds: float) -> None:
        self.jump(seconds)


@pytest.fixture
async def driver(tmp_path: Path) -> AsyncIterator[ScriptedDriver]:
    async with ScriptedDriver(tmp_path / "s.sock") as driver:
        yield driver


@pytest.fixture
async def stage(driver: ScriptedDriver) -> AsyncIterator[Stage]:
    stage = Stage(driver)
    yield stage
    await stage.drivers.close()


def record_handles(driver: ScriptedDriver) -> list[str]:
    """Have the driver record which volumes are probed."""
    handles: list[str] = []

    async def answer(request: bytes) -> Message:
        response = await healthy(request)
        handles.append(response.volume.volume_id)  # type: ignore[attr-defined]
        return response

    driver.script["ControllerGetVolume"] = answer
    return handles


async def test_each_volume_is_probed_once_in_the_given_order(driver: ScriptedDriver) -> None:
    handles = record_handles(driver)
    stage = Stage(driver, pace=Pace(100_000, at_once=1))
    stage.order.ordered = ["b", "a", "", "b", "c"]
    await stage.sweep.run()
    assert handles == ["b", "a", "c"]
    (end,) = stage.sweeps.ended
    assert (end.driver, end.done, end.total, end.answered) == (NAME, 3, 3, True)
    assert [progress.done for progress in stage.sweeps.progress] == [1, 2, 3, 3]
    await stage.drivers.close()


async def test_one_sweep_of_a_driver_runs_at_a_time(driver: ScriptedDriver) -> None:
    handles = record_handles(driver)
    stage = Stage(driver, pace=Pace(100_000, at_once=1))
    await asyncio.gather(stage.sweep.run(), stage.sweep.run())
    assert handles == ["a", "b", "c"] * 2
    assert [(end.done, end.total) for end in stage.sweeps.ended] == [(3, 3)] * 2
    await stage.drivers.close()


async def test_results_from_before_the_clock_was_set_back_are_probed_first(driver: ScriptedDriver) -> None:
    handles = record_handles(driver)
    clock = Leaping()
    stage = Stage(driver, clock, Pace(100_000, at_once=1))
    stage.order.ordered = ["a", "b"]
    await stage.sweep.run()
    clock.set_time(-3600)
    stage.order.ordered = ["c"]
    await stage.sweep.run()
    handles.clear()
    clock.jump(1)
    stage.order.ordered = ["c", "b", "a"]
    await stage.sweep.run()
    assert handles == ["b", "a", "c"]
    await stage.drivers.close()


async def test_later_sweeps_begin_with_unknown_volumes_and_those_probed_longest_ago(
    driver: ScriptedDriver,
) -> None:
    handles = record_handles(driver)
    stage = Stage(driver, pace=Pace(100_000, at_once=1))
    await stage.sweep.run()
    handles.clear()
    stage.order.ordered = ["c", "e", "b", "d", "a"]
    await stage.sweep.run()
    assert handles == ["e", "d", "a", "b", "c"]
    await stage.drivers.close()


async def test_a_driver_that_is_back_is_probed_in_the_given_order(driver: ScriptedDriver) -> None:
    handles = record_handles(driver)
    stage = Stage(driver, pace=Pace(100_000, at_once=1))
    await stage.sweep.run()
    driver.script["Probe"] = gives(Rejected(grpc.StatusCode.UNAVAILABLE))
    await stage.sweep.run()
    assert stage.states() == ["Unknown"] * 3
    driver.script["Probe"] = gives(b"")
    handles.clear()
    stage.order.ordered = ["c", "a", "b"]
    await stage.sweep.run()
    assert handles == ["c", "a", "b"]
    await stage.drivers.close()


async def test_a_complete_sweep_names_what_it_did_not_find_healthy(stage: Stage) -> None:
    async def each(request: bytes) -> Message | bytes | None:
        response = await healthy(request)
        if response.volume.volume_id == "b":  # type: ignore[attr-defined]
            return await gives(Rejected(grpc.StatusCode.NOT_FOUND))(request)
        return await hangs(request) if response.volume.volume_id == "c" else response  # type: ignore[attr-defined]

    stage.driver.script["ControllerGetVolume"] = each
    await stage.sweep.run()
    complete = stage.sweeps.ended[-1].complete
    assert complete is not None
    assert (complete.driver, complete.volumes) == (NAME, 3)
    assert complete.exceptions == {"b": HealthState.INACCESSIBLE, "c": HealthState.UNKNOWN}
    assert complete.lost == {"b"}, "its driver says that it does not exist"
    assert complete.began <= complete.ended
    stage.driver.script["Probe"] = gives(Rejected(grpc.StatusCode.UNAVAILABLE))
    await stage.sweep.run()
    assert [end.complete is not None for end in stage.sweeps.ended] == [True, False]


async def test_no_volumes(stage: Stage) -> None:
    stage.order.ordered = []
    await stage.sweep.run()
    assert [(end.done, end.total) for end in stage.sweeps.ended] == [(0, 0)]


async def test_the_rate_is_kept(driver: ScriptedDriver) -> None:
    """Two at once go through; each of the other eight waits for its tenth of a second."""
    stage = Stage(driver, Leaping(), Pace(rate=10, at_once=2))
    stage.order.ordered = [f"v{number}" for number in range(10)]
    await stage.sweep.run()
    assert stage.sweeps.ended[0].seconds == pytest.approx(0.8)
    await stage.drivers.close()


async def test_unhealthy_volumes_are_reported_to_the_listeners_once(stage: Stage) -> None:
    changes: list[tuple[str, str, str]] = []
    stage.drivers.records.listeners.append(lambda driver, handle, _, new: changes.append((driver, handle, new.state)))
    await stage.sweep.run()
    stage.driver.script["ControllerGetVolume"] = gives(Rejected(grpc.StatusCode.NOT_FOUND))
    await stage.sweep.run()
    await stage.sweep.run()
    assert sorted(changes) == sorted(
        [(NAME, handle, state) for handle in "abc" for state in ("Healthy", "Inaccessible")]
    )


async def test_a_verdict_is_taken_from_the_sweep_if_it_is_fresh(driver: ScriptedDriver) -> None:
    clock = Leaping()
    stage = Stage(driver, clock, Pace(at_once=3))
    await stage.sweep.run()
    stage.calls()
    thirty = timedelta(seconds=30)
    assert (await stage.drivers.verdict(NAME, "a", thirty)).state is HealthState.HEALTHY
    assert not stage.calls()
    clock.jump(31)
    await stage.drivers.verdict(NAME, "a", thirty)
    assert stage.calls()["ControllerGetVolume"] == 1
    await stage.drivers.close()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        pytest.param({"Probe": hangs}, "DeadlineExceeded", id="hangs from the start"),
        pytest.param({"GetPluginInfo": hangs}, "DeadlineExceeded", id="hangs when asked who it is"),
        pytest.param({"GetPluginInfo": gives(b"\xff")}, "MalformedAnswer", id="talks nonsense"),
    ],
)
async def test_a_driver_that_does_not_answer_ends_its_sweep(
    stage: Stage, script: dict[str, object], reason: str
) -> None:
    stage.driver.script.update(script)  # type: ignore[arg-type]
    stage.order.ordered = [f"v{number}" for number in range(100)]
    await stage.sweep.run()
    assert set(stage.states()) == {"Unknown"}
    record = stage.drivers.records.state(NAME, "v99")
    assert record is not None
    assert record.current.reason == reason
    assert stage.calls()["ControllerGetVolume"] == 0
    assert [end.answered for end in stage.sweeps.ended] == [False]


async def test_a_driver_that_stops_responding_is_not_probed_for_the_rest(stage: Stage) -> None:
    await stage.sweep.run()
    stage.order.ordered = [f"v{number}" for number in range(100)]
    stage.driver.script["ControllerGetVolume"] = hangs

    answers = iter([stage.driver.script["Probe"]])

    async def hangs_from_the_second_time(request: bytes) -> Message | bytes | None:
        return await next(answers, hangs)(request)

    stage.driver.script["Probe"] = hangs_from_the_second_time
    stage.calls()
    await stage.sweep.run()
    assert set(stage.states()) == {"Unknown"}
    assert stage.calls()["ControllerGetVolume"] == FAST.at_once
    assert stage.drivers.endpoints_up() == {NAME: False}


async def test_a_volume_that_hangs_delays_no_other_and_comes_last(stage: Stage) -> None:
    handles: list[str] = []

    async def first_hangs(request: bytes) -> Message:
        response = await healthy(request)
        handles.append(response.volume.volume_id)  # type: ignore[attr-defined]
        return await hangs(request) if handles[-1] == "a" else response

    stage.driver.script["ControllerGetVolume"] = first_hangs
    await stage.sweep.run()
    assert stage.states() == ["Unknown", "Healthy", "Healthy"]
    assert [end.answered for end in stage.sweeps.ended] == [True]
    assert stage.drivers.endpoints_up() == {NAME: True}
    handles.clear()
    await stage.sweep.run()
    assert handles[-1] == "a"


async def test_an_unsupported_driver_is_probed_for_no_volume(tmp_path: Path) -> None:
    async with ScriptedDriver(tmp_path / "s.sock", rpcs=[Rpc.LIST_VOLUMES]) as driver:
        stage = Stage(driver)
        await stage.sweep.run()
        assert stage.states() == ["Unsupported"] * 3
        assert not {"ControllerGetVolume", "ListVolumes"} & set(stage.calls())
        await stage.drivers.close()


async def test_volumes_that_are_no_longer_there_are_forgotten(stage: Stage) -> None:
    await stage.sweep.run()
    stage.order.ordered = ["a"]
    await stage.sweep.run()
    assert (stage.state("a"), stage.state("b")) == ("Healthy", None)


async def test_the_first_sweep_is_due_at_once(stage: Stage) -> None:
    await stage.sweep.run_if_due()
    assert stage.states() == ["Healthy"] * 3
    stage.calls()
    await stage.sweep.run_if_due()
    assert not stage.calls()


async def test_a_driver_that_is_back_is_swept_at_once(stage: Stage) -> None:
    stage.driver.script["Probe"] = gives(Rejected(grpc.StatusCode.UNAVAILABLE))
    await stage.sweep.run()
    await stage.sweep.run_if_due()
    assert stage.states() == ["Unknown"] * 3
    stage.driver.script["Probe"] = gives(b"")
    await stage.sweep.run_if_due()
    assert stage.states() == ["Healthy"] * 3
    stage.calls()
    await stage.sweep.run_if_due()
    assert not stage.calls(), "it was not away"


async def test_a_driver_with_both_generations_is_called_for_the_topology_only_on_demand(tmp_path: Path) -> None:
    rpcs = [Rpc.GET_VOLUME_HEALTH, Rpc.GET_VOLUME]
    script = {"ControllerGetVolume": gives(volume_answer("a", abnormal=None, zones=["z"]))}
    async with ScriptedDriver(tmp_path / "s.sock", rpcs=rpcs, script=script) as driver:
        stage = Stage(driver)
        await stage.sweep.run()
        assert stage.calls()["ControllerGetVolume"] == 0
        hour = timedelta(hours=1)
        for _ in range(2):
            verdict = await stage.drivers.verdict(NAME, "a", hour)
            assert verdict.state is HealthState.HEALTHY
            assert verdict.topology
        calls = stage.calls()
        assert (calls["ControllerGetVolume"], calls["ControllerGetVolumeHealth"]) == (1, 1)
        await stage.drivers.close()
