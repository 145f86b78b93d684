"""One session with a driver: whether it is up by its own word, and that the session ends with its calls."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from google.protobuf.wrappers_pb2 import BoolValue

from csi.client.channel import Limits
from csi.client.endpoint import Endpoint
from csi.client.session import NOT_READY, DriverSession
from csi.proto import csi_v1_pb2 as csi
from kube.clock import SystemClock
from tests.csi.observers import Recorder
from tests.csi.scripted_driver import NAME, ScriptedDriver, gives, hangs
from tests.driver_process import eventually


@pytest.fixture
async def driver(tmp_path: Path) -> AsyncIterator[ScriptedDriver]:
    async with ScriptedDriver(tmp_path / "s.sock") as driver:
        yield driver


@pytest.fixture
async def session(driver: ScriptedDriver) -> AsyncIterator[DriverSession]:
    session = DriverSession(Endpoint(NAME, str(driver.socket)), Limits(deadline=60), SystemClock(), Recorder())
    yield session
    await session.close()


@pytest.mark.parametrize(
    ("answer", "up"),
    [
        (csi.ProbeResponse(), True),
        (csi.ProbeResponse(ready=BoolValue(value=True)), True),
        (csi.ProbeResponse(ready=BoolValue(value=False)), False),
    ],
    ids=["nothing said", "ready", "not ready"],
)
async def test_a_driver_that_says_that_it_is_not_ready_is_down(
    driver: ScriptedDriver, session: DriverSession, answer: csi.ProbeResponse, up: bool
) -> None:
    await session.negotiated()
    driver.script["Probe"] = gives(answer)
    assert await session.answers() is up
    assert session.up is up
    assert (session.trouble.code == NOT_READY) is not up


async def test_closing_a_session_cancels_its_handshake(driver: ScriptedDriver, session: DriverSession) -> None:
    driver.script["GetPluginInfo"] = hangs
    asking = asyncio.create_task(session.negotiated())

    async def is_asked() -> bool:
        return any(call.endswith("GetPluginInfo") for call in driver.calls)

    await eventually(is_asked, "the driver is asked for its name")
    await session.close()
    (outcome,) = await asyncio.gather(asking, return_exceptions=True)
    assert isinstance(outcome, asyncio.CancelledError)
