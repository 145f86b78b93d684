"""The network between a client and the API server does what a schedule asks of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from random import Random

import pytest_asyncio

from devcluster.processes.ports import LOOPBACK
from soak.stage.network import Network, network_to

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
SECONDS = 10.0


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()
    writer.transport.abort()


@pytest_asyncio.fixture
async def network() -> AsyncIterator[Network]:
    server = await asyncio.start_server(echo, LOOPBACK, 0)
    port = server.sockets[0].getsockname()[1]
    async with network_to(f"https://{LOOPBACK}:{port}") as network:
        yield network
    server.close()


class Clients:
    """Connections to a network, closed at the end."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> Connection:
        connection = await asyncio.open_connection(LOOPBACK, self._network.port)
        self._writers.append(connection[1])
        return connection

    async def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()


@pytest_asyncio.fixture
async def clients(network: Network) -> AsyncIterator[Clients]:
    clients = Clients(network)
    yield clients
    await clients.close()


async def answered(connection: Connection, word: bytes = b"hello\n") -> bytes:
    """Say something; return what comes back, nothing if the connection breaks."""
    reader, writer = connection
    try:
        writer.write(word)
        await writer.drain()
        async with asyncio.timeout(SECONDS):
            return await reader.readline()
    except ConnectionError:
        return b""


async def test_bytes_pass_both_ways(clients: Clients) -> None:
    assert await answered(await clients.connect()) == b"hello\n"


async def test_late_bytes_come_in_order(network: Network, clients: Clients) -> None:
    connection = await clients.connect()
    network.delay = 0.05
    connection[1].write(b"first\n")
    network.delay = 0.0
    assert await answered(connection, b"second\n") == b"first\n"
    assert await connection[0].readline() == b"second\n"


async def test_a_lagging_network_loses_nothing(network: Network, clients: Clients) -> None:
    connections = [await clients.connect() for _ in range(4)]
    assert [await answered(each) for each in connections] == [b"hello\n"] * 4
    network.lag(Random(1))
    assert await asyncio.gather(*map(answered, connections)) == [b"hello\n"] * 4


async def test_a_cut_breaks_what_is_open_and_nothing_else(network: Network, clients: Clients) -> None:
    connection = await clients.connect()
    assert await answered(connection) == b"hello\n"
    network.cut()
    assert await answered(connection) == b""
    assert await answered(await clients.connect()) == b"hello\n"


async def test_what_is_sent_during_silence_is_never_delivered(network: Network, clients: Clients) -> None:
    connection = await clients.connect()
    assert await answered(connection) == b"hello\n"
    network.fall_silent()
    waiting = asyncio.create_task(answered(connection))
    done, _ = await asyncio.wait({waiting}, timeout=0.2)
    assert not done
    network.recover()
    assert await waiting == b""
    assert await answered(await clients.connect()) == b"hello\n"


async def test_a_server_that_is_away_is_a_broken_connection() -> None:
    async with network_to(f"https://{LOOPBACK}:1") as network:
        clients = Clients(network)
        assert await answered(await clients.connect()) == b""
        await clients.close()
