"""A hostile CSI driver as a process of its own: `python -m bench.hostile.csi_driver --socket PATH --name NAME --kind
KIND`. Without a kind it is a good driver, all of whose volumes are healthy.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import grpc

from bench.hostile.driver_kinds import KINDS, Answer, Kind, good
from csi.client.endpoint import Endpoint
from devcluster.processes.probes import accepts

START_SECONDS: Final = 60.0
_OPTIONS: Final = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", 2**24),
    ("grpc.absolute_max_metadata_size", 2**25),
)


class _Everything(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in the stubs only
    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self._answers = answers

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        answer = self._answers.get(handler_call_details.method.rpartition("/")[2])
        return None if answer is None else grpc.unary_unary_rpc_method_handler(answer)


async def serve(socket: str, name: str, kind: Kind) -> None:
    """Serve until cancelled."""
    behind = f"{socket}.behind" if kind.drip or kind.cut or kind.flood else socket
    server = grpc.server(ThreadPoolExecutor(32), options=_OPTIONS, compression=kind.compression)
    server.add_generic_rpc_handlers((_Everything({**good(name, kind.rpcs), **kind.answers}),))
    server.add_insecure_port(f"unix://{behind}")
    server.start()
    if behind != socket:
        await asyncio.start_unix_server(_disturbed(behind, kind), socket)
    await asyncio.Event().wait()


def _disturbed(behind: str, kind: Kind) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
    """Return a proxy that passes everything to the driver, and little or nothing of it back."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if kind.flood:
            await _flood(writer)
        other_reader, other_writer = await asyncio.open_unix_connection(behind)
        there = asyncio.create_task(_pass_on(reader, other_writer))
        await _pass(other_reader, writer, kind.drip, kind.cut)
        there.cancel()
        writer.close()
        other_writer.close()

    async def contained(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await connected(reader, writer)
        except OSError:
            writer.close()

    return contained


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        await _pass(reader, writer, 0, 0)


async def _flood(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(os.urandom(65536))
        await writer.drain()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, drip: int, cut: int) -> None:
    passed = 0
    while part := await reader.read(max(1, drip // 100) if drip else 65536):
        writer.write(part)
        await writer.drain()
        passed += len(part)
        if cut and passed >= cut:
            return
        if drip:
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(directory: Path, name: str, kind: str = "") -> AsyncIterator[Endpoint]:
    """Run a driver of that kind as a process while inside; yields its endpoint."""
    socket = directory / f"{name}.sock"
    command = [sys.executable, "-m", "bench.hostile.csi_driver", "--socket", str(socket), "--name", name]
    process = await asyncio.create_subprocess_exec(*command, "--kind", kind)
    try:
        async with asyncio.timeout(START_SECONDS):
            while not await accepts(str(socket)):  # noqa: ASYNC110 - another process cannot set an event
                await asyncio.sleep(0.05)
        yield Endpoint(name, str(socket))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--kind", default="", choices=["", *KINDS])
    chosen = parser.parse_args()
    asyncio.run(serve(chosen.socket, chosen.name, KINDS.get(chosen.kind) or Kind()))


if __name__ == "__main__":
    main()
