"""What a failing server does to the reflector: never a hot loop, and back to work when it is well."""

import json
from collections.abc import Callable, Iterable

import pytest

from kube.client.transport import Request
from kube.errors import Unavailable
from tests.fake_clock import FakeClock
from tests.kube.running_reflector import Held, good, one_list, reflecting, script
from tests.kube.scripted_transport import Answer, Step, answer, event, failure


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
        Unavailable("GET", "/", 0, "ClientConnectorError", "refused"),
    ],
    ids=["500", "502 with HTML", "HTML as success", "403", "410", "refused"],
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
