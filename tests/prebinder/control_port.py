"""A control port on this machine, its client, and a scripted scheduler behind it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import aiohttp
import cbor2

from kube.clock import Clock
from prebinder.control.part import serving_control
from prebinder.control.server import CBOR
from scheduler.binding.pod_binding import Bound, Rejected, Released
from scheduler.framework.config import Configuration, parse
from scheduler.plugins.registry import REGISTRY, default_data
from scheduler.standalone.config_watch import ConfigurationInForce
from tests.fake_clock import FakeClock

LOOPBACK: Final = "127.0.0.1"
TOKEN: Final = "0123456789abcdef0123456789abcdef"
CONFIGURATION: Final = """apiVersion: config.pvc-prebinder/v1alpha1
kind: SchedulerConfiguration
profiles:
- schedulerName: ours
  scores: {BinPack: 1}
"""


class Scripted:
    """Implements prebinder.control.pod_binding_rpc.PodBinding: returns or raises what it was given."""

    def __init__(self, answer: Bound | Released | Rejected | Exception | None = None) -> None:
        self.answer = answer
        self.calls: list[tuple[str, ...]] = []

    async def bind(self, key: str, uid: str, node: str) -> Bound | Rejected:
        answer = await self._answer("bind", key, uid, node)
        assert isinstance(answer, Bound | Rejected)
        return answer

    async def unbind(self, key: str, uid: str) -> Released | Rejected:
        answer = await self._answer("unbind", key, uid)
        assert isinstance(answer, Released | Rejected)
        return answer

    async def _answer(self, *call: str) -> object:
        self.calls.append(call)
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is None:
            await asyncio.get_running_loop().create_future()
        return self.answer


def configured(text: str = CONFIGURATION) -> ConfigurationInForce:
    def read(text: str) -> Configuration:
        return parse(text, REGISTRY, default_data)

    return ConfigurationInForce(read(text), read)


class Control:
    """A running control port and a client session, with the token by default."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self.session, self.port = session, port

    async def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes, Mapping[str, str]]:
        shown = {"Authorization": f"Bearer {TOKEN}", **(headers or {})}
        async with self.session.request(
            method, f"http://{LOOPBACK}:{self.port}{path}", data=None if body is None else BytesIO(body), headers=shown
        ) as answer:
            return answer.status, await answer.read(), answer.headers

    async def post(self, body: bytes) -> tuple[int, bytes]:
        status, content, _ = await self.request("POST", "/rpc", body, {"Content-Type": CBOR})
        return status, content

    async def call(self, method: str, params: object, **others: object) -> Any:
        """Return the whole response of one call."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params, **others}
        status, content = await self.post(cbor2.dumps(request))
        assert status == 200
        return cbor2.loads(content)


@asynccontextmanager
async def controlled(
    directory: Path,
    binding: Scripted | None = None,
    configurations: ConfigurationInForce | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Control]:
    token = directory / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o600)
    bound = binding or Scripted()
    serving = serving_control((LOOPBACK, 0), token, lambda: bound, configurations or configured(), clock or FakeClock())
    async with serving as port, aiohttp.ClientSession() as session:
        yield Control(session, port)
