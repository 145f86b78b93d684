"""What every server of ours does about clients that send nothing, or no HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from aiohttp import web

from prebinder.serving import listening
from prebinder.serving.listening import listen, runner_of

LOOPBACK = "127.0.0.1"


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """Of a server that waits for a request only for a moment."""
    monkeypatch.setattr(listening, "IDLE_SECONDS", 0.05)
    async with AsyncExitStack() as stack:
        yield await listen(stack, runner_of(web.Application()), LOOPBACK, 0)


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n"], ids=["nothing", "line", "header"]
)
async def test_a_connection_without_a_request_is_closed(port: int, sent: bytes) -> None:
    """aiohttp keeps it for an hour; some thousands would take all the memory, or all file descriptors."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(sent)
    async with asyncio.timeout(60):
        assert await reader.read() == b""
    writer.close()


async def test_a_malformed_request_is_answered_and_fills_no_log(port: int, caplog: pytest.LogCaptureFixture) -> None:
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(b"GET /\x01 HTTP/1.1\r\n\r\n")
    assert b" 400 " in await reader.readline()
    writer.close()
    assert not caplog.records
