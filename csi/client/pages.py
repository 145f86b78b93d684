"""Reads a paginated list from a driver, without trusting it to end."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from csi.client.answer_checks import check_token
from csi.client.channel import CallFailed, TooLarge
from csi.client.page_entries import split_page
from csi.client.size_limits import LIST_BYTES
from csi.health.size_limit import SizeLimit
from kube.clock import Clock

PAGE_SIZE: Final = 1000
"""Entries requested per page. A driver may send fewer, and some send more."""
MAX_PAGES: Final = 2_000
MAX_ENTRIES: Final = 500_000
"""More volumes than a cluster has: such a list would not end either."""
MAX_LIST_SECONDS: Final = 300.0
"""The longest that a list may take."""
BROKEN_LIST: Final = "BrokenList"
_YIELD_BYTES: Final = 32 * 1024
_ENTRY_COST: Final = 256
"""Entries are taken for that many bytes in size, however small, until other tasks get to run."""


class _Progress:
    """How much of a list was read. `ends` says when it will not end."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._began = clock, clock.monotonic()
        self.pages = self.entries = self.size = 0

    def ends(self) -> None:
        """Raise TooLarge if a list with an end would have ended."""
        seconds = self._clock.monotonic() - self._began
        whole = self.pages < MAX_PAGES and self.entries <= MAX_ENTRIES and self.size <= LIST_BYTES
        if not whole or seconds > MAX_LIST_SECONDS:
            read = f"{self.pages} pages with {self.entries} entries and {self.size} bytes in {seconds:.0f} s"
            raise TooLarge(SizeLimit.LIST, f"list not complete after {read}", BROKEN_LIST)


async def whole_list(fetch: Callable[[str], Awaitable[bytes]], take: Callable[[bytes], None], clock: Clock) -> None:
    """Give each entry of a list to `take`, in bytes, or raise CallFailed: an incomplete list implies nothing about the
    volumes it omits. `fetch` returns the page of a token.

    A token that repeats is a loop. Some drivers do that: kubernetes-csi/csi-test tests for it in
    pkg/sanity/controller.go.
    """
    progress = _Progress(clock)
    seen: set[str] = set()
    token = ""
    while True:
        received = await fetch(token)
        entries, token = split_page(received)
        check_token(token)
        progress.pages, progress.size = progress.pages + 1, progress.size + len(received)
        progress.entries += len(entries)
        await _taken(entries, take, clock)
        if not token:
            return
        if token in seen:
            after = f"after {progress.entries} entries"
            raise CallFailed(BROKEN_LIST, f"page token {token[:64]!r} was returned twice, {after}")
        seen.add(token)
        progress.ends()


async def _taken(entries: Sequence[bytes], take: Callable[[bytes], None], clock: Clock) -> None:
    since = 0
    for entry in entries:
        take(entry)
        since += _ENTRY_COST + len(entry)
        if since > _YIELD_BYTES:
            since = 0
            await clock.sleep(0)
