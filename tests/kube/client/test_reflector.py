"""The reflector against a scripted server, in fake time: what it asks, and what the sink then holds."""

import asyncio
import json
from collections.abc import Iterable

import pytest

from kube.client.transport import Request
from tests.fake_clock import FakeClock
from tests.kube.running_reflector import Held, Thing, good, one_list, reflecting, script
from tests.kube.scripted_transport import Answer, Step, answer, event, failure, listing, query, thing


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
