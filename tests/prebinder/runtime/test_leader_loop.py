"""Terms begin when the process is ready, and not before: a decision on half a cluster would be wrong."""

import asyncio

from kube.leaderelection.leadership import Leadership
from prebinder.runtime.leader_loop import LeaderLoop
from tests.fake_clock import FakeClock, settle
from tests.running_task import running


class Term:
    def __init__(self) -> None:
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        await self._stopped.wait()

    def stop(self) -> None:
        self._stopped.set()


async def test_no_term_begins_before_the_process_is_ready_and_knows_what_was_written_last() -> None:
    begun: list[Leadership] = []

    def begin(leadership: Leadership) -> Term:
        begun.append(leadership)
        return Term()

    ready, current, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def until_current() -> None:
        await current.wait()

    loop = LeaderLoop(None, unelected := Leadership.unelected(FakeClock(), "me"), begin, until_current)

    async def until_ready() -> None:
        await ready.wait()

    async with running(loop.until(stop, until_ready)) as work:
        await settle()
        assert begun == []
        ready.set()
        await settle()
        assert begun == []
        current.set()
        await settle()
        assert begun == [unelected]
        stop.set()
        await work
    assert loop.stops() == "stopping"
