"""One driver, any answer, on a real socket. The frame: NAME is configured, volume `v` is probed."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import Message

from csi.client.channel import Limits
from csi.client.endpoint import Endpoint
from csi.health.verdict import HealthState, Segment, Verdict
from csi.probe import DriverProbe
from csi.proto import csi_v1_pb2 as csi
from kube.clock import SystemClock
from tests.builders import EPOCH
from tests.csi.observers import Recorder
from tests.csi.scripted_driver import (
    NAME,
    Rejected,
    Rpc,
    Script,
    ScriptedDriver,
    Service,
    gives,
    hangs,
    volume_answer,
)
from tests.driver_process import eventually

PATIENCE = Limits(deadline=0.3)


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "s.sock"


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def probe(socket: Path, recorder: Recorder) -> AsyncIterator[DriverProbe]:
    probe = DriverProbe(Endpoint(NAME, str(socket)), PATIENCE, SystemClock(), recorder)
    yield probe
    await probe.close()


@pytest.mark.parametrize(
    ("method", "script", "state", "reason"),
    [
        pytest.param("ControllerGetVolume", gives(volume_answer("v")), "Healthy", "VolumeConditionNormal", id="normal"),
        pytest.param(
            "ControllerGetVolume", gives(volume_answer("v", abnormal=True)), "Degraded", "VolumeConditionAbnormal",
            id="abnormal",
        ),
        pytest.param(
            "ControllerGetVolume", gives(Rejected(grpc.StatusCode.NOT_FOUND)), "Inaccessible", "VolumeNotFound",
            id="not found",
        ),
        pytest.param("ControllerGetVolume", gives(volume_answer("w")), "Unknown", "MalformedAnswer", id="wrong id"),
        pytest.param("ControllerGetVolume", gives(b"\xff<html>"), "Unknown", "MalformedAnswer", id="garbage"),
        pytest.param("ControllerGetVolume", gives(b""), "Unknown", "MalformedAnswer", id="nothing"),
        pytest.param("ControllerGetVolume", gives(None), "Unknown", "Internal", id="OK without a message"),
        pytest.param("ControllerGetVolume", hangs, "Unknown", "DeadlineExceeded", id="hangs"),
        pytest.param(
            "ControllerGetVolume", gives(volume_answer("v", abnormal=True, message="x" * 500_000)),
            "Degraded", "VolumeConditionAbnormal", id="500 kB message",
        ),
        pytest.param(
            "ControllerGetVolume", gives(volume_answer("v", message="x" * 600_000)),
            "Unknown", "AnswerTooLarge", id="600 kB message",
        ),
        pytest.param(
            "ControllerGetVolume", gives(Rejected(grpc.StatusCode.INTERNAL, "x" * 100_000)),
            "Unknown", "AnswerTooLarge", id="100 kB of error",
        ),
        pytest.param(
            "ControllerGetVolume", gives(Rejected(grpc.StatusCode.UNIMPLEMENTED)), "Unknown", "Unimplemented",
            id="announced, not implemented",
        ),
        pytest.param("GetPluginInfo", hangs, "Unknown", "DeadlineExceeded", id="hangs at once"),
        pytest.param("GetPluginInfo", gives(None), "Unknown", "Internal", id="OK without a name"),
        pytest.param("GetPluginInfo", gives(b"\xff"), "Unknown", "MalformedAnswer", id="garbage for a name"),
        pytest.param(
            "GetPluginInfo", gives(csi.GetPluginInfoResponse(name="other")), "Unknown", "WrongDriver", id="wrong driver"
        ),
        pytest.param(
            "GetPluginInfo", gives(Rejected(grpc.StatusCode.NOT_FOUND)), "Unknown", "NotFound",
            id="NOT_FOUND for a name is not a lost volume",
        ),
        pytest.param("GetPluginCapabilities", gives(b"\xff"), "Unknown", "MalformedAnswer", id="garbage services"),
        pytest.param(
            "ControllerGetCapabilities", gives(Rejected(grpc.StatusCode.UNIMPLEMENTED)), "Unknown", "Unimplemented",
            id="no capabilities call",
        ),
    ],
)  # fmt: skip
async def test_answers(socket: Path, probe: DriverProbe, method: str, script: Script, state: str, reason: str) -> None:
    async with ScriptedDriver(socket, script={method: script}):
        verdict = await probe.probe("v")
    assert (verdict.state, verdict.reason) == (state, reason)


@pytest.mark.parametrize(
    ("services", "rpcs", "state", "reason"),
    [
        pytest.param([Service.CONTROLLER_SERVICE], [Rpc.GET_VOLUME], "Healthy", "VolumeExists", id="existence only"),
        pytest.param([Service.CONTROLLER_SERVICE], [16], "Healthy", "NoHealthProblem", id="1.13"),
        pytest.param([Service.CONTROLLER_SERVICE], [16, 17], "Healthy", "NoHealthProblem", id="1.13 with lists"),
        pytest.param([Service.CONTROLLER_SERVICE], [3, 11], "Healthy", "VolumeConditionNormal", id="1.12 by lists"),
        pytest.param([Service.CONTROLLER_SERVICE], [4711], "Unsupported", "NoHealthCapability", id="unknown number"),
        pytest.param([], [Rpc.GET_VOLUME], "Unsupported", "NoHealthCapability", id="no controller"),
    ],
)
async def test_capabilities(
    socket: Path, probe: DriverProbe, services: list[int], rpcs: list[int], state: str, reason: str
) -> None:
    async with ScriptedDriver(socket, services=services, rpcs=rpcs):
        verdict = await probe.probe("v")
    assert (verdict.state, verdict.reason) == (state, reason)


@pytest.mark.parametrize(
    ("services", "topology"),
    [
        pytest.param([Service.CONTROLLER_SERVICE], None, id="not announced"),
        pytest.param(
            [Service.CONTROLLER_SERVICE, Service.VOLUME_ACCESSIBILITY_CONSTRAINTS],
            (Segment((("zone", "a"),)),),
            id="announced",
        ),
    ],
)
async def test_topology_is_believed_only_from_a_driver_that_announces_it(
    socket: Path, probe: DriverProbe, services: list[int], topology: tuple[Segment, ...] | None
) -> None:
    script = {"ControllerGetVolume": gives(volume_answer("v", zones=["a"]))}
    async with ScriptedDriver(socket, services=services, script=script):
        assert (await probe.probe("v")).topology == topology


async def test_the_driver_is_identified_once(socket: Path, probe: DriverProbe, recorder: Recorder) -> None:
    async with ScriptedDriver(socket) as driver:
        for _ in range(3):
            await probe.probe("v")
    methods = [path.rpartition("/")[2] for path in driver.calls]
    assert (
        methods == ["GetPluginInfo", "GetPluginCapabilities", "ControllerGetCapabilities"] + ["ControllerGetVolume"] * 3
    )
    assert recorder.operations == [(NAME, path, "OK") for path in driver.calls]
    assert recorder.probes == [(NAME, "/csi.v1.Controller/ControllerGetVolume", HealthState.HEALTHY)] * 3


async def test_a_caller_cancelled_during_the_handshake_leaves_it_to_the_others(
    socket: Path, probe: DriverProbe
) -> None:
    gate, entered = asyncio.Event(), asyncio.Event()

    async def slow_name(request: bytes) -> Message:
        entered.set()
        await gate.wait()
        return csi.GetPluginInfoResponse(name=NAME)

    async with ScriptedDriver(socket, script={"GetPluginInfo": slow_name}):
        impatient = asyncio.create_task(probe.probe("v"))
        await entered.wait()
        patient = asyncio.create_task(probe.probe("v"))
        await asyncio.sleep(0)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        gate.set()
        assert (await patient).state is HealthState.HEALTHY


async def test_a_driver_that_comes_back_with_other_capabilities_is_negotiated_again(
    socket: Path, probe: DriverProbe
) -> None:
    """The new driver would answer the old question too, so only negotiating again shows the difference."""
    async with ScriptedDriver(socket):
        assert (await probe.probe("v")).reason == "VolumeConditionNormal"
    async with ScriptedDriver(socket, rpcs=[Rpc.GET_VOLUME]):

        async def negotiated_again() -> bool:
            return (await probe.probe("v")).reason == "VolumeExists"

        await eventually(negotiated_again, "the new driver's capabilities are used")


async def test_a_driver_that_unlearned_a_call_is_negotiated_again(socket: Path, probe: DriverProbe) -> None:
    async with ScriptedDriver(socket) as driver:
        await probe.probe("v")
        driver.script["ControllerGetVolume"] = gives(Rejected(grpc.StatusCode.UNIMPLEMENTED))
        driver.script["ControllerGetCapabilities"] = gives(csi.ControllerGetCapabilitiesResponse())
        assert (await probe.probe("v")).reason == "Unimplemented"
        assert (await probe.probe("v")).state is HealthState.UNSUPPORTED


async def test_up_follows_the_driver_and_is_logged_when_it_changes(
    socket: Path, probe: DriverProbe, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="csi.client.session")
    states = [probe.session.up]
    for name in ("other", "other", NAME, NAME):
        async with ScriptedDriver(socket, name=name):

            async def answered_by(name: str = name) -> bool:
                verdict = await probe.probe("v")
                return verdict.reason == ("VolumeConditionNormal" if name == NAME else "WrongDriver")

            await eventually(answered_by, f"{name} answers")
            states.append(probe.session.up)
    assert states == [None, False, False, True, True]
    await probe.probe("v")
    messages = [record.message for record in caplog.records if "endpoint" in record.message]
    assert messages[0] == "CSI endpoint is down"
    assert all(previous != other for previous, other in pairwise(messages)), "said twice"


async def test_no_driver_at_all(probe: DriverProbe) -> None:
    verdict = await probe.probe("v")
    assert (verdict.state, verdict.reason, probe.session.up) == (HealthState.UNKNOWN, "Unavailable", False)


@pytest.mark.parametrize("state", [HealthState.HEALTHY, HealthState.UNKNOWN])
async def test_without_known_capabilities_another_probe_is_not_needed(probe: DriverProbe, state: HealthState) -> None:
    assert probe.session.agreed is None
    assert probe.is_complete(Verdict(state, "Reason", "", "driver", EPOCH))


async def test_of_a_list_only_the_verdicts_are_kept(socket: Path, recorder: Recorder) -> None:
    """Drivers attach up to 4 KiB of context to each volume: 100,000 of them must not take the container's memory."""
    pages, sizes = 32, list[int]()
    volume = csi.Volume(volume_id="v", volume_context={f"key-{number}": "x" * 1024 for number in range(4)})
    page = csi.ListVolumesResponse(entries=[csi.ListVolumesResponse.Entry(volume=volume)] * 700).SerializeToString()

    async def listing(_: bytes) -> bytes:
        sizes.append(resident_bytes())
        token = "" if len(sizes) == pages else str(len(sizes))
        return page + csi.ListVolumesResponse(next_token=token).SerializeToString()

    script: dict[str, Script] = {"ListVolumes": listing}
    limits = Limits(deadline=60, bytes_a_second=2**30)
    probe = DriverProbe(Endpoint(NAME, str(socket)), limits, SystemClock(), recorder)
    async with ScriptedDriver(socket, rpcs=(Rpc.LIST_VOLUMES, Rpc.VOLUME_CONDITION), script=script):
        assert set(await probe.listed(["v"])) == {"v"}
    await probe.close()
    assert len(sizes) == pages
    assert sizes[-1] - sizes[1] < pages * len(page) / 2


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGESIZE")
