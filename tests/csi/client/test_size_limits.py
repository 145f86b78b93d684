"""What happens to an answer that exceeds a limit: its volumes are Unknown, the reason names the limit, the observer is
told, and nothing else changes.
"""

import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import count
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import Message

from csi.client.channel import Limits
from csi.client.endpoint import Endpoint
from csi.client.size_limits import PAGE_BYTES, SMALL_BYTES, VOLUME_BYTES
from csi.drivers import Drivers
from csi.health.size_limit import SizeLimit
from csi.health.verdict import Verdict
from csi.proto import csi_v1_pb2 as csi
from kube.clock import SystemClock
from tests.csi.observers import Order, Recorder, Sweeps
from tests.csi.scripted_driver import (
    NAME,
    Rejected,
    Rpc,
    Script,
    ScriptedDriver,
    Service,
    gives,
    health_answer,
    listed_volume,
    volume_answer,
    volumes_answer,
)
from tests.csi.stage import FAST, Stage

NOW = timedelta()
BY_LIST = (Rpc.LIST_VOLUMES, Rpc.VOLUME_CONDITION)
NUMBERS = count()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def driver(tmp_path: Path) -> AsyncIterator[ScriptedDriver]:
    async with ScriptedDriver(tmp_path / "s.sock") as driver:
        yield driver


@pytest.fixture
async def drivers(driver: ScriptedDriver, recorder: Recorder) -> AsyncIterator[Drivers]:
    drivers = Drivers([Endpoint(NAME, str(driver.socket))], SystemClock(), recorder, Limits(deadline=5))
    yield drivers
    await drivers.close()


def limits(recorder: Recorder) -> set[SizeLimit]:
    return {limit for _, limit, _ in recorder.excesses}


def wide(segments: int) -> Message:
    answer = volume_answer("v")
    answer.volume.accessible_topology.extend(csi.Topology(segments={"zone": f"z{each}"}) for each in range(segments))
    return answer


@pytest.mark.parametrize(
    ("script", "limit", "says"),
    [
        pytest.param(gives(wide(257)), SizeLimit.TOPOLOGY, "257 topology segments, 256 allowed", id="topology"),
        pytest.param(
            gives(volume_answer("v", message="x" * VOLUME_BYTES)),
            SizeLimit.ANSWER, "ControllerGetVolume: the answer exceeds 524288 bytes", id="answer",
        ),
        pytest.param(
            gives(Rejected(grpc.StatusCode.INTERNAL, "x" * 50_000)),
            SizeLimit.METADATA, "exceed 16384 bytes", id="error",
        ),
    ],
)  # fmt: skip
async def test_an_answer_about_a_volume(
    driver: ScriptedDriver, drivers: Drivers, recorder: Recorder, script: Script, limit: SizeLimit, says: str
) -> None:
    driver.script["ControllerGetVolume"] = script
    verdict = await drivers.verdict(NAME, "v", NOW)
    assert (verdict.state, verdict.reason) == ("Unknown", "AnswerTooLarge")
    assert says in verdict.message
    assert limits(recorder) == {limit}
    assert drivers.endpoints_up()[NAME] is True, "the driver itself responds"
    driver.script["ControllerGetVolume"] = gives(volume_answer("w"))
    assert (await drivers.verdict(NAME, "w", NOW)).state == "Healthy"


async def test_an_answer_about_health(driver: ScriptedDriver, tmp_path: Path, recorder: Recorder) -> None:
    async with ScriptedDriver(tmp_path / "h.sock", rpcs=[Rpc.GET_VOLUME_HEALTH]) as other:
        other.script["ControllerGetVolumeHealth"] = gives(health_answer("v", *[(1, "Slow")] * 257))
        drivers = Drivers([Endpoint(NAME, str(other.socket))], SystemClock(), recorder)
        verdict = await drivers.verdict(NAME, "v", NOW)
        await drivers.close()
    assert (verdict.reason, limits(recorder)) == ("AnswerTooLarge", {SizeLimit.HEALTH_ENTRIES})


@pytest.mark.parametrize(("unknown", "reason"), [(990, ""), (1500, "AnswerTooLarge"), (100_000, "AnswerTooLarge")])
async def test_unknown_capabilities_are_counted_and_few_of_them_logged(
    tmp_path: Path, recorder: Recorder, caplog: pytest.LogCaptureFixture, unknown: int, reason: str
) -> None:
    caplog.set_level(logging.INFO, "csi")
    rpcs = [Rpc.GET_VOLUME, Rpc.VOLUME_CONDITION, *range(10_000, 10_000 + unknown)]
    async with ScriptedDriver(tmp_path / "c.sock", rpcs=rpcs) as driver:
        drivers = Drivers([Endpoint(NAME, str(driver.socket))], SystemClock(), recorder)
        verdict = await drivers.verdict(NAME, "v", NOW)
        await drivers.close()
    assert verdict.reason == (reason or "VolumeConditionNormal")
    assert limits(recorder) == ({SizeLimit.CAPABILITIES if unknown == 1500 else SizeLimit.ANSWER} if reason else set())
    logged = [str(shown) for record in caplog.records if (shown := getattr(record, "unknown_capabilities", None))]
    assert logged == ([] if reason else ["10000, 10001, 10002, 10003, 10004, 10005, 10006, 10007 and 982 more"])


async def test_a_driver_that_comes_and_goes_logs_few_lines(
    driver: ScriptedDriver, drivers: Drivers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "csi")
    driver.script["ControllerGetVolume"] = gives(Rejected(grpc.StatusCode.UNAVAILABLE))
    ready = csi.ProbeResponse()
    for number in range(50):
        ready.ready.value = bool(number % 2)
        driver.script["Probe"] = gives(ready)
        await drivers.sweep(NAME, Order("v"), FAST, Sweeps()).run()
    assert 5 < len(caplog.records) <= 10


async def test_a_compressed_answer_counts_with_what_it_expands_to(tmp_path: Path, recorder: Recorder) -> None:
    async with ScriptedDriver(tmp_path / "z.sock", compression=grpc.Compression.Gzip) as driver:
        drivers = Drivers([Endpoint(NAME, str(driver.socket))], SystemClock(), recorder)
        well = await drivers.verdict(NAME, "v", NOW)
        driver.script["ControllerGetVolume"] = gives(bytes(100_000_000))
        bomb = await drivers.verdict(NAME, "w", NOW)
        await drivers.close()
    assert (well.state, bomb.reason, limits(recorder)) == ("Healthy", "AnswerTooLarge", {SizeLimit.ANSWER})


async def test_other_answers_are_small(driver: ScriptedDriver, drivers: Drivers, recorder: Recorder) -> None:
    driver.script["GetPluginInfo"] = gives(csi.GetPluginInfoResponse(name=NAME, vendor_version="x" * SMALL_BYTES))
    verdict = await drivers.verdict(NAME, "v", NOW)
    assert (verdict.reason, limits(recorder)) == ("AnswerTooLarge", {SizeLimit.ANSWER})
    assert "GetPluginInfo" in verdict.message


LONG = "/subscriptions/0/resourceGroups/" + "g" * 200
"""A handle longer than the specification allows."""


async def swept(tmp_path: Path, recorder: Recorder, script: Script, *handles: str) -> list[Verdict]:
    """Return the verdicts of a sweep by a list."""
    async with ScriptedDriver(tmp_path / "l.sock", rpcs=BY_LIST, script={"ListVolumes": script}) as driver:
        drivers = Drivers([Endpoint(NAME, str(driver.socket))], SystemClock(), recorder)
        await drivers.sweep(NAME, Order(*handles), FAST, Sweeps()).run()
        records = [drivers.records.state(NAME, handle) for handle in handles]
        assert len(dict(drivers.records.of_driver(NAME))) == len(handles), "nothing else is remembered"
        await drivers.close()
    return [record.last for record in records if record is not None]


@pytest.mark.parametrize(
    ("listed", "states", "limit"),
    [
        pytest.param(["v", LONG], ["Healthy", "Healthy"], set(), id="a long handle that a volume has"),
        pytest.param(["v", LONG, "x" * 1024], ["Healthy", "Healthy"], set(), id="one that no volume has is ignored"),
        pytest.param(["v", LONG, "x" * 2000], ["Unknown"] * 2, {SizeLimit.VOLUME_ID}, id="unless it is too long"),
    ],
)
async def test_a_volume_id_longer_than_the_specification_allows(
    tmp_path: Path, recorder: Recorder, listed: list[str], states: list[str], limit: set[SizeLimit]
) -> None:
    verdicts = await swept(tmp_path, recorder, gives(volumes_answer(*listed)), "v", LONG)
    assert [str(verdict.state) for verdict in verdicts] == states
    assert limits(recorder) == limit


async def test_a_long_handle_is_probed_individually(driver: ScriptedDriver, drivers: Drivers) -> None:
    assert (await drivers.verdict(NAME, LONG, NOW)).state == "Healthy"


def endless(*volumes: Message, token: int = 20) -> Script:
    async def script(_: bytes) -> Message:
        return csi.ListVolumesResponse(entries=volumes, next_token=f"{next(NUMBERS)}".ljust(token, "t"))  # type: ignore[arg-type]

    return script


@pytest.mark.parametrize(
    ("script", "reason", "limit"),
    [
        pytest.param(endless(token=129), "AnswerTooLarge", SizeLimit.PAGE_TOKEN, id="a page token"),
        pytest.param(endless(token=PAGE_BYTES), "AnswerTooLarge", SizeLimit.ANSWER, id="a page"),
        pytest.param(endless(listed_volume("v")), "BrokenList", SizeLimit.LIST, id="pages without end"),
        pytest.param(gives(b"\x0a\x00" * 100_000), "AnswerTooLarge", SizeLimit.LIST, id="entries of a page"),
    ],
)
async def test_a_list(tmp_path: Path, recorder: Recorder, script: Script, reason: str, limit: SizeLimit) -> None:
    (verdict,) = await swept(tmp_path, recorder, script, "v")
    assert (verdict.state, verdict.reason) == ("Unknown", reason)
    assert limits(recorder) == {limit}


async def test_a_list_that_breaks_is_replaced_by_probes_where_the_driver_has_them(tmp_path: Path) -> None:
    async with ScriptedDriver(tmp_path / "s.sock", rpcs=(*BY_LIST, Rpc.GET_VOLUME)) as driver:
        driver.script["ListVolumes"] = endless(token=PAGE_BYTES // 2)
        stage = Stage(driver)
        await stage.sweep.run()
        await stage.drivers.close()
    assert stage.states() == ["Healthy"] * 3


@pytest.mark.parametrize(("bytes_a_second", "slower"), [(2**30, False), (1_500_000, True)])
async def test_a_driver_that_sends_much_is_slowed_down(
    tmp_path: Path, recorder: Recorder, bytes_a_second: float, slower: bool
) -> None:
    clock = SystemClock()
    async with ScriptedDriver(tmp_path / "s.sock", services=[Service.CONTROLLER_SERVICE]) as driver:
        driver.script["ControllerGetVolume"] = gives(volume_answer("v", message="x" * 500_000))
        limits = Limits(bytes_a_second=bytes_a_second)
        drivers = Drivers([Endpoint(NAME, str(driver.socket))], clock, recorder, limits)
        began = clock.monotonic()
        for _ in range(5):
            await drivers.verdict(NAME, "v", timedelta(seconds=-1))
        await drivers.close()
    assert (clock.monotonic() - began > 0.6) is slower
