"""The gateway breaks writes as a schedule asks, and passes on what it does not break."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from devcluster.credentials.certificates import Authority
from devcluster.processes.ports import LOOPBACK
from soak.stage.gateway import DELAY, FAIL, LOSE, REJECT, VANISH, Gateway, gateway_to

ALL = "0.1"
"""A seed whose first draws are below the share of writes that are affected."""


class Server:
    """Counts the writes that took effect."""

    def __init__(self) -> None:
        self.written: list[str] = []

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "GET":
            return web.json_response({"seen": request.raw_path, "by": request.headers.get("Authorization")})
        self.written.append((await request.read()).decode())
        return web.json_response({"written": True})


class Scene:
    """A server, the gateway to it, and a client that trusts the gateway's certificate."""

    def __init__(self, server: Server, gateway: Gateway, trust: ssl.SSLContext) -> None:
        self.server, self.gateway, self._trust = server, gateway, trust

    async def write(self, body: str = "x") -> int:
        """Return the status of the answer, 0 if there is none."""
        return await self._ask("PATCH", body)

    async def read(self) -> int:
        return await self._ask("GET", "")

    async def _ask(self, method: str, body: str) -> int:
        url = f"{self.gateway.address}/api/v1/pods/a%2Fb?x=1"
        connector = aiohttp.TCPConnector(ssl=self._trust)
        try:
            async with (
                aiohttp.ClientSession(connector=connector, headers={"Authorization": "Bearer t"}) as session,
                session.request(method, url, data=body) as answer,
            ):
                if method == "GET":
                    assert await answer.json() == {"seen": "/api/v1/pods/a%2Fb?x=1", "by": "Bearer t"}
                return answer.status
        except aiohttp.ClientError:
            return 0


@pytest_asyncio.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    authority = Authority(tmp_path, datetime.now(UTC))
    pair = authority.serving("serving")
    identity = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    identity.load_cert_chain(pair.certificate, pair.key)
    server = Server()
    listener = await asyncio.get_running_loop().create_server(web.Server(server.serve), LOOPBACK, 0, ssl=identity)
    address = f"https://{LOOPBACK}:{listener.sockets[0].getsockname()[1]}"
    trust = ssl.create_default_context(cafile=tmp_path / "ca.crt")
    async with gateway_to(address, trust, pair.certificate, pair.key) as gateway:
        yield Scene(server, gateway, trust)
    listener.close()


async def test_requests_pass_as_they_are(scene: Scene) -> None:
    assert await scene.write("hello") == 200
    assert await scene.read() == 200
    assert scene.server.written == ["hello"]


@pytest.mark.parametrize(
    ("mood", "status", "written"),
    [(LOSE, 0, ["x"]), (FAIL, 500, ["x"]), (DELAY, 200, ["x"]), (REJECT, 500, []), (VANISH, 0, ["x"])],
)
async def test_a_write_is_broken_and_the_next_after_recovery_is_not(
    scene: Scene, mood: str, status: int, written: list[str]
) -> None:
    scene.gateway.begin(mood, ALL, 0.01)
    assert await scene.write() == status
    assert scene.server.written == written
    assert scene.gateway.broken == 1
    scene.gateway.recover()
    assert await scene.write() == 200


async def test_after_a_write_that_took_effect_nothing_is_answered(scene: Scene) -> None:
    scene.gateway.begin(VANISH, ALL)
    assert await scene.write() == 0
    assert await scene.read() == 0
    assert await scene.write() == 0
    assert scene.server.written == ["x"]
    scene.gateway.recover()
    assert await scene.read() == 200


@pytest.mark.parametrize("mood", [LOSE, FAIL, DELAY, REJECT])
async def test_reads_are_not_broken(scene: Scene, mood: str) -> None:
    scene.gateway.begin(mood, ALL)
    assert await scene.read() == 200


async def test_some_writes_pass(scene: Scene) -> None:
    scene.gateway.begin(REJECT, ALL)
    assert {await scene.write() for _ in range(30)} == {200, 500}
