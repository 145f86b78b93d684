"""Stands between a controller and the API server: counts its writes, and does to requests what networks and servers do.

It speaks TLS with the API server's own certificate, so a kubeconfig with another address is all that a client needs.
"""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from devcluster.cluster import DevCluster
from devcluster.processes.ports import LOOPBACK, free_ports
from tests.scenarios.processes.distortion import distorted_answer, distorted_event

_WRITING: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_HOP_BY_HOP: Final = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "host", "content-length", "accept-encoding"}
)
_MAX_LINE_BYTES: Final = 4 * 2**20
_numbers: Final = count(1)


@dataclass(frozen=True, slots=True)
class Call:
    """A request as it arrived."""

    method: str
    path: str
    query: str
    body: bytes

    @property
    def watches(self) -> bool:
        return self.method == "GET" and ("watch=1" in self.query or "watch=true" in self.query)

    @property
    def binds(self) -> bool:
        """Whether it writes a volume or a claim, its status included: not a Lease, an Event or a pod."""
        kind = self.path.removeprefix("/api/v1/").split("/")
        plural = kind[2] if kind[0] == "namespaces" and len(kind) > 2 else kind[0]
        return self.method in _WRITING and plural in {"persistentvolumes", "persistentvolumeclaims"}

    @property
    def writes(self) -> bool:
        return self.method in _WRITING


@dataclass(frozen=True, slots=True)
class Write:
    """A write of a volume or claim that the API server has answered. `number` counts from 1."""

    number: int
    call: Call
    status: int


@dataclass(slots=True)
class Fault:
    """What happens to the next `times` calls that it is `about`.

    `status` None: no answer at all, the connection breaks. `forwarded`: the API server gets the call, and only its
    answer is lost or replaced. `delay` in seconds comes first; a fault with `only_delay` is otherwise no fault.
    """

    about: Callable[[Call], bool]
    status: int | None = None
    reason: str = "InternalError"
    times: int = 1
    retry_after: int | None = None
    delay: float = 0.0
    only_delay: bool = False
    forwarded: bool = False
    body: bytes | None = None
    struck: list[Call] = field(default_factory=list)
    """The calls it has happened to."""


Distortion = Callable[[Call, dict[str, Any]], dict[str, Any] | None]
"""Takes a request and an object of its answer; returns what the client gets to see, None for nothing."""


class Proxy:
    """Use it as an async context manager; then hand `kubeconfig_for` to a controller.

    `after_write`, if set, is called when the API server has answered a write of a volume or claim, before the client
    hears of it; such writes then go one by one, so after the Nth there is no (N+1)th on its way. `sever` in it: nothing
    gets through any more. `forbidden` are the calls that the API server answered with 403. `distort`, if set, rewrites
    every object on its way to the client. `silent`, if set, names watches that bring nothing more: half-open ones.
    """

    def __init__(self, cluster: DevCluster) -> None:
        self._cluster = cluster
        self._certificates = cluster.directory / "certificates"
        self.address = f"https://{LOOPBACK}:{free_ports(1)[0]}"
        self.writes: list[Write] = []
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self.after_write: Callable[[Write], Awaitable[None]] | None = None
        self.forbidden: list[Call] = []
        self.distort: Distortion | None = None
        self.silent: Callable[[Call], bool] | None = None
        self._severed = False
        self._turn = asyncio.Lock()
        self._streams: set[asyncio.Transport] = set()

    async def __aenter__(self) -> Self:
        trust = ssl.create_default_context(cafile=self._certificates / "ca.crt")
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=trust, limit=0),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(),
            read_bufsize=_MAX_LINE_BYTES,
        )
        application = web.Application(client_max_size=0)
        application.router.add_route("*", "/{anything:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        serving.load_cert_chain(self._certificates / "serving.crt", self._certificates / "serving.key")
        await web.TCPSite(self._runner, LOOPBACK, int(self.address.rpartition(":")[2]), ssl_context=serving).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.sever()
        await self._runner.cleanup()
        await self._session.close()

    def kubeconfig_for(self, original: Path) -> Path:
        """Return a copy of a kubeconfig with a token, with our address in it."""
        document: dict[str, Any] = json.loads(original.read_text())
        document["clusters"][0]["cluster"]["server"] = self.address
        file = self._cluster.directory / f"proxied-{next(_numbers)}.kubeconfig"
        file.touch(mode=0o600)
        file.write_text(json.dumps(document))
        return file

    async def answered(self) -> None:
        """Wait until the write that is under way, if there is one, is answered and `after_write` is done with it.

        Others see what it wrote before that.
        """
        async with self._turn:
            pass

    def sever(self) -> None:
        """Break all connections, and each new one at its first request."""
        self._severed = True
        self.drop_watches()

    def mend(self) -> None:
        self._severed = False

    def drop_watches(self) -> None:
        """Break all watches in the middle."""
        for transport in list(self._streams):
            transport.abort()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        call = Call(request.method, request.path, request.query_string, await request.read())
        self.calls.append(call)
        if self._severed:
            return _broken(request)
        fault = next((each for each in self.faults if each.times > 0 and each.about(call)), None)
        if fault is not None:
            fault.times -= 1
            fault.struck.append(call)
            await asyncio.sleep(fault.delay)
            if not fault.only_delay:
                if fault.forwarded:
                    await self._exchange(request, call)
                return _broken(request) if fault.status is None else _answer(fault)
        try:
            return await self._stream(request, call) if call.watches else await self._exchange(request, call)
        except (aiohttp.ClientError, ConnectionError):
            return _broken(request)  # one of both sides went away

    async def _exchange(self, request: web.Request, call: Call) -> web.StreamResponse:
        if not call.binds or self.after_write is None:
            return await self._forward(request, call)
        async with self._turn:
            return _broken(request) if self._severed else await self._forward(request, call)

    async def _forward(self, request: web.Request, call: Call) -> web.StreamResponse:
        async with self._session.request(call.method, self._upstream(request), **_copied(request, call)) as answer:
            body = await answer.read()
        self._note(call, answer.status)
        if self.distort is not None and answer.status < 300:
            body = distorted_answer(partial(self.distort, call), body)
        if call.binds:
            self.writes.append(Write(len(self.writes) + 1, call, answer.status))
            if self.after_write is not None:
                await self.after_write(self.writes[-1])
        if self._severed:
            return _broken(request)
        return web.Response(status=answer.status, body=body, headers=_end_to_end(answer.headers))

    async def _stream(self, request: web.Request, call: Call) -> web.StreamResponse:
        assert isinstance(request.transport, asyncio.Transport)
        self._streams.add(request.transport)
        try:
            async with self._session.request(call.method, self._upstream(request), **_copied(request, call)) as answer:
                self._note(call, answer.status)
                response = web.StreamResponse(status=answer.status, headers=_end_to_end(answer.headers))
                await response.prepare(request)
                if self.distort is None or answer.status >= 300:
                    async for chunk in answer.content.iter_any():
                        if self.silent is None or not self.silent(call):
                            await response.write(chunk)
                else:
                    async for line in answer.content:
                        await response.write(distorted_event(partial(self.distort, call), line))
                return response
        except ConnectionResetError:
            return _broken(request)
        finally:
            self._streams.discard(request.transport)

    def _note(self, call: Call, status: int) -> None:
        if status == 403:
            self.forbidden.append(call)

    def _upstream(self, request: web.Request) -> str:
        return self._cluster.server + request.raw_path


def about(method: str, word: str) -> Callable[[Call], bool]:
    """Return a rule for faults: calls by this method ("" for any) whose path holds the word."""
    return lambda call: method in {"", call.method} and word in call.path


def writes_of(word: str) -> Callable[[Call], bool]:
    """Return a rule for faults: writes whose path holds the word."""
    return lambda call: call.writes and word in call.path


def _copied(request: web.Request, call: Call) -> dict[str, Any]:
    return {"data": call.body or None, "headers": _end_to_end(request.headers), "allow_redirects": False}


def _end_to_end(headers: Any) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP)


def _broken(request: web.Request) -> web.Response:
    """Break the connection instead of answering; what is returned is not received."""
    if isinstance(request.transport, asyncio.Transport):
        request.transport.abort()
    return web.Response(status=500)


def _answer(fault: Fault) -> web.Response:
    assert fault.status is not None
    headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
    if fault.body is not None:
        return web.Response(status=fault.status, body=fault.body, headers=headers)
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": f"injected {fault.status}",
        "reason": fault.reason,
        "code": fault.status,
    }
    return web.json_response(status, status=fault.status, headers=headers)
