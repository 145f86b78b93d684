"""The demo draws until something is so or the time is up, and keeps what it told."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from io import StringIO

import pytest
from rich.console import Console

from demo.show import NotInTimeError, Show, with_seconds
from demo.view import Row
from tests.fake_clock import START, FakeClock, settle

PENDING = Row("data", "web", "", "", "", "Pending", 1.0, None)
BOUND = Row("data", "web", "zone-a", "pv-1", "✓ Healthy", "Bound", 2.0, 2.0)


class World:
    """What there is to see; a test changes it. `out` is what was printed."""

    def __init__(self, *, terminal: bool = False) -> None:
        self.rows = [PENDING]
        self.out = StringIO()
        self.clock = FakeClock()
        self.console = Console(file=self.out, width=100, force_terminal=terminal)

    async def look(self) -> list[Row]:
        return self.rows

    def show(self, timeout: float = 10.0) -> Show:
        return Show(self.console, self.look, self.clock, timeout)


def bound(rows: Sequence[Row]) -> bool:
    return [row.state for row in rows] == ["Bound"]


async def test_each_change_is_a_line_and_the_table_comes_last() -> None:
    world = World()
    with world.show() as show:
        waiting = asyncio.create_task(show.until(bound, "the claim to be bound"))
        await world.clock.advance(1)
        world.rows = [BOUND]
        await world.clock.advance(1)
        await waiting
    lines = world.out.getvalue().splitlines()
    assert [line.split() for line in lines[:2]] == [
        ["1.0s", "data", "Pending"],
        ["2.0s", "data", "Bound", "volume=pv-1", "zone=zone-a", "health=✓", "Healthy"],
    ]
    assert lines[2] == ""
    assert [line.split()[0] for line in lines[3:]] == ["CLAIM", "data"]


async def test_a_terminal_shows_the_table_at_once() -> None:
    world = World(terminal=True)
    with world.show() as show:
        waiting = asyncio.create_task(show.until(bound, "the claim to be bound"))
        await settle()
        assert "Pending" in world.out.getvalue()
        world.rows = [BOUND]
        await world.clock.advance(1)
        await waiting
    assert "Bound" in world.out.getvalue()


async def test_it_gives_up_when_the_time_is_over_and_says_what_it_waited_for() -> None:
    world = World()
    show = world.show(timeout=2.0)
    waiting = asyncio.create_task(show.until(bound, "the claim to be bound"))
    await world.clock.advance(1.9)
    assert not waiting.done()
    await world.clock.advance(0.5)
    with pytest.raises(NotInTimeError, match="the claim to be bound"):
        await waiting


async def test_messages_are_kept_with_their_time() -> None:
    world = World()
    show = world.show()
    show.say("one object created")
    show.tell("it becomes unhealthy")
    await world.clock.advance(1.5)
    show.tell("it recovers")
    assert world.out.getvalue().splitlines() == ["- one object created", "- it becomes unhealthy", "- it recovers"]
    assert show.diary == [(START, "it becomes unhealthy"), (START + timedelta(seconds=1.5), "it recovers")]
    assert list(with_seconds(show.diary)) == ["    0.0 s  it becomes unhealthy", "    1.5 s  it recovers"]
