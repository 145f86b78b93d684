"""Real processes, limited to 1,024 file descriptors, with 3,000 clients on each port that connect and say nothing.

Each is alive for the kubelet all the while, answers on all ports, and its log stays short.
"""

import asyncio
import resource
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from devcluster.processes.ports import LOOPBACK, free_ports
from tests.prebinder.running_extender import Party
from tests.why.view.clusters import small

DESCRIPTORS: Final = 1024
FEW_DESCRIPTORS: Final = 48
CLIENTS: Final = 3000
ROUNDS: Final = 5
ANSWER_SECONDS: Final = 10.0
"""The kubelet's default is one second; this machine may be busy with other tests."""
MAX_LOG: Final = 20_000
"""Bytes. The unreachable API server is reported in it, too."""

SILENT: Final = b""
HALF: Final = b"POST /filter HTTP/1.1\r\nHost: x\r\n"
PROMISE: Final = HALF + b"Content-Length: 4000000\r\n\r\n{"


class Flood:
    """Clients that hold connections, and connect again where they were cut off."""

    def __init__(self, ports: Sequence[int], sent: bytes) -> None:
        self._ports, self._sent = ports, sent
        self._open: dict[int, list[socket.socket]] = {port: [] for port in ports}

    async def fill(self) -> None:
        """Have all clients connected to each port, as far as it lets them."""
        for port in self._ports:
            self._open[port] = [client for client in self._open[port] if not _was_cut_off(client)]
            while len(self._open[port]) < CLIENTS:
                self._open[port].append(self._client(port))
                if len(self._open[port]) % 50 == 0:
                    await asyncio.sleep(0)

    def _client(self, port: int) -> socket.socket:
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex((LOOPBACK, port))
        if self._sent:
            with suppress(OSError):  # where the port's queue is full, this client stays silent
                client.send(self._sent)
        return client

    def close(self) -> None:
        for clients in self._open.values():
            for client in clients:
                client.close()


def _was_cut_off(client: socket.socket) -> bool:
    """Whether the server closed it; closes this end, too."""
    try:
        if client.recv(1000):
            return False  # an answer
    except BlockingIOError:
        return False
    except OSError:
        pass
    client.close()
    return True


@pytest.fixture(name="many_descriptors")
def _many_descriptors() -> None:
    """This process may hold all clients."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 3 * CLIENTS + 500
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"needs {needed} file descriptors, the hard limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))


def unreachable(directory: Path) -> str:
    """Write a kubeconfig of an API server that is not there."""
    (port,) = free_ports(1)
    path = directory / "kubeconfig"
    path.write_text(
        f"""
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "http://{LOOPBACK}:{port}"}}}}]
users: [{{name: u, user: {{}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""
    )
    return str(path)


@asynccontextmanager
async def limited(log: Path, descriptors: int, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a command that may not raise its limit of file descriptors."""
    shell = f'ulimit -Sn {descriptors} && ulimit -Hn {descriptors} && exec "$@"'
    command = ("/bin/sh", "-c", shell, "sh", sys.executable, "-m", "prebinder.cli", *arguments)
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(*command, stderr=errors)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def answered(session: aiohttp.ClientSession, url: str, timeout: aiohttp.ClientTimeout) -> int:
    async with session.get(url, headers={"Connection": "close"}, timeout=timeout) as response:
        return response.status


async def listens(process: asyncio.subprocess.Process, session: aiohttp.ClientSession, url: str) -> None:
    while True:
        assert process.returncode is None
        try:
            await answered(session, url, aiohttp.ClientTimeout(total=60))
            return
        except aiohttp.ClientConnectionError:
            await asyncio.sleep(0.05)  # it does not listen yet


@dataclass(frozen=True)
class Served:
    """A process's arguments, its ports, and pages that answer at once."""

    arguments: Sequence[str]
    ports: Sequence[int]
    pages: Sequence[str]


def served(command: str, flag: str, page: str, directory: Path, *more: str) -> Served:
    """Return a command with probes, metrics and one more port, which `flag` sets."""
    probes, metrics, other = (f"{LOOPBACK}:{port}" for port in free_ports(3))
    arguments = [command, f"--health-bind-address={probes}", f"--metrics-bind-address={metrics}", f"{flag}={other}"]
    scheme, path = page.split("/")
    pages = [f"http://{probes}/livez", f"http://{metrics}/metrics", f"{scheme}://{other}/{path}"]
    ports = [int(address.rpartition(":")[2]) for address in (probes, metrics, other)]
    return Served([*arguments, "--kubeconfig", unreachable(directory), *more], ports, pages)


def controller(directory: Path, party: Party) -> Served:
    return served("controller", "--extender-bind-address", "http/filter", directory)


def extender(directory: Path, party: Party) -> Served:
    pair = (f"--tls-cert-file={party.server.certificate}", f"--tls-key-file={party.server.key}")
    return served("extender", "--bind-address", "https/filter", directory, *pair)


def scheduler(directory: Path, party: Party) -> Served:
    token = f"--control-token-file={directory / 'token'}"
    return served("scheduler", "--control-bind-address", "http/config", directory, "--name=other", token)


def view(directory: Path, party: Party) -> Served:
    probes, port = free_ports(2)
    flags = (f"--port={port}", f"--health-bind-address={LOOPBACK}:{probes}")
    arguments = ("why", "--serve", *flags, "-f", small().dump(directory / "dump.json"))
    return Served(arguments, (probes, port), (f"http://{LOOPBACK}:{probes}/livez", f"http://{LOOPBACK}:{port}/"))


@pytest.mark.usefixtures("many_descriptors")
@pytest.mark.parametrize(
    ("command", "sent", "descriptors"),
    [
        pytest.param(controller, SILENT, DESCRIPTORS, id="the controller, silent clients"),
        pytest.param(controller, HALF, DESCRIPTORS, id="the controller, half a request head"),
        pytest.param(controller, PROMISE, DESCRIPTORS, id="the controller, a body that does not come"),
        pytest.param(controller, SILENT, FEW_DESCRIPTORS, id="the controller, no descriptor left to accept with"),
        pytest.param(extender, SILENT, DESCRIPTORS, id="the extender, handshakes that never end"),
        pytest.param(scheduler, SILENT, DESCRIPTORS, id="the scheduler, silent clients"),
        pytest.param(view, SILENT, DESCRIPTORS, id="the page, silent clients"),
    ],
)
async def test_idle_clients_do_not_take_a_process_down(
    tmp_path: Path, command: Callable[[Path, Party], Served], sent: bytes, descriptors: int
) -> None:
    party = Party(tmp_path / "tls")
    process_of, log = command(tmp_path, party), tmp_path / "log"
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
    connector = aiohttp.TCPConnector(ssl=party.trust(shows=None))
    async with (
        limited(log, descriptors, *process_of.arguments) as process,
        aiohttp.ClientSession(connector=connector) as web,
    ):
        for page in process_of.pages:
            await listens(process, web, page)
        with closing(Flood(process_of.ports, sent)) as flood:
            for _ in range(ROUNDS):
                await flood.fill()
                for page in process_of.pages:
                    assert await answered(web, page, timeout) > 0, page
        assert process.returncode is None
    assert log.stat().st_size < MAX_LOG, log.read_text()[:2000]
