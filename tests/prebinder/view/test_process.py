"""`why --serve` as a command: where it says to look, what it rejects, and that it ends on a signal."""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from prebinder.cli import main
from prebinder.command_line.cluster_access import ClusterAccess
from prebinder.errors import CommandError
from prebinder.view.process import Page, show
from prebinder.view.serving import Serving
from tests.why.view.clusters import small

COMMAND = (sys.executable, "-m", "prebinder.cli", "why", "--serve", "--port=0")


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Start the command, and give the address that it prints."""
    process = await asyncio.create_subprocess_exec(*COMMAND, *arguments, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    try:
        line = (await process.stderr.readline()).decode()
        assert line.startswith("Open http://127.0.0.1:"), line
        yield process, line.split()[1]
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_it_says_where_to_look_and_ends_on_a_signal(tmp_path: Path) -> None:
    dump = small().dump(tmp_path / "dump.json")
    async with running("-f", dump, "pod/orders-0", "-n", "shop") as (process, address):
        assert address.endswith("/#/pod/shop/orders-0")
        async with aiohttp.ClientSession() as session, session.get(address.partition("#")[0]) as response:
            assert response.status == 200
            assert "<title>" in await response.text()
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    dump = small().dump(tmp_path / "dump.json")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(CommandError, match="choose another port with --port"):
            await show(ClusterAccess(), Page((), "", (dump,)), Serving(port))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(["--watch"], "leave out --watch", id="watch"),
        pytest.param(["-o", "json"], "leave out --watch, --selector and --output", id="output"),
        pytest.param(["-l", "app=web"], "leave out --watch, --selector and --output", id="selector"),
        pytest.param(["--port", "70000"], "expected a whole number from 0 to 65535", id="port"),
        pytest.param(["--caller-token", "-f", "x"], "leave out --filename", id="a file has no callers"),
    ],
)
def test_what_does_not_go_together(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "--serve", *arguments]) == 2
    assert complaint in capsys.readouterr().err
