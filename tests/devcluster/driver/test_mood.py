"""A driver that misbehaves while a file says so, and answers as it should before and after."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from csi.client.channel import Limits
from csi.drivers import Drivers
from csi.health.verdict import Verdict
from devcluster.driver.volumes import create_volume
from kube.clock import SystemClock
from tests.csi.observers import Recorder
from tests.driver_process import DriverProcess

NAME, NOW = "moody.csi.example", timedelta()


@pytest.fixture
def mood(tmp_path: Path) -> Path:
    return tmp_path / "mood"


@pytest.fixture
async def drivers(tmp_path: Path, mood: Path) -> AsyncIterator[Drivers]:
    async with DriverProcess(tmp_path, NAME, "--mood", str(mood)) as process:
        create_volume(process.root, "v", 1024)
        drivers = Drivers([process.endpoint], SystemClock(), Recorder(), Limits(deadline=2))
        yield drivers
        await drivers.close()


def write(mood: Path, word: str) -> None:
    mood.write_text(word, encoding="ascii")


async def probe(drivers: Drivers) -> Verdict:
    return await drivers.verdict(NAME, "v", NOW)


@pytest.mark.parametrize(("word", "reason"), [("hang", "DeadlineExceeded"), ("flood", "AnswerTooLarge")])
async def test_it_reports_nothing_while_it_misbehaves(drivers: Drivers, mood: Path, word: str, reason: str) -> None:
    assert (await probe(drivers)).state == "Healthy"
    write(mood, word)
    verdict = await probe(drivers)
    assert (verdict.state, verdict.reason) == ("Unknown", reason)
    write(mood, "")
    assert (await probe(drivers)).state == "Healthy"


async def test_it_lies_about_some_volumes_now_and_then(drivers: Drivers, mood: Path) -> None:
    write(mood, "lie")
    verdicts = [await probe(drivers) for _ in range(40)]
    assert {str(verdict.state) for verdict in verdicts} == {"Healthy", "Degraded"}
    assert {verdict.topology for verdict in verdicts if verdict.state == "Healthy"} == {()}


async def test_an_unknown_mood_is_none(drivers: Drivers, mood: Path) -> None:
    write(mood, "merry")
    assert (await probe(drivers)).state == "Healthy"
