"""Reads a paginated list from a driver, without trusting it to end."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from csi.client.channel import CallFailed

PAGE_SIZE: Final = 1000
"""Entries requested per page. A driver may send fewer, and some send more."""
MAX_PAGES: Final = 2_000
MAX_ENTRIES: Final = 500_000
"""More volumes than a cluster has: such a list would not end either."""
BROKEN_LIST: Final = "BrokenList"

Entry = TypeVar("Entry")
Page = tuple[Iterable[Entry], str]
"""Entries, and the token of the next page; empty on the last one."""


async def whole_list(fetch: Callable[[str], Awaitable[Page[Entry]]]) -> Sequence[Entry]:
    """Return all entries, or raise CallFailed: an incomplete list implies nothing about the volumes it omits.

    A token that repeats is a loop. Some drivers do that: kubernetes-csi/csi-test tests for it in
    pkg/sanity/controller.go.
    """
    entries: list[Entry] = []
    seen: set[str] = set()
    token = ""
    while True:
        page, token = await fetch(token)
        entries.extend(page)
        if not token:
            return entries
        if token in seen:
            raise CallFailed(BROKEN_LIST, f"page token {token[:64]!r} was returned twice, after {len(entries)} entries")
        seen.add(token)
        if len(seen) >= MAX_PAGES or len(entries) > MAX_ENTRIES:
            raise CallFailed(BROKEN_LIST, f"list not complete after {len(seen)} pages with {len(entries)} entries")
