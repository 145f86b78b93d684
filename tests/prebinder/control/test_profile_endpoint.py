"""A profile of this process, taken over HTTP and by `pvc-prebinder dev profile`."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import pytest
from aiohttp import web

from kube.clock import SystemClock
from prebinder.cli import run
from prebinder.control.token import POLL_SECONDS
from prebinder.errors import CommandError, UsageError
from prebinder.runtime.profiling import INTERVAL_SECONDS, profiler, rendered
from tests.fake_clock import FakeClock, settle
from tests.kube.scripted_server import serving
from tests.prebinder.control_port import TOKEN, Control, controlled


def work(rounds: int) -> int:
    return sum(number % 7 for number in range(rounds))


def test_what_the_thread_does_is_seen() -> None:
    with profiler() as profile:
        end = perf_counter() + 30 * INTERVAL_SECONDS
        while perf_counter() < end:
            work(10_000)
    assert f"{work.__name__} " in rendered(profile, "text")


@pytest.mark.parametrize(
    ("query", "status", "problem"),
    [
        pytest.param("seconds=0", 400, "seconds must be 1 to 120", id="no time"),
        pytest.param("seconds=121", 400, "seconds must be 1 to 120", id="too long"),
        pytest.param("seconds=-1", 400, "seconds must be 1 to 120", id="negative"),
        pytest.param("seconds=1.5", 400, "seconds must be 1 to 120", id="a part of a second"),
        pytest.param("seconds=1e3", 400, "seconds must be 1 to 120", id="an exponent"),
        pytest.param("seconds=" + "9" * 5000, 400, "seconds must be 1 to 120", id="thousands of digits"),
        pytest.param("seconds=%D9%A3", 400, "seconds must be 1 to 120", id="digits of another script"),
        pytest.param("seconds=", 400, "seconds must be 1 to 120", id="empty"),
        pytest.param("format=svg", 400, "format must be text or html or speedscope", id="another format"),
        pytest.param("second=1", 400, 'unknown parameter "second"', id="another parameter"),
    ],
)
async def test_parameters_are_checked(query: str, status: int, problem: str, tmp_path: Path) -> None:
    async with controlled(tmp_path) as control:
        returned, content, _ = await control.request("GET", f"/debug/profile?{query}")
        assert (returned, content.decode().startswith(problem)) == (status, True), content


async def fetched_profile(control: Control, query: str) -> tuple[int, str, str]:
    status, content, headers = await control.request("GET", f"/debug/profile?{query}")
    return status, content.decode(), headers["Content-Type"]


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - neither the clock nor a thread tells
        await asyncio.sleep(0)


def profiled(clock: FakeClock) -> list[float]:
    """How long the profiles last that were begun; others look at the token meanwhile."""
    return [seconds for seconds in clock.slept if seconds != POLL_SECONDS]


async def test_one_profile_at_a_time(tmp_path: Path) -> None:
    clock = FakeClock()
    async with controlled(tmp_path, clock=clock) as control:
        first = asyncio.create_task(fetched_profile(control, "seconds=120"))
        await until(lambda: profiled(clock) == [120])
        status, content, _ = await fetched_profile(control, "seconds=1")
        assert (status, content) == (409, "another profile is running; retry when it is done\n")
        await clock.advance(120)
        status, content, kind = await first
        assert (status, kind) == (200, "text/plain; charset=utf-8")
        assert "Recorded:" in content


async def test_a_profile_ends_when_its_caller_disconnects(tmp_path: Path) -> None:
    clock = FakeClock()
    async with controlled(tmp_path, clock=clock) as control:
        first = asyncio.create_task(fetched_profile(control, "seconds=120"))
        await until(lambda: profiled(clock) == [120])
        first.cancel()
        await settle()
        second = asyncio.create_task(fetched_profile(control, "seconds=1"))
        await until(lambda: profiled(clock) == [120, 1])
        await clock.advance(1)
        assert (await second)[0] == 200


async def test_the_command_prints_what_the_process_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with controlled(tmp_path, clock=SystemClock()) as control:
        base = ["dev", "profile", "--address", f"127.0.0.1:{control.port}", "--token-file", str(tmp_path / "token")]
        for output, telling in (("text", "Recorded:"), ("html", "<html"), ("speedscope", "speedscope.app")):
            assert await asyncio.to_thread(run, [*base, "--seconds", "1", "-o", output]) == 0
            assert telling in capsys.readouterr().out
        (tmp_path / "wrong").write_text("x" * len(TOKEN))
        (tmp_path / "wrong").chmod(0o600)
        base[-1] = str(tmp_path / "wrong")
        with pytest.raises(CommandError, match=r"answered 401: .*; is --token-file its --control-token-file\?"):
            await asyncio.to_thread(run, base)


def test_the_token_is_sent_to_this_machine_only(tmp_path: Path) -> None:
    for address in ("10.0.0.1:10270", ":10270", "0", "10270"):
        with pytest.raises(UsageError, match="--address"):
            run(["dev", "profile", "--address", address, "--token-file", str(tmp_path / "token")])


def test_a_scheduler_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(
        CommandError,
        match=r"cannot connect to the scheduler at 127\.0\.0\.1:1: Connection refused; is that its --control-bind",
    ):
        run(["dev", "profile", "--address", "127.0.0.1:1", "--token-file", str(tmp_path / "token")])


@pytest.mark.parametrize("seconds", ["0", "121", "-1"])
def test_a_time_that_is_not_allowed_is_reported_before_any_request(seconds: str) -> None:
    with pytest.raises(UsageError, match=f"--seconds: expected 1 to 120, found {seconds}"):
        run(["dev", "profile", "--seconds", seconds, "--token-file", "/none"])


def test_a_missing_token_is_reported_with_the_next_step() -> None:
    with pytest.raises(
        CommandError, match="control token /none/token does not exist: run the scheduler with --control-bind"
    ):
        run(["dev", "profile", "--token-file", "/none/token"])


async def test_another_server_at_the_address_is_reported(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=404, text="<html>nothing</html>", content_type="text/html")

    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    async with serving(answer) as server:
        where = server.url.removeprefix("http://")
        flags = ["dev", "profile", "--address", where, "--token-file", str(tmp_path / "token")]
        with pytest.raises(CommandError, match="is not the control port of a scheduler: it answered 404"):
            await asyncio.to_thread(run, flags)
