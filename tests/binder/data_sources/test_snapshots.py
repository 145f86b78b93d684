"""What is read of snapshots: a bounded number for each pass, each no more often than necessary."""

import asyncio

from binder.data_sources.snapshots import FRESH_SECONDS, MAX_READ, Snapshots
from binder.model.source_snapshot import SourceSnapshot
from kube.client.api import KubeApi
from kube.client.transport import Request, Response
from tests.fake_clock import FakeClock
from tests.fakes.kube_api import Connection, FakeKubeApi


class Server(FakeKubeApi):
    """A server that counts what is read of it."""

    def __init__(self) -> None:
        super().__init__()
        self.snapshots = {}
        self.read: list[str] = []

    def answer(self, request: Request) -> Response:
        self.read.append(request.path.rpartition("/")[2])
        return super().answer(request)


def names(number: int) -> list[str]:
    return [f"default/old-{each}" for each in range(number)]


async def test_a_snapshot_is_read_again_only_when_it_is_not_recent() -> None:
    server, clock = Server(), FakeClock()
    snapshots = Snapshots(KubeApi(Connection(server)), clock)
    await snapshots.refresh(["default/old", "default/old"])
    await snapshots.refresh(["default/old"])
    assert server.read == ["old"]
    await clock.advance(FRESH_SECONDS)
    await snapshots.refresh(["default/old"])
    assert server.read == ["old", "old"]


async def test_what_is_not_read_for_one_pass_comes_first_in_the_next() -> None:
    server, clock = Server(), FakeClock()
    snapshots = Snapshots(KubeApi(Connection(server)), clock)
    await snapshots.refresh(names(MAX_READ + 2))
    assert len(server.read) == MAX_READ
    assert snapshots.known()[f"default/old-{MAX_READ}"] == SourceSnapshot("it has not been read yet")
    await clock.advance(FRESH_SECONDS)
    await snapshots.refresh(names(MAX_READ + 2))
    assert server.read[MAX_READ : MAX_READ + 2] == [f"old-{MAX_READ}", f"old-{MAX_READ + 1}"]
    assert snapshots.known()[f"default/old-{MAX_READ}"] == SourceSnapshot("it does not exist")


async def test_without_the_kind_nothing_is_known() -> None:
    server, clock = Server(), FakeClock()
    server.snapshots = None
    snapshots = Snapshots(KubeApi(Connection(server)), clock)
    await snapshots.refresh(["default/old"])
    assert snapshots.known() == {}


class Slow(Connection):
    """Answers when so many requests have come."""

    def __init__(self, server: FakeKubeApi, number: int) -> None:
        super().__init__(server)
        self.number, self.came, self.all_came = number, 0, asyncio.Event()

    async def send(self, request: Request) -> Response:
        self.came += 1
        if self.came == self.number:
            self.all_came.set()
        await self.all_came.wait()
        return await super().send(request)


async def test_those_of_a_pass_are_read_together_and_one_delays_no_other() -> None:
    snapshots = Snapshots(KubeApi(Slow(Server(), 3)), FakeClock())
    async with asyncio.timeout(30):
        await snapshots.refresh(names(3))
    assert set(snapshots.known()) == set(names(3))
