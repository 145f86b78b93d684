"""An extender on a port of this machine, and its client."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import aiohttp
from prometheus_client import CollectorRegistry

from devcluster.credentials.certificates import Authority, KeyPair
from prebinder.extender.server import RECHECK_SECONDS, Answers, ExtenderServer, Listening
from prebinder.metrics.extender import ExtenderMetrics
from prebinder.serving.health_server import Check
from prebinder.serving.serving_certificate import ServingCertificate
from tests.fake_clock import FakeClock

LOOPBACK = "127.0.0.1"


class Counts(ExtenderMetrics):
    """Keeps the requests one by one as well."""

    def __init__(self) -> None:
        super().__init__(CollectorRegistry())
        self.inflight = 0
        self.codes: list[tuple[str, int]] = []
        self.nodes: list[tuple[str, int, int]] = []
        self.some_began, self.some_ended = asyncio.Event(), asyncio.Event()

    def began(self, verb: str) -> None:
        super().began(verb)
        self.inflight += 1
        self.some_began.set()

    def answered(self, verb: str, code: int, seconds: float) -> None:
        super().answered(verb, code, seconds)
        self.inflight -= 1
        self.codes.append((verb, code))
        self.some_ended.set()

    def looked_at(self, verb: str, nodes_in: int, nodes_out: int) -> None:
        super().looked_at(verb, nodes_in, nodes_out)
        self.nodes.append((verb, nodes_in, nodes_out))


class RunningExtender:
    """A running extender and a client session. `clock` is the extender's."""

    def __init__(self, session: aiohttp.ClientSession, port: int, counts: Counts, clock: FakeClock) -> None:
        self.session, self.port, self.counts, self.clock = session, port, counts, clock

    async def post(self, verb: str, body: bytes, **headers: str) -> tuple[int, bytes]:
        url = f"http://{LOOPBACK}:{self.port}/{verb}"
        async with self.session.post(url, data=BytesIO(body), headers=headers) as answer:
            return answer.status, await answer.read()

    async def answered(self, verb: str, body: bytes) -> tuple[int, bytes]:
        """Like `post`, and time passes until there is an answer."""
        request = asyncio.ensure_future(self.post(verb, body))
        while not request.done():
            await self.clock.advance(RECHECK_SECONDS)
        return await request


@asynccontextmanager
async def running_extender(
    answers: Answers,
    *,
    not_ready: Check = lambda: None,
    certificate: ServingCertificate | None = None,
    body_seconds: float = 60,
) -> AsyncIterator[RunningExtender]:
    counts, clock = Counts(), FakeClock()
    listening = Listening(LOOPBACK, 0, certificate, body_seconds)
    server = ExtenderServer(answers, not_ready, listening, clock, counts)
    async with server, aiohttp.ClientSession() as session:
        yield RunningExtender(session, server.port, counts, clock)


class Party:
    """A CA with a server's and a client's certificate, all in one directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.authority = Authority(directory, datetime.now(UTC))
        self.server: KeyPair = self.authority.serving("server")
        self.client: KeyPair = self.authority.client("client")

    def trust(self, *, shows: "Party | None") -> ssl.SSLContext:
        """TLS settings of a client that trusts this CA and presents that party's certificate."""
        context = ssl.create_default_context(cafile=self.authority.certificate)
        if shows is not None:
            context.load_cert_chain(shows.client.certificate, shows.client.key)
        return context
