"""A real node as far as no node is needed: its configuration, what is missing, and the two ends of its relay."""

import asyncio
import io
import json
import sys
import tarfile
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest

from devcluster.control_plane.components import Layout, Options, Ports, apiserver, controller_manager
from devcluster.credentials.certificates import Authority
from devcluster.driver import registration
from devcluster.driver.publishing import Links
from devcluster.errors import ClusterError
from devcluster.node import archive, files, prerequisites, relay


@pytest.mark.parametrize(
    ("platform", "user", "present", "message"),
    [
        ("darwin", 0, {"runc", "ip"}, "needs Linux; this is darwin"),
        ("linux", 1000, {"runc", "ip"}, "needs root"),
        ("linux", 0, {"ip"}, "needs runc on PATH; on Debian: apt-get install runc"),
        ("linux", 0, set(), "needs runc, ip on PATH; on Debian: apt-get install iproute2 runc"),
    ],
)
def test_what_is_missing_is_reported_in_one_line(platform: str, user: int, present: set[str], message: str) -> None:
    programs = {"runc": "runc", "ip": "iproute2"}
    with pytest.raises(ClusterError, match=message) as error:
        prerequisites.require(programs, platform, user, lambda name: name if name in present else None)
    assert "\n" not in str(error.value)


def test_nothing_is_missing_where_all_is_there() -> None:
    prerequisites.require({"runc": "runc"}, "linux", 0, str)


@pytest.fixture
def node(tmp_path: Path) -> files.NodeFiles:
    names = ("kubelet", "containerd", "ctr", "bridge")
    node = files.NodeFiles(tmp_path / "node", {name: tmp_path / "programs" / name for name in names}, "group")
    files.write(node, sys.executable, Authority(tmp_path, datetime.now(UTC)))
    return node


def test_the_files_of_the_node_are_written(node: files.NodeFiles) -> None:
    plan = json.loads(node.plan.read_text())
    assert plan["directory"] == str(node.directory)
    assert f"--config={node.directory / 'kubelet.yaml'}" in plan["kubelet"]
    kubelet = json.loads((node.directory / "kubelet.yaml").read_text())
    assert kubelet["cgroupRoot"] == "/group"
    assert kubelet["containerRuntimeEndpoint"] == f"unix://{node.containerd_socket}"
    assert str(node.containerd_socket) in (node.directory / "containerd.toml").read_text()


def test_the_kubelet_reaches_the_api_server_at_the_address_of_the_service(node: files.NodeFiles) -> None:
    kubeconfig = json.loads((node.directory / "kubelet.kubeconfig").read_text())
    assert kubeconfig["clusters"][0]["cluster"]["server"] == "https://10.0.0.1:443"


def test_a_real_node_is_made_ready_and_watched(tmp_path: Path) -> None:
    keys = Authority(tmp_path, datetime.now(UTC)).client("admin")
    binaries = dict.fromkeys(("kube-apiserver", "kube-controller-manager"), tmp_path / "program")
    layout = Layout(binaries, tmp_path, Ports(1, 2, 3, 4, 5, 6), tmp_path / "ca.crt", keys, keys.key)
    options = Options(kwok=False, real_node=True)
    flags = apiserver(layout, options)
    assert "--disable-admission-plugins=TaintNodesByCondition" not in flags
    assert "--controllers=*,-node-lifecycle-controller" not in controller_manager(layout, options)
    assert f"--egress-selector-config-file={tmp_path / 'node' / 'egress.yaml'}" in flags


def test_an_image_of_one_program_is_an_archive_as_docker_saves_it(tmp_path: Path) -> None:
    program = tmp_path / "pause"
    program.write_bytes(b"program")
    archive.write(tmp_path / "image.tar", "example/pause:1", program)
    with tarfile.open(tmp_path / "image.tar") as image:
        (manifest,) = json.loads(content_of(image, "manifest.json"))
        configuration = json.loads(content_of(image, manifest["Config"]))
        with tarfile.open(fileobj=io.BytesIO(content_of(image, manifest["Layers"][0]))) as layer:
            assert content_of(layer, configuration["config"]["Entrypoint"][0].removeprefix("/")) == b"program"
    assert manifest["RepoTags"] == ["example/pause:1"]


def content_of(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    assert file is not None
    return file.read()


@pytest.fixture
def sockets(tmp_path: Path) -> tuple[str, str]:
    return str(tmp_path / "server.sock"), str(tmp_path / "connect.sock")


@asynccontextmanager
async def echo() -> AsyncIterator[int]:
    """Serve an echo that ends a connection when the other end has said all; yield its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"echo: " + await reader.read())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def running(*sides: Coroutine[None, None, None]) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(side) for side in sides]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def opened(path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with asyncio.timeout(10):
        while True:
            try:
                return await asyncio.open_unix_connection(path)
            except OSError:
                await asyncio.sleep(0.01)


async def test_the_relay_carries_both_ways_and_closes_each_end_with_the_other(sockets: tuple[str, str]) -> None:
    async with echo() as port, running(relay.outside(sockets[0], "127.0.0.1", port)):
        reader, writer = await opened(sockets[0])
        writer.write(b"hello")
        writer.write_eof()
        assert await reader.read() == b"echo: hello"
        writer.close()


async def test_the_api_server_connects_to_addresses_of_the_node(sockets: tuple[str, str]) -> None:
    async with echo() as port, running(relay.inside(sockets[0], "127.0.0.1", 0, sockets[1])):
        reader, writer = await opened(sockets[1])
        writer.write(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connected\r\n\r\n"
        writer.write(b"hello")
        writer.write_eof()
        assert await reader.read() == b"echo: hello"
        writer.close()


@pytest.mark.parametrize("request_line", ["GET / HTTP/1.1", "CONNECT nowhere HTTP/1.1", ""])
async def test_anything_but_connect_is_hung_up_on(sockets: tuple[str, str], request_line: str) -> None:
    async with running(relay.inside(sockets[0], "127.0.0.1", 0, sockets[1])):
        reader, writer = await opened(sockets[1])
        writer.write(f"{request_line}\r\n\r\n".encode())
        assert await reader.read() == b""
        writer.close()


async def test_a_peer_without_a_listener_is_hung_up_on(sockets: tuple[str, str]) -> None:
    async with running(relay.outside(sockets[0], "127.0.0.1", 1)):
        reader, writer = await opened(sockets[0])
        assert await reader.read() == b""
        writer.close()


async def test_the_driver_registers_with_the_kubelet(tmp_path: Path) -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((registration.service("csi.example", "/plugins/csi.sock"),))
    server.add_insecure_port(f"unix://{tmp_path}/reg.sock")
    await server.start()
    async with grpc.aio.insecure_channel(f"unix://{tmp_path}/reg.sock") as channel:
        answer = await called(channel, "GetInfo", b"")
        accepted = await called(channel, "NotifyRegistrationStatus", b"\x08\x01")
    await server.stop(None)
    # Field 1 type, 2 name, 3 endpoint, 4 version, as the kubelet decodes them.
    assert answer == b'\n\tCSIPlugin\x12\x0bcsi.example\x1a\x11/plugins/csi.sock"\x051.0.0'
    assert accepted == b""


async def called(channel: grpc.aio.Channel, method: str, request: bytes) -> bytes:
    call: Any = channel.unary_unary(f"/pluginregistration.Registration/{method}", bytes, bytes)
    answer: bytes = await call(request)
    return answer


def test_a_link_is_never_read_only(tmp_path: Path) -> None:
    assert Links().publish(tmp_path, tmp_path / "target", True) == "a link cannot be made read-only"
