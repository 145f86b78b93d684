"""A collection, its reflector, its drift check and our own reads and writes, in orders that hypothesis thinks of.

The model is the history of two names on one server. What is delivered, and when, is chosen step by step: an event of
the watch, an answer that has been under way for long, a new list. No order may make us hold anything older than the
newest of what was delivered, and what the watch loses the drift check brings back. All orders of fewer parts are in
test_collection_orders.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from binder.reservation.contract import Annotations
from binder.writers.object_client import FASTER, ObjectClient
from kube.client.api import KubeApi
from kube.client.drift_check import CheckedKind, DriftCheck
from kube.client.reflector import Reflector
from kube.client.transport import Request, Response, StreamResponse
from kube.decoding.decode import decode_volume
from kube.objects.api_resource import VOLUMES
from kube.store.store import Store
from tests.fake_clock import FakeClock
from tests.kube.counted import CountedDrift
from tests.kube.scripted_transport import event, failure, listing

NAMES: Final = ("pv", "other")

Object = dict[str, Any]


class Server:
    """Keeps the whole history. Answers are made when a request comes, and wait until they are delivered."""

    def __init__(self) -> None:
        self.version = 10
        self.history: list[tuple[int, str, Object]] = []
        self.under_way: list[asyncio.Future[None]] = []
        self.watching_from: int | None = None
        self.shown = 0
        self.known: dict[str, int] = dict.fromkeys(NAMES, 0)
        self._more = asyncio.Event()
        self._lines: list[bytes] = []

    def change(self, name: str, kind: str, uid: str) -> None:
        self.version += 1
        metadata = {"name": name, "uid": uid, "resourceVersion": str(self.version)}
        self.history.append((self.version, kind, {"metadata": metadata, "spec": {"capacity": {"storage": "1Gi"}}}))

    def at(self, name: str, version: int) -> Object | None:
        """Return the object as it was at a version."""
        there: Object | None = None
        for number, kind, document in self.history:
            if number <= version and document["metadata"]["name"] == name:
                there = None if kind == "DELETED" else document
        return there

    async def send(self, request: Request) -> Response:
        name = request.path.removeprefix("/api/v1/persistentvolumes").strip("/")
        status, body, learned = self._answer(request, name)
        delivered = asyncio.get_running_loop().create_future()
        self.under_way.append(delivered)
        await delivered
        for about, version in learned.items():
            self.known[about] = max(self.known[about], version)
        return Response(status, json.dumps(body).encode())

    def _answer(self, request: Request, name: str) -> tuple[int, Object, dict[str, int]]:
        if not name:
            there = [stored for stored in (self.at(each, self.version) for each in NAMES) if stored is not None]
            whole = "PartialObjectMetadata" not in request.accept
            return 200, listing(self.version, *there), dict.fromkeys(NAMES, self.version) if whole else {}
        stored = self.at(name, self.version)
        if stored is None:
            return 404, failure(404, "NotFound"), {}
        if request.method == "PATCH":
            wanted = json.loads(request.body or b"")["metadata"]
            if any(wanted[key] != stored["metadata"][key] for key in ("uid", "resourceVersion")):
                return 409, failure(409, "Conflict"), {}
            self.change(name, "MODIFIED", stored["metadata"]["uid"])
            stored = self.history[-1][2]
        return 200, stored, {name: int(stored["metadata"]["resourceVersion"])}

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        self.watching_from = self.shown = int(dict(request.query)["resourceVersion"])
        self._lines.clear()
        try:
            yield StreamResponse(200, self._follow())
        finally:
            self.watching_from = None

    async def _follow(self) -> AsyncIterator[bytes]:
        while True:
            self._more.clear()
            while self._lines:
                yield self._lines.pop(0)
            await self._more.wait()

    def unseen(self) -> list[tuple[int, str, Object]]:
        """Return the events that the watch has yet to show."""
        return [] if self.watching_from is None else [entry for entry in self.history if entry[0] > self.shown]

    def show(self, *, lose: bool = False) -> None:
        """Let the watch show its next event, or lose it."""
        version, kind, document = self.unseen()[0]
        self.shown = version
        if not lose:
            self.known = {name: max(known, version) for name, known in self.known.items()}
            self._lines.append(event(kind, document))
            self._more.set()


class Orders(RuleBasedStateMachine):
    """One step is one thing that happens on the server, on the wire or in the process."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock, self.server, self.metrics = FakeClock(), Server(), CountedDrift()
        self.volumes = (store := Store()).volumes
        api = KubeApi(self.server)
        self.live = ObjectClient(api, store, Annotations("example/"))
        self.reflector = Reflector(
            api, VOLUMES, decode_volume, self.volumes, clock=self.clock, observer=self.metrics, rng=random.Random(1)
        )
        self.check = DriftCheck(api, [CheckedKind(VOLUMES, decode_volume, self.volumes, self.reflector)], self.metrics)
        self.tasks: list[asyncio.Task[None]] = []
        self.checking: asyncio.Task[None] | None = None
        self.uids = 0

    @initialize()
    def begin(self) -> None:
        self.change("pv")
        self.start(self.reflector.run())
        self.deliver()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self.tasks.append(self.loop.create_task(work))
        self.pass_time(0)
        return self.tasks[-1]

    def pass_time(self, seconds: float) -> None:
        self.loop.run_until_complete(self.clock.advance(seconds))

    # What others do.

    @rule(name=st.sampled_from(("pv", "pv", "pv", "other")))
    def change(self, name: str) -> None:
        stored = self.server.at(name, self.server.version)
        if stored is None:
            self.uids += 1
            self.server.change(name, "ADDED", f"uid-{self.uids}")
        else:
            self.server.change(name, "MODIFIED", stored["metadata"]["uid"])

    @rule()
    def recreate(self) -> None:
        self.delete()
        self.change("pv")

    @rule()
    def delete(self) -> None:
        stored = self.server.at("pv", self.server.version)
        if stored is not None:
            self.server.change("pv", "DELETED", stored["metadata"]["uid"])

    # What the process does.

    @rule()
    def read(self) -> None:
        async def read() -> None:
            await self.live.volume("pv")

        self.start(read())

    @rule()
    def write(self) -> None:
        async def write() -> None:
            held = self.volumes.items.get("pv")
            try:
                if held is not None:
                    await self.live.patch_volume(held, {"metadata": {"annotations": {"example/a": "b"}}})
            except FASTER:
                await self.live.volume("pv")

        self.start(write())

    @precondition(lambda self: self.checking is None or self.checking.done())
    @rule()
    def check_drift(self) -> None:
        self.checking = self.start(self.check.check())

    @rule()
    def relist(self) -> None:
        self.reflector.relist()
        self.pass_time(30)

    # What the wire does.

    @precondition(lambda self: self.server.under_way)
    @rule(data=st.data())
    def deliver_answer(self, data: st.DataObject) -> None:
        self.deliver(data.draw(st.integers(0, len(self.server.under_way) - 1)))

    def deliver(self, which: int = 0) -> None:
        self.server.under_way.pop(which).set_result(None)
        self.pass_time(0)

    @precondition(lambda self: self.server.unseen())
    @rule()
    def show_event(self) -> None:
        self.server.show()
        self.pass_time(0)

    # What must hold.

    @invariant()
    def nothing_held_is_older_than_what_was_delivered(self) -> None:
        for name in NAMES:
            held, known = self.volumes.items.get(name), self.server.known[name]
            if held is None and self.server.at(name, known) is not None:
                # The drift check may know already of a deletion that nobody else has heard of.
                assert any(
                    number > known and kind == "DELETED" and document["metadata"]["name"] == name
                    for number, kind, document in self.server.history
                )
            else:
                assert _version(held) == _listed(self.server.at(name, known))

    def in_the_end_all_is_as_on_the_server(self) -> None:
        for _ in range(4):
            self.quieten()
            if self.checking is None or self.checking.done():
                self.check_drift()
            self.quieten()
        for name in NAMES:
            assert _version(self.volumes.items.get(name)) == _listed(self.server.at(name, self.server.version))
        assert not any(self.metrics.differences.values())

    def quieten(self) -> None:
        """Deliver everything."""
        while self.server.under_way or self.server.unseen():
            for delivered in self.server.under_way:
                delivered.set_result(None)
            self.server.under_way.clear()
            if self.server.unseen():
                self.server.show()
            self.pass_time(60)

    def teardown(self) -> None:
        try:
            self.in_the_end_all_is_as_on_the_server()
        finally:
            for task in self.tasks:
                task.cancel()
            ended = self.loop.run_until_complete(asyncio.gather(*self.tasks, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()
        assert all(result is None or isinstance(result, asyncio.CancelledError) for result in ended)


class LossyOrders(Orders):
    """The same with a watch that loses events: only the end counts."""

    @precondition(lambda self: self.server.unseen())
    @rule()
    def lose_event(self) -> None:
        self.server.show(lose=True)

    def nothing_held_is_older_than_what_was_delivered(self) -> None:
        """Does not hold here."""


def _version(held: Any) -> int | None:
    return held.resource_version if held is not None else None


def _listed(document: Object | None) -> int | None:
    return int(document["metadata"]["resourceVersion"]) if document is not None else None


TestOrders = Orders.TestCase
TestLossyOrders = LossyOrders.TestCase
TestOrders.settings = TestLossyOrders.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
