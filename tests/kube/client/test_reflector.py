"""The reflector against a scripted server, in fake time: what it asks, and what the sink then holds.

What a failing server does to it: never a hot loop, and back to work when it is well.
"""

import asyncio
import json
from collections.abc import Callable, Iterable

import pytest

from kube.client.reflector import run_all
from kube.client.transport import Request
from kube.errors import Unavailable
from tests.fake_clock import FakeClock
from tests.kube.running_reflector import Held, Thing, good, one_list, reflecting, reflector_of, script
from tests.kube.scripted_transport import Answer, ScriptedTransport, Step, answer, event, failure, listing, query, thing
from tests.running_task import running


async def test_lists_then_follows_events() -> None:
    clock, held = FakeClock(), Held()
    steps: list[Step] = [
        event("ADDED", good("b", 6)),
        event("MODIFIED", good("a", 7)),
        event("DELETED", good("b", 8)),
        lambda: clock.sleep(300),
    ]
    async with reflecting(clock, one_list, script(clock, steps), held) as (reflector, transport):
        await clock.advance(1)
        assert reflector.synced.is_set()
        assert held.things == {"a": "7"}
        assert [query(watch, "resourceVersion") for watch in transport.watches] == ["5"]
        assert held.causes == []


async def test_resumes_from_the_last_version_without_a_list_bookmarks_included() -> None:
    clock, held = FakeClock(), Held()
    first: list[Step] = [event("ADDED", good("b", 6)), lambda: clock.sleep(250)]
    second: list[Step] = [event("BOOKMARK", {"metadata": {"resourceVersion": "40"}}), lambda: clock.sleep(250)]
    async with reflecting(clock, one_list, script(clock, first, second), held) as (_, transport):
        await clock.advance(501)
        assert [query(watch, "resourceVersion") for watch in transport.watches] == ["5", "6", "40"]
        assert len(transport.lists) == held.lists == 1
        assert held.causes == ["closed", "closed"]
        assert held.things == {"a": "1", "b": "6"}


@pytest.mark.parametrize("in_stream", [True, False], ids=["event", "status"])
async def test_an_expired_version_lists_again_and_the_sink_sees_the_difference(in_stream: bool) -> None:
    clock, held = FakeClock(), Held()
    lists = iter([listing(5, good("a", 1), good("b", 2)), listing(9, good("b", 8))])
    gone = failure(410, "Expired")
    first = (200, [event("ERROR", gone)]) if in_stream else (410, [json.dumps(gone).encode()])
    answers = iter([first])

    def follow(_: Request) -> tuple[int, Iterable[Step]]:
        return next(answers, (200, [lambda: clock.sleep(300)]))

    async with reflecting(clock, lambda _: answer(200, next(lists)), follow, held) as (_, transport):
        await clock.advance(2)
        assert held.things == {"b": "8"}
        assert held.causes == ["expired"]
        assert [query(watch, "resourceVersion") for watch in transport.watches] == ["5", "9"]


async def test_backoff_starts_over_after_a_watch_that_lived() -> None:
    clock, held = FakeClock(), Held()
    dead: list[Step] = []
    alive: list[Step] = [lambda: clock.sleep(200)]
    async with reflecting(clock, one_list, script(clock, *([dead] * 6), alive, dead, dead), held):
        await clock.advance(230)
    before, after = clock.slept[: clock.slept.index(200)], clock.slept[clock.slept.index(200) + 1 :]
    assert before[-1] > 4.0
    assert after[0] < 0.5


async def test_malformed_objects_are_skipped_counted_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    clock, held = FakeClock(), Held()
    no_spec = thing("unhealthy", 3)
    steps: list[Step] = [
        event("MODIFIED", thing("a", 6, spec=7)),
        event("MODIFIED", thing("a", 6, spec=7)),
        event("ADDED", {"metadata": 5}),
        event("ADDED", good("c", 8)),
        lambda: clock.sleep(300),
    ]

    def respond(_: Request) -> Answer:
        return answer(200, listing(5, good("a", 1), no_spec, good("b", 2)))

    async with reflecting(clock, respond, script(clock, steps), held):
        await clock.advance(1)
        # `a` has a version now that nobody can read: an older one must not be decided on.
        assert held.things == {"b": "2", "c": "8"}
        assert held.malformed_seen == 4
    named = [vars(record)["object"] for record in caplog.records if record.message == "Malformed object skipped"]
    assert named == ["unhealthy", "a", ""]


async def test_a_failing_sink_is_survived_by_a_new_list() -> None:
    clock = FakeClock()

    class Clumsy(Held):
        def upsert(self, item: Thing) -> None:
            raise RuntimeError("bug")

    held = Clumsy()
    steps: list[Step] = [event("ADDED", good("b", 6)), lambda: clock.sleep(300)]
    async with reflecting(clock, one_list, script(clock, steps), held):
        await clock.advance(1)
        assert held.lists == 2
        assert held.things == {"a": "1"}


async def test_relist_on_request() -> None:
    clock, held = FakeClock(), Held()
    lists = iter([listing(5, good("a", 1)), listing(9, good("z", 9))])
    async with reflecting(clock, lambda _: answer(200, next(lists)), script(clock), held) as (reflector, _):
        await clock.advance(10)
        reflector.relist()
        await clock.advance(1)
        assert held.things == {"z": "9"}


async def test_a_flood_of_events_leaves_the_loop_to_others() -> None:
    clock, held = FakeClock(), Held()
    flood: list[Step] = [event("MODIFIED", good("a", 6 + n)) for n in range(1000)]
    turns: list[str] = []

    async def other() -> None:
        while held.things.get("a") != "1005":
            turns.append(held.things.get("a", ""))
            await asyncio.sleep(0)

    async with reflecting(clock, one_list, script(clock, [*flood, lambda: clock.sleep(300)]), held):
        await other()
        assert len(set(turns)) >= 10


async def test_events_that_take_long_to_apply_leave_the_loop_to_others_one_by_one() -> None:
    clock = FakeClock()

    class Slow(Held):
        def upsert(self, item: Thing) -> None:
            clock.jump(0.01)
            super().upsert(item)

    held = Slow()
    flood: list[Step] = [event("MODIFIED", good("a", 6 + n)) for n in range(100)]
    turns: set[str] = set()

    async def other() -> None:
        while held.things.get("a") != "105":
            turns.add(held.things.get("a", ""))
            await asyncio.sleep(0)

    async with reflecting(clock, one_list, script(clock, [*flood, lambda: clock.sleep(300)]), held):
        await other()
        assert len(turns) >= 90


def faults(clock: FakeClock) -> dict[str, Callable[[Request], tuple[int, Iterable[Step]]]]:
    def silent(request: Request) -> tuple[int, Iterable[Step]]:
        lost = Unavailable("GET", request.path, 0, "SocketTimeoutError", "no answer")
        return 200, [lambda: clock.sleep(request.timeout), lost]

    reset = Unavailable("GET", "/", 0, "ClientPayloadError", "connection reset")
    return {
        "closes at once": lambda _: (200, []),
        "reset mid-stream": lambda _: (200, [event("ADDED", good("b", 6)), reset]),
        "500": lambda _: (500, [json.dumps(failure(500, "InternalError")).encode()]),
        "502 with HTML": lambda _: (502, [b"<html>Bad Gateway</html>"]),
        "HTML as success": lambda _: (200, [b"<html>Welcome</html>"]),
        "410 in stream": lambda _: (200, [event("ERROR", failure(410, "Expired"))]),
        "410 as status": lambda _: (410, [json.dumps(failure(410, "Expired")).encode()]),
        "403": lambda _: (403, [json.dumps(failure(403, "Forbidden")).encode()]),
        "silent half-open": silent,
        "truncated line": lambda _: (200, [event("ADDED", good("b", 6)), b'{"type":"MODI']),
    }


@pytest.mark.parametrize(
    ("fault", "most"),
    [
        # In ten minutes. A hot loop would make thousands; backoff to 15-30 s makes about 35.
        ("closes at once", 50),
        ("500", 50),
        ("502 with HTML", 50),
        ("HTML as success", 50),
        ("410 in stream", 50),
        ("410 as status", 50),
        ("403", 50),
        ("silent half-open", 7),
        # Events did arrive, so we stay within 2 s of a server that drops its readers.
        ("reset mid-stream", 600),
        ("truncated line", 600),
    ],
)
async def test_no_fault_of_the_watch_makes_a_hot_loop(fault: str, most: int) -> None:
    clock, held = FakeClock(), Held()
    async with reflecting(clock, one_list, faults(clock)[fault], held) as (_, transport):
        await clock.advance(600)
        assert 3 <= len(transport.watches) <= most
        assert len(transport.lists) <= most
        assert held.things["a"] == "1"


@pytest.mark.parametrize(
    "broken",
    [
        answer(500, failure(500, "InternalError")),
        answer(502, b"<html>Bad Gateway</html>"),
        answer(200, b"<html>Welcome</html>"),
        answer(403, failure(403, "Forbidden")),
        answer(410, failure(410, "Expired")),
        Unavailable("GET", "/", 0, "ClientConnectorError", "rejected"),
    ],
    ids=["500", "502 with HTML", "HTML as success", "403", "410", "rejected"],
)
async def test_no_fault_of_the_list_makes_a_hot_loop_and_the_end_of_it_is_noticed(broken: Answer) -> None:
    clock, held = FakeClock(), Held()

    def respond(request: Request) -> Answer:
        return broken if clock.monotonic() < 1600 else one_list(request)

    async with reflecting(clock, respond, script(clock), held) as (reflector, transport):
        await clock.advance(599)
        assert 3 <= len(transport.lists) <= 100
        assert not reflector.synced.is_set()
        await clock.advance(31)
        assert reflector.synced.is_set()
        assert held.things == {"a": "1"}


async def test_retry_after_is_obeyed() -> None:
    clock, held = FakeClock(), Held()
    answers = iter([answer(429, failure(429, "TooManyRequests"), Retry_After="45")])

    async with reflecting(clock, lambda r: next(answers, one_list(r)), script(clock), held) as (_, transport):
        await clock.advance(44)
        assert len(transport.lists) == 1
        await clock.advance(2)
        assert held.things == {"a": "1"}


async def test_after_an_outage_it_is_current_a_second_after_its_watch_was_opened_again() -> None:
    clock, held = FakeClock(), Held()
    dead: list[Step] = []
    lived: list[Step] = [lambda: clock.sleep(10)]
    async with reflecting(clock, one_list, script(clock, lived, dead, dead), held) as (reflector, transport):
        await clock.advance(1)
        async with asyncio.timeout(1):  # Right after its list.
            await reflector.current()
        while len(transport.watches) < 3:
            await clock.advance(0.05)
        current = asyncio.create_task(reflector.current())
        while len(transport.watches) < 4:
            await clock.advance(0.05)
        await clock.advance(0.8)
        assert not current.done()
        await clock.advance(0.25)
        assert current.done()


def gone(clock: FakeClock, begin: float, end: float) -> Callable[[Request], tuple[int, Iterable[Step]]]:
    """A server that is gone from one time to another, seconds from the start."""
    lost = Unavailable("GET", "/", 0, "ClientConnectorError", "Connection refused")

    def follow(_: Request) -> tuple[int, Iterable[Step]]:
        elapsed = clock.monotonic() - 1000.0
        if begin <= elapsed < end:
            raise lost
        return 200, [lambda: clock.sleep(begin - elapsed if elapsed < begin else 300), lost]

    return follow


async def test_after_an_outage_the_first_watch_that_opens_ends_the_pauses_of_all() -> None:
    clock = FakeClock()
    opened: list[float] = []
    follow = gone(clock, 10, 100)

    def noted(request: Request) -> tuple[int, Iterable[Step]]:
        outcome = follow(request)
        opened.append(clock.monotonic() - 1000.0)
        return outcome

    transports = [ScriptedTransport(one_list, noted) for _ in range(5)]
    kinds = [reflector_of(transport, Held(), clock, seed) for seed, transport in enumerate(transports)]
    async with running(run_all(kinds)):
        await clock.advance(99)
        assert len(opened) == 5
        await clock.advance(40)
    assert len(opened) == 10
    assert opened[-1] - opened[5] < 0.01


async def test_it_recovers_from_an_outage_until_a_second_after_its_watch_was_opened_again() -> None:
    clock = FakeClock()
    async with reflecting(clock, one_list, gone(clock, 10, 15.2), Held()) as (reflector, transport):
        await clock.advance(11)
        assert reflector.recovers
        opened = len(transport.watches)
        while clock.monotonic() < 1015.2 or len(transport.watches) == opened:
            opened = len(transport.watches)
            await clock.advance(0.05)
        await clock.advance(0.8)
        assert reflector.recovers
        await clock.advance(0.25)
        assert not reflector.recovers


async def test_it_has_nothing_to_recover_from_when_a_watch_just_ends() -> None:
    clock = FakeClock()
    lived: list[Step] = [lambda: clock.sleep(10)]
    async with reflecting(clock, one_list, script(clock, lived), Held()) as (reflector, transport):
        while len(transport.watches) < 2:
            await clock.advance(0.05)
        assert not reflector.recovers


async def test_a_server_that_answers_again_if_only_to_reject_is_tried_again_soon() -> None:
    clock, held = FakeClock(), Held()
    follow, tried = gone(clock, 10, 100), list[float]()

    def forbids_at_first(request: Request) -> tuple[int, Iterable[Step]]:
        outcome = follow(request)
        tried.append(clock.monotonic())
        return (403, [json.dumps(failure(403, "Forbidden")).encode()]) if len(tried) == 2 else outcome

    async with reflecting(clock, one_list, forbids_at_first, held):
        await clock.advance(135)
    assert len(tried) == 3
    assert tried[2] - tried[1] <= 1.0


async def test_a_watch_that_opened_and_broke_is_not_tried_sooner_because_others_open() -> None:
    clock, held = FakeClock(), Held()
    reset = Unavailable("GET", "/", 0, "ClientPayloadError", "connection reset")
    async with reflecting(clock, one_list, lambda _: (200, [reset]), held) as (reflector, transport):
        for _ in range(600):
            await clock.advance(1)
            reflector.retry()
        assert len(transport.watches) <= 50
