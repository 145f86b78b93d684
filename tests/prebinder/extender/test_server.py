"""The extender over HTTP: exact status codes, limits, and nothing that stops it."""

import asyncio
import gzip
import json
from datetime import datetime

import pytest

from prebinder.extender.server import MAX_BODY_BYTES, RECHECK_INTERVAL_SECONDS, RECHECK_SECONDS, REPORT_SECONDS
from scheduler.extender.extender import Answer, Extender
from tests.builders import claim
from tests.prebinder.running_extender import LOOPBACK, running_extender
from tests.scheduler.extender_requests import arguments, extender, nodes, proposed, unhealthy_volume

NAMES = ["n1", "n3"]
BODY = arguments(NAMES)


def answers() -> Extender:
    return extender([*nodes(), claim(), unhealthy_volume("pv-a", zone="a")])


class Broken:
    """A bug behind every verb."""

    def step(self, now: datetime) -> bool:
        return True

    def filter(self, body: bytes, now: datetime) -> Answer:
        raise ZeroDivisionError

    def prioritize(self, body: bytes, now: datetime) -> Answer:
        raise ZeroDivisionError

    def preempt(self, body: bytes, now: datetime) -> Answer:
        raise ZeroDivisionError


async def test_all_verbs_answer_and_are_counted() -> None:
    async with running_extender(answers()) as server:
        status, body = await server.post("filter", BODY)
        assert (status, json.loads(body)["NodeNames"]) == (200, ["n3"])
        status, body = await server.post("prioritize", BODY)
        assert (status, [priority["Host"] for priority in json.loads(body)]) == (200, NAMES)
        status, body = await server.post("preempt", proposed({"n1": ["u1"], "n3": ["u3"]}))
        assert (status, list(json.loads(body)["NodeNameToMetaVictims"])) == (200, ["n3"])
        assert server.counts.codes == [("filter", 200), ("prioritize", 200), ("preempt", 200)]
        assert server.counts.nodes == [("filter", 2, 1), ("prioritize", 2, 2), ("preempt", 2, 1)]
        assert server.counts.inflight == 0


@pytest.mark.parametrize(
    ("verb", "body", "headers", "status"),
    [
        pytest.param("filter", b"{}", {}, 400, id="not a request"),
        pytest.param("preempt", b"{}", {}, 400, id="no victims"),
        pytest.param("bind", BODY, {}, 404, id="a verb we do not have"),
        pytest.param("", BODY, {}, 404, id="no verb"),
        pytest.param(
            "filter", BODY[:-1] + b" " * (MAX_BODY_BYTES - len(BODY)) + b"}", {}, 200, id="as large as allowed"
        ),
        pytest.param("filter", b" " * (MAX_BODY_BYTES + 1), {}, 413, id="too large"),
        pytest.param("filter", BODY, {"Content-Type": "text/plain"}, 200, id="another content type"),
        pytest.param("filter", gzip.compress(BODY), {"Content-Encoding": "gzip"}, 400, id="compressed"),
    ],
)
async def test_status_codes(verb: str, body: bytes, headers: dict[str, str], status: int) -> None:
    async with running_extender(answers()) as server:
        assert (await server.post(verb, body, **headers))[0] == status
        assert (await server.post("filter", BODY))[0] == 200


async def test_another_method_is_rejected() -> None:
    async with (
        running_extender(answers()) as server,
        server.session.get(f"http://{LOOPBACK}:{server.port}/filter") as answer,
    ):
        assert answer.status == 405


async def test_until_the_cluster_is_read_it_says_so() -> None:
    waiting: list[str] = ["waiting for pods"]
    async with running_extender(answers(), not_ready=lambda: waiting[0] if waiting else None) as server:
        assert await server.post("filter", BODY) == (503, b"waiting for pods\n")
        waiting.clear()
        assert (await server.post("filter", BODY))[0] == 200
        assert server.counts.codes == [("filter", 503), ("filter", 200)]


async def test_a_bug_is_an_answer_too(caplog: pytest.LogCaptureFixture) -> None:
    async with running_extender(Broken()) as server:
        assert (await server.post("filter", BODY))[0] == 500
    assert "ZeroDivisionError" in caplog.text


async def test_a_body_that_is_too_large_is_not_read_to_its_end() -> None:
    async with running_extender(answers()) as server:
        reader, writer = await asyncio.open_connection(LOOPBACK, server.port)
        writer.write(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
        assert b" 413 " in await reader.readline()
        writer.close()


async def test_a_body_that_does_not_come_is_given_up() -> None:
    async with running_extender(answers(), body_seconds=0.01) as server:
        reader, writer = await asyncio.open_connection(LOOPBACK, server.port)
        writer.write(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
        assert b" 408 " in await reader.readline()
        writer.close()


async def test_bodies_that_are_promised_keep_no_other_out() -> None:
    """16 bodies of 4 MiB would be all that is permitted together."""
    async with running_extender(answers()) as server:
        promising = [(await asyncio.open_connection(LOOPBACK, server.port))[1] for _ in range(16)]
        for writer in promising:
            writer.write(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{" % MAX_BODY_BYTES)
        while server.counts.inflight < len(promising):
            server.counts.some_began.clear()
            await server.counts.some_began.wait()
        assert (await server.post("filter", BODY))[0] == 200
        for writer in promising:
            writer.transport.abort()


async def test_a_client_that_goes_away_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with running_extender(answers()) as server:
        _, writer = await asyncio.open_connection(LOOPBACK, server.port)
        writer.write(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
        await server.counts.some_began.wait()
        writer.transport.abort()
        await server.counts.some_ended.wait()
        assert server.counts.codes == [("filter", 0)]
        assert reports(caplog) == [("filter", 0, "the client disconnected before there was a response")]
        assert (await server.post("filter", BODY))[0] == 200


async def test_the_cause_of_a_failed_request_is_in_the_log_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """kube-scheduler reports the code only."""
    async with running_extender(answers()) as server:
        for _ in range(3):
            await server.post("filter", b"{}")
        text = (await server.post("filter", b"["))[1].decode()
        await server.post("preempt", b"{}")
        assert [report[:2] for report in reports(caplog)] == [("filter", 400), ("preempt", 400)]
        await server.clock.advance(REPORT_SECONDS)
        await server.post("filter", b"[")
        assert reports(caplog)[-1] == ("filter", 400, text.strip())
        await server.post("filter", BODY)
        assert len(reports(caplog)) == 3


class Catching:
    """An extender that has not seen yet that its nodes are free."""

    def __init__(self) -> None:
        self.free, self.requested = False, asyncio.Event()
        self.steps, self.turns = 0, 0

    def step(self, now: datetime) -> bool:
        self.steps -= 1
        if self.steps > 0:
            asyncio.get_running_loop().call_soon(self.take_turn)
        return self.steps <= 0

    def take_turn(self) -> None:
        self.turns += 1

    def filter(self, body: bytes, now: datetime) -> Answer:
        self.requested.set()
        return Answer(b"free" if self.free else b"rejected", 2, 2 if self.free else 0)

    def prioritize(self, body: bytes, now: datetime) -> Answer:
        return Answer(b"", 2, 0)

    preempt = prioritize


async def test_before_no_node_is_left_what_has_just_changed_is_waited_for() -> None:
    """kube-scheduler tries a pod at once after a change, and may be faster than our watch."""
    catching = Catching()
    async with running_extender(catching) as server:
        request = asyncio.ensure_future(server.post("filter", BODY))
        await catching.requested.wait()
        catching.free = True
        await server.clock.advance(RECHECK_SECONDS)
        assert await request == (200, b"free")
        assert server.counts.nodes == [("filter", 2, 2)]
        await server.post("filter", BODY)
        await server.post("prioritize", BODY)
        await server.post("preempt", BODY)
        assert server.clock.slept == [RECHECK_SECONDS]


async def test_where_many_pods_are_rejected_most_do_not_wait() -> None:
    catching = Catching()
    async with running_extender(catching) as server:
        for _ in range(2):
            server.clock.jump(RECHECK_INTERVAL_SECONDS)
            catching.requested.clear()
            request = asyncio.ensure_future(server.post("filter", BODY))
            await catching.requested.wait()
            await server.clock.advance(RECHECK_SECONDS)
            assert await request == (200, b"rejected")
            assert await server.post("filter", BODY) == (200, b"rejected")
        assert server.clock.slept == [RECHECK_SECONDS] * 2


def reports(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int, str]]:
    """Verb, code and cause of each line about a failed request."""
    failed = [vars(record) for record in caplog.records if record.message == "Request failed"]
    return [(extra["verb"], extra["code"], extra["error"]) for extra in failed]


async def test_other_work_has_its_turn_between_the_steps_that_prepare_an_answer() -> None:
    catching = Catching()
    catching.free, catching.steps = True, 5
    async with running_extender(catching) as server:
        assert await server.post("filter", BODY) == (200, b"free")
        assert (catching.steps, catching.turns) == (0, 4)
