"""Bodies of requests: what has arrived is limited for all together, and who takes most gives way."""

import asyncio

import pytest
from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from prebinder.serving.bodies import Bodies

HOURS = 10_000.0
MAX_BODY = 100
MAX_UNFINISHED = 150


class Arriving:
    """A body that arrives in parts, and the task that reads it."""

    def __init__(self, bodies: Bodies, promised: int) -> None:
        loop = asyncio.get_running_loop()
        connection = BaseProtocol(loop)
        connection.connection_made(asyncio.Transport())
        self._stream = StreamReader(connection, 2**16, loop=loop)
        headers = {"Content-Length": str(promised)}
        self._read = asyncio.ensure_future(
            bodies.read(make_mocked_request("POST", "/", headers, payload=self._stream), MAX_BODY)
        )

    async def arrives(self, count: int) -> None:
        self._stream.feed_data(b"x" * count)
        for _ in range(5):
            await asyncio.sleep(0)

    async def ends(self) -> bytes | int:
        """Return the content, or the status of its rejection."""
        self._stream.feed_eof()
        return await self.result()

    async def result(self) -> bytes | int:
        try:
            return await self._read
        except web.HTTPException as error:
            return error.status


async def test_the_largest_unfinished_body_gives_way() -> None:
    bodies = Bodies(HOURS, MAX_UNFINISHED)
    large, middle, small = (Arriving(bodies, MAX_BODY) for _ in range(3))
    await large.arrives(80)
    await middle.arrives(60)
    await small.arrives(20)
    assert await large.result() == 503
    assert await middle.ends() == b"x" * 60
    assert await small.ends() == b"x" * 20


async def test_a_body_that_becomes_too_large_itself_is_the_one_that_is_given_up() -> None:
    bodies = Bodies(HOURS, MAX_UNFINISHED)
    other, growing = Arriving(bodies, MAX_BODY), Arriving(bodies, MAX_BODY)
    await other.arrives(70)
    await growing.arrives(90)
    assert await growing.ends() == 503
    assert await other.ends() == b"x" * 70


async def test_what_is_read_takes_no_room_any_more() -> None:
    bodies = Bodies(HOURS, MAX_UNFINISHED)
    for _ in range(5):
        body = Arriving(bodies, MAX_BODY)
        await body.arrives(90)
        assert await body.ends() == b"x" * 90


async def test_what_was_given_up_takes_no_room_any_more() -> None:
    bodies = Bodies(HOURS, MAX_UNFINISHED)
    for _ in range(3):
        first, second = Arriving(bodies, MAX_BODY), Arriving(bodies, MAX_BODY)
        await first.arrives(90)
        await second.arrives(80)
        assert await first.result() == 503
        assert await second.ends() == b"x" * 80


async def test_a_slow_body_ends() -> None:
    assert await Arriving(Bodies(0.01), MAX_BODY).result() == 408


@pytest.mark.parametrize("promised", [MAX_BODY + 1, MAX_BODY], ids=["promised", "sent"])
async def test_a_body_that_is_too_large_is_rejected(promised: int) -> None:
    body = Arriving(Bodies(HOURS), promised)
    await body.arrives(MAX_BODY + 1)
    assert await body.result() == 413
