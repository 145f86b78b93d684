"""Forwards connections between the network of the machine and that of a node, over unix sockets.

A unix socket is found by its path, whatever network namespace it was made in. So two of these processes, one in each
network, are all that joins them: the machine needs no address, route or firewall rule for the node. Runs with nothing
but the standard library.

    relay.py outside SOCKET HOST PORT                  from the node's processes to the API server
    relay.py inside SOCKET HOST PORT CONNECT_SOCKET    the other end of that, and HTTP CONNECT for the API server
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

_CHUNK = 2**16
_CONNECT_SECONDS = 10.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial = Callable[[], Awaitable[Streams]]


async def outside(socket: str, host: str, port: int) -> None:
    """Forward connections to the socket to an address of the machine; never returns."""
    await _forever(await asyncio.start_unix_server(_forwarding(lambda: asyncio.open_connection(host, port)), socket))


async def inside(socket: str, host: str, port: int, connect_socket: str) -> None:
    """Forward connections to an address of the node to the socket, and serve HTTP CONNECT on the other socket."""
    to_machine = _forwarding(lambda: asyncio.open_unix_connection(socket))
    servers = (
        await asyncio.start_server(to_machine, host, port),
        await asyncio.start_unix_server(_tunnel, connect_socket),
    )
    await asyncio.gather(*map(_forever, servers))


def _forwarding(dial: Dial) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _joined((reader, writer), dial, greeting=b"")

    return forward


async def _tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one `CONNECT host:port`, as sent by an API server with an egress selector."""
    head = b""
    with suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
        head = await reader.readuntil(b"\r\n\r\n")
    method, _, rest = head.decode("latin-1").partition(" ")
    host, _, port = rest.partition(" ")[0].rpartition(":")
    if method != "CONNECT" or not port.isdecimal():
        writer.close()
        return
    address = host.strip("[]")
    await _joined(
        (reader, writer), lambda: asyncio.open_connection(address, int(port)), b"HTTP/1.1 200 Connected\r\n\r\n"
    )


async def _joined(near: Streams, dial: Dial, greeting: bytes) -> None:
    """Copy both ways until both ends are done; a far end that cannot be reached closes the near one."""
    reader, writer = near
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            far_reader, far_writer = await dial()
    except OSError:  # TimeoutError is one
        writer.close()
        return
    writer.write(greeting)
    try:
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
    except OSError:
        pass
    finally:
        writer.close()
        far_writer.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while chunk := await source.read(_CHUNK):
        target.write(chunk)
        await target.drain()
    if target.can_write_eof():
        target.write_eof()


async def _forever(server: asyncio.Server) -> None:
    async with server:
        await server.serve_forever()


def main(arguments: Sequence[str]) -> None:
    side, socket, host, port, *others = arguments
    for path in (socket, *others):
        # Left by a killed predecessor; the socket of the other side must not be removed here.
        if path != socket or side == "outside":
            Path(path).unlink(missing_ok=True)
    asyncio.run(outside(socket, host, int(port)) if side == "outside" else inside(socket, host, int(port), others[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
