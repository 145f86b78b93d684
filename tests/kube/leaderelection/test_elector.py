"""The elector against a server that holds one Lease, in fake time."""

import asyncio
import json
import random
from contextlib import AbstractAsyncContextManager, nullcontext

import pytest

from kube.client.api import KubeApi
from kube.client.transport import Request, Response
from kube.errors import LeadershipLost
from kube.leaderelection.elector import Elector, new_identity
from kube.leaderelection.leadership import Leadership, one_loss
from kube.objects.api_resource import VOLUMES
from tests.fake_clock import FakeClock
from tests.kube.counted import CountedTerms
from tests.kube.lease_server import LeaseServer
from tests.kube.scripted_transport import ScriptedTransport, answer, failure, thing
from tests.running_task import running


class Worker:
    """One candidate; remembers its terms, and whether it works now."""

    def __init__(self, name: str, clock: FakeClock, server: LeaseServer) -> None:
        self.terms: list[Leadership] = []
        self._working = False
        self.stopped_at: float | None = None
        self.metrics = CountedTerms()
        self._clock = clock
        self.annotations: dict[str, str] = {}
        self.elector = Elector(
            KubeApi(server),
            "ns",
            "l",
            name,
            clock=clock,
            rng=random.Random(name),
            metrics=self.metrics,
            annotations=lambda: self.annotations,
        )

    def is_working(self) -> bool:
        return self._working

    async def work(self, term: Leadership) -> None:
        self.terms.append(term)
        self._working = True
        try:
            await asyncio.Event().wait()
        finally:
            self._working = False
            self.stopped_at = self._clock.monotonic()


def electing(worker: Worker) -> AbstractAsyncContextManager[asyncio.Future[None]]:
    return running(worker.elector.run(worker.work))


async def test_the_first_acquisition_creates_the_lease() -> None:
    clock = FakeClock()
    server = LeaseServer(clock)
    async with electing(worker := Worker("a", clock, server)):
        await clock.advance(1)
        assert worker.is_working()
        assert server.spec == {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "leaseTransitions": 0,
            "acquireTime": "2026-01-01T12:00:00.000000Z",
            "renewTime": "2026-01-01T12:00:00.000000Z",
        }
        assert worker.metrics.reported == [True]


async def test_renews_every_two_seconds_with_one_request_and_keeps_foreign_fields() -> None:
    clock = FakeClock()
    server = LeaseServer(clock)
    server.write(holderIdentity="", strategy="kept")
    async with electing(worker := Worker("a", clock, server)):
        await clock.advance(1)
        server.requests.clear()
        await clock.advance(60)
        assert worker.is_working()
        assert [request.method for request in server.requests] == ["PATCH"] * 30
        assert server.spec["strategy"] == "kept"
        assert server.spec["acquireTime"] < server.spec["renewTime"]


async def test_what_the_holder_says_goes_with_a_renewal_once() -> None:
    clock = FakeClock()
    server = LeaseServer(clock)
    async with electing(worker := Worker("a", clock, server)):
        worker.annotations = {"kept": "first"}
        await clock.advance(10)
        assert server.annotations == {"kept": "first"}
        server.requests.clear()
        worker.annotations = {"kept": "second"}
        await clock.advance(60)
        assert server.annotations == {"kept": "second"}
        assert [request.method for request in server.requests] == ["PATCH"] * 30
        assert sum(b"second" in (request.body or b"") for request in server.requests) == 1


async def test_what_the_holder_says_outlives_a_conflict() -> None:
    clock = FakeClock()
    server = LeaseServer(clock)
    async with electing(worker := Worker("a", clock, server)):
        await clock.advance(3)
        server.write(strategy="somebody wrote a field")
        worker.annotations = {"kept": "first"}
        await clock.advance(2)
        assert server.annotations == {"kept": "first"}
        assert len(worker.terms) == 1


@pytest.mark.parametrize("code", [422, 403])
async def test_what_is_rejected_does_not_cost_the_lease(code: int) -> None:
    """By an admission policy, say."""
    clock = FakeClock()
    server = LeaseServer(clock)
    server.rejected, server.rejection = {"kept"}, (code, failure(code, {422: "Invalid", 403: "Forbidden"}[code]))
    async with electing(worker := Worker("a", clock, server)):
        await clock.advance(3)
        worker.annotations = {"kept": "first"}
        await clock.advance(60)
        assert worker.is_working()
        assert len(worker.terms) == 1
        assert server.annotations == {}


async def test_a_new_holder_says_what_it_knows() -> None:
    clock = FakeClock()
    server = LeaseServer(clock)
    async with electing(worker := Worker("a", clock, server)):
        worker.annotations = {"kept": "first"}
        await clock.advance(10)
        server.annotations.clear()
        server.write(holderIdentity="thief", leaseTransitions=9)
        await clock.advance(60)
        assert len(worker.terms) == 2
        assert server.annotations == {"kept": "first"}


async def test_a_second_candidate_waits_and_takes_over_when_renewals_stop() -> None:
    clock = FakeClock()
    server = LeaseServer(clock)
    server.write(holderIdentity="dead", leaseDurationSeconds=15, leaseTransitions=7, renewTime="2050-01-01T00:00:00Z")
    async with electing(worker := Worker("b", clock, server)):
        await clock.advance(14)
        assert not worker.is_working()
        await clock.advance(6)
        assert worker.is_working()
        assert (worker.terms[0].holder, worker.terms[0].transition) == ("b", 8)


async def test_a_holder_that_renews_keeps_the_lease_even_with_a_wrong_clock() -> None:
    clock = FakeClock()
    server = LeaseServer(clock)
    async with electing(worker := Worker("b", clock, server)):
        server.write(holderIdentity="alive", leaseDurationSeconds=15, renewTime="1990-01-01T00:00:00Z")
        for minute in range(30):
            server.write(renewTime=f"1990-01-01T00:{minute:02}:00Z")
            await clock.advance(14)
        assert not worker.terms


@pytest.mark.parametrize("state", ["down", "silent", "deaf"])
async def test_work_stops_before_another_may_begin_when_the_server_fails(state: str) -> None:
    clock = FakeClock()
    server = LeaseServer(clock)
    async with electing(worker := Worker("a", clock, server)):
        await clock.advance(20)
        server.state = state  # type: ignore[assignment]
        failed_at = clock.monotonic()
        await clock.advance(8)
        assert worker.is_working()
        await clock.advance(20)
        assert not worker.is_working()
        assert worker.stopped_at is not None
        assert worker.stopped_at - failed_at <= 10.0
        server.state = "up"
        await clock.advance(20)
        assert worker.is_working()
        assert worker.metrics.reported == [True, False, True]


async def test_a_candidate_that_begins_during_an_outage_leads_after_it() -> None:
    clock = FakeClock()
    server = LeaseServer(clock)
    server.state = "down"
    async with electing(worker := Worker("a", clock, server)):
        await clock.advance(30)
        assert not worker.is_working()
        server.state = "up"
        await clock.advance(10)
        assert worker.is_working()


async def test_a_short_outage_does_not_cost_the_lease() -> None:
    clock = FakeClock()
    server = LeaseServer(clock)
    async with electing(worker := Worker("a", clock, server)):
        await clock.advance(4)
        server.state = "silent"
        await clock.advance(6)
        server.state = "up"
        await clock.advance(60)
        assert worker.is_working()
        assert len(worker.terms) == 1


async def test_a_renewal_whose_answer_was_lost_is_read_again() -> None:
    clock = FakeClock()
    server = LeaseServer(clock)
    async with electing(worker := Worker("a", clock, server)):
        await clock.advance(3)
        server.state = "deaf"
        await clock.advance(3)
        server.state = "up"
        await clock.advance(60)
        assert len(worker.terms) == 1


async def test_a_lost_or_deleted_lease_stops_the_work_at_once() -> None:
    for rob in (lambda s: s.write(holderIdentity="thief", leaseTransitions=9), lambda s: setattr(s, "lease", None)):
        clock = FakeClock()
        server = LeaseServer(clock)
        async with electing(worker := Worker("a", clock, server)):
            await clock.advance(3)
            rob(server)
            await clock.advance(2)
            assert not worker.is_working() or len(worker.terms) == 2
            assert not worker.terms[0].held


async def test_a_process_that_slept_through_its_term_does_not_write() -> None:
    clock = FakeClock()
    server = LeaseServer(clock)
    async with electing(worker := Worker("a", clock, server)):
        await clock.advance(3)
        wire = ScriptedTransport(lambda _: answer(200, thing("v", 2)))
        api = KubeApi(wire, fence=worker.terms[0].fence)
        await api.conditional_patch(VOLUMES, "v", {}, resource_version=1)
        assert wire.requests[-1].timeout <= 15.0
        clock.jump(30)  # SIGSTOP, and SIGCONT: no task has run yet
        with pytest.raises(LeadershipLost):
            await api.conditional_patch(VOLUMES, "v", {}, resource_version=1)
        assert len(wire.requests) == 1
        await api.get(VOLUMES, "v")
        await clock.advance(10)
        assert not worker.terms[0].held
        assert len(worker.terms) == 2


async def test_a_lost_term_does_not_come_back_by_a_late_renewal() -> None:
    clock = FakeClock()
    term = Leadership(clock, "a", 1, Worker("a", clock, LeaseServer(clock)).elector._timing, clock.monotonic())
    clock.jump(11)
    with pytest.raises(LeadershipLost):
        term.check()
    term.renew(clock.monotonic())
    assert not term.held
    with pytest.raises(LeadershipLost):
        term.check()


async def test_shutdown_ends_the_work_first_and_then_releases() -> None:
    clock = FakeClock()
    server = LeaseServer(clock)
    holder_at_end: list[str] = []
    worker = Worker("a", clock, server)

    async def work(term: Leadership) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await clock.sleep(20)  # longer than a term: it must be renewed meanwhile
            term.check()
            holder_at_end.append(server.spec["holderIdentity"])

    task = asyncio.ensure_future(worker.elector.run(work))
    await clock.advance(3)
    task.cancel()
    await clock.advance(30)
    assert task.cancelled()
    assert holder_at_end == ["a"]
    assert (server.spec["holderIdentity"], server.spec["leaseDurationSeconds"]) == ("", 1)


class Busy(LeaseServer):
    """A renewal takes it 2.5 seconds, anything else one; what was sent is executed, whether or not it is awaited."""

    async def send(self, request: Request) -> Response:
        executed = asyncio.ensure_future(self._executed(request))
        try:
            return await asyncio.shield(executed)
        finally:
            await executed

    async def _executed(self, request: Request) -> Response:
        body = json.loads(request.body or b"{}")
        renews = request.method == "PATCH" and body["spec"].get("holderIdentity")
        await self._clock.sleep(2.5 if renews else 1.0)
        return self._answer(request)


async def test_a_release_waits_for_the_renewal_that_is_under_way() -> None:
    """Else the renewal changes the Lease between the read and the write of the release, and the next has to wait."""
    clock = FakeClock()
    server = Busy(clock)
    task = asyncio.ensure_future(Worker("a", clock, server).elector.run(forever))
    await clock.advance(5)  # acquired after two, renewing since four
    task.cancel()
    await clock.advance(30)
    assert task.cancelled()
    assert server.spec["holderIdentity"] == ""


async def forever(_: Leadership) -> None:
    await asyncio.Event().wait()


async def test_a_lease_that_another_process_took_is_not_released() -> None:
    """It was paused for longer than the Lease lasts, for instance, and is stopped before it notices."""
    clock = FakeClock()
    server = LeaseServer(clock)
    task = asyncio.ensure_future(Worker("a", clock, server).elector.run(forever))
    await clock.advance(1)
    server.write(holderIdentity="b")
    task.cancel()
    await clock.advance(30)
    assert task.cancelled()
    assert server.spec["holderIdentity"] == "b"


@pytest.mark.parametrize("lost", [False, True])
async def test_the_losses_of_several_tasks_are_one(lost: bool) -> None:
    with pytest.raises(LeadershipLost) if lost else nullcontext(), one_loss():
        if lost:
            raise ExceptionGroup("tasks", [LeadershipLost("a"), LeadershipLost("b")])


async def test_the_next_candidate_need_not_wait_after_a_release() -> None:
    clock = FakeClock()
    server = LeaseServer(clock)
    async with electing(Worker("a", clock, server)), electing(second := Worker("b", clock, server)):
        await clock.advance(30)
        assert not second.terms
    second = Worker("b", clock, server)
    async with electing(second):
        await clock.advance(1)
        assert second.terms[0].transition == 1


async def test_work_that_ends_releases_the_lease_and_work_that_fails_raises() -> None:
    clock = FakeClock()
    server = LeaseServer(clock)
    worker = Worker("a", clock, server)

    async def done(_: Leadership) -> None:
        return

    async def fails(_: Leadership) -> None:
        raise RuntimeError("bug")

    await worker.elector.run(done)
    assert server.spec["holderIdentity"] == ""
    with pytest.raises(RuntimeError, match="bug"):
        await worker.elector.run(fails)
    assert server.spec["holderIdentity"] == ""


def test_identities_differ_and_an_unelected_process_always_leads() -> None:
    assert new_identity() != new_identity()
    Leadership.unelected(FakeClock(), "a").check()
