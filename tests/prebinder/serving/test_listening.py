"""What every server of ours does about clients that send nothing, too slowly, no HTTP, or come in great numbers."""

import asyncio
import os
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web

from prebinder.serving.connections import MAX_CONNECTIONS, ConnectionLimits, limits_of_process
from prebinder.serving.listening import listen
from tests.prebinder.running_extender import Party

LOOPBACK = "127.0.0.1"
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
HOURS = 10_000.0
SOON = 0.05


async def answer(_: web.Request) -> web.Response:
    return web.Response(text="here")


async def read(request: web.Request) -> web.Response:
    return web.Response(body=await request.read())


@asynccontextmanager
async def server(limits: ConnectionLimits, certificate: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    application = web.Application()
    application.add_routes([web.get("/", answer), web.post("/", read)])
    async with AsyncExitStack() as stack:
        yield await listen(stack, application, (LOOPBACK, 0), certificate, limits)


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def answers(self, sent: bytes = REQUEST) -> bool:
        """Send a request and wait for the answer; False if there is none because the connection was closed."""
        self._writer.write(sent)
        try:
            async with asyncio.timeout(60):
                head = await self._reader.readuntil(b"\r\n\r\n")
                await self._reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        return True

    async def closed(self) -> None:
        """Wait until the server has closed it."""
        async with asyncio.timeout(60):
            with suppress(ConnectionResetError):
                assert await self._reader.read() == b""

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    def close(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def clients(port: int, count: int) -> AsyncIterator[list[Client]]:
    connected: list[Client] = []
    try:
        for _ in range(count):
            connected.append(Client(*await asyncio.open_connection(LOOPBACK, port)))
        yield connected
    finally:
        for client in connected:
            client.close()


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n"], ids=["nothing", "line", "header"]
)
async def test_a_connection_without_a_request_is_closed(sent: bytes) -> None:
    async with server(ConnectionLimits(9, head_seconds=SOON, idle_seconds=HOURS)) as port, clients(port, 1) as [client]:
        client.send(sent)
        await client.closed()


async def test_a_second_head_that_does_not_end_closes_the_connection() -> None:
    async with server(ConnectionLimits(9, head_seconds=0.5, idle_seconds=HOURS)) as port, clients(port, 1) as [client]:
        assert await client.answers()
        client.send(REQUEST[:-2])
        await client.closed()


async def test_between_two_requests_a_connection_may_wait_longer() -> None:
    async with server(ConnectionLimits(9, head_seconds=HOURS, idle_seconds=SOON)) as port, clients(port, 1) as [client]:
        assert await client.answers()
        await client.closed()


async def test_a_handshake_that_does_not_end_closes_the_connection(tmp_path: Path) -> None:
    pair = Party(tmp_path / "tls").server
    certificate = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.load_cert_chain(pair.certificate, pair.key)
    limits = ConnectionLimits(9, head_seconds=SOON, idle_seconds=HOURS)
    async with server(limits, certificate) as port, clients(port, 1) as [client]:
        await client.closed()


async def test_a_malformed_request_is_answered_and_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    async with server(ConnectionLimits(9)) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(b"GET /\x01 HTTP/1.1\r\n\r\n")
        assert b" 400 " in await reader.readline()
        writer.close()
    assert not caplog.records


PLACES = 4
NO_HURRY = ConnectionLimits(PLACES, head_seconds=HOURS, idle_seconds=HOURS)


async def test_the_newest_client_is_served_and_the_oldest_silent_one_closed(caplog: pytest.LogCaptureFixture) -> None:
    async with server(NO_HURRY) as port, clients(port, 2 * PLACES) as connected:
        assert await connected[-1].answers()
        for client in connected[:PLACES]:
            await client.closed()
        assert [await client.answers() for client in connected[PLACES:]] == [True] * PLACES
    assert [record.message for record in caplog.records] == ["Too many connections: closing those that wait"]


async def test_whoever_has_had_a_request_stays_while_others_have_half_of_the_places() -> None:
    async with server(NO_HURRY) as port, clients(port, PLACES // 2) as known:
        assert all([await client.answers() for client in known])
        async with clients(port, 3 * PLACES) as newcomers:
            assert await newcomers[-1].answers()
            assert all([await client.answers() for client in known])


async def test_whoever_has_had_a_request_does_not_keep_others_out() -> None:
    async with server(NO_HURRY) as port, clients(port, PLACES) as known:
        assert all([await client.answers() for client in known])
        async with clients(port, 2) as newcomers:
            assert all([await client.answers() for client in newcomers])
            await known[0].closed()


async def test_a_body_that_does_not_come_keeps_no_place(caplog: pytest.LogCaptureFixture) -> None:
    async with server(NO_HURRY) as port, clients(port, PLACES) as promising:
        for client in promising:
            client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1")
        for _ in range(PLACES):
            async with clients(port, 1) as [newcomer]:
                assert await newcomer.answers()
    assert [record.message for record in caplog.records] == ["Too many connections: closing those that wait"]


async def test_whoever_is_being_answered_is_not_closed() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        asked.set()
        await go_on.wait()
        return web.Response(text="at last")

    application = web.Application()
    application.add_routes([web.get("/", slow)])
    async with AsyncExitStack() as stack:
        port = await listen(stack, application, (LOOPBACK, 0), None, ConnectionLimits(1, HOURS, HOURS))
        async with clients(port, 1) as [client]:
            waiting = asyncio.ensure_future(client.answers())
            await asked.wait()
            async with clients(port, 1) as [other]:
                await other.closed()
            go_on.set()
            assert await waiting


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_without_a_descriptor_it_says_so_once_and_accepts_later(caplog: pytest.LogCaptureFixture) -> None:
    async with server(NO_HURRY) as port:
        with socket.create_connection((LOOPBACK, port)) as connection:
            with no_descriptor_left():
                async with asyncio.timeout(60):
                    while not caplog.records:  # noqa: ASYNC110 - only the log tells
                        await asyncio.sleep(0)
            connection.setblocking(False)
            client = Client(*await asyncio.open_connection(sock=connection.dup()))
            assert await client.answers()
            client.close()
    assert ["Too many open files" in str(vars(record)["reason"]) for record in caplog.records] == [True]


@pytest.mark.parametrize(("descriptors", "places"), [(1_000_000, MAX_CONNECTIONS), (400, 100)], ids=["many", "few"])
def test_a_listener_takes_a_quarter_of_the_descriptors_at_most(descriptors: int, places: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        descriptors = min(descriptors, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, hard))
    try:
        assert limits_of_process().connections == places
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
