"""How the demo is shown: a live table on a terminal, plain lines elsewhere, and a diary of its messages."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, Self

from rich.console import Console
from rich.live import Live

from demo.view import Row, changed_lines, table
from kube.clock import Clock

_POLL_SECONDS: Final = 0.25


class NotInTimeError(Exception):
    """The time was up; the text states what was waited for."""


class Show:
    """Draws the rows that `look` returns for the length of a `with` block.

    `until` gives up `timeout` seconds after the show was created. `diary` holds the messages, with their times.
    """

    def __init__(
        self, console: Console, look: Callable[[], Awaitable[list[Row]]], clock: Clock, timeout: float
    ) -> None:
        self.rows: list[Row] = []
        self.diary: list[tuple[datetime, str]] = []
        self._console, self._look, self._clock = console, look, clock
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._deadline = clock.monotonic() + timeout

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()
        else:
            self._console.print()
            self._console.print(table(self.rows))

    async def until(self, reached: Callable[[Sequence[Row]], bool], what: str) -> None:
        """Refresh and draw until the condition holds; NotInTimeError names it if the time is up before."""

        async def condition() -> bool:
            return reached(self.rows)

        await self.until_found(condition, what)

    async def until_found(self, reached: Callable[[], Awaitable[bool]], what: str) -> None:
        """Like `until`, for a condition that has to be queried."""
        while True:
            await self._draw()
            if await reached():
                return
            if self._clock.monotonic() >= self._deadline:
                raise NotInTimeError(what)
            await self._clock.sleep(_POLL_SECONDS)

    def say(self, words: str) -> None:
        """Print it, above the table."""
        print_lines(self._console, [f"- {words}"])

    def tell(self, words: str) -> None:
        """Print it, and add it to the diary."""
        self.diary.append((self._clock.now(), words))
        self.say(words)

    async def _draw(self) -> None:
        before, self.rows = self.rows, await self._look()
        if self._live:
            self._live.update(table(self.rows), refresh=True)
        else:
            print_lines(self._console, changed_lines(before, self.rows))


def with_seconds(diary: Sequence[tuple[datetime, str]]) -> Iterator[str]:
    """Return the diary with seconds since its first entry."""
    for when, words in diary:
        yield f"  {(when - diary[0][0]).total_seconds():5.1f} s  {words}"


def print_lines(console: Console, lines: Iterable[str]) -> None:
    """Print texts without wrapping them."""
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
