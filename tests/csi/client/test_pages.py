from collections.abc import Awaitable, Callable
from itertools import count

import pytest

from csi.client.channel import CallFailed, TooLarge
from csi.client.page_entries import MAX_PAGE_ENTRIES
from csi.client.pages import BROKEN_LIST, MAX_ENTRIES, MAX_LIST_SECONDS, MAX_PAGES, whole_list
from csi.client.size_limits import LIST_BYTES, PAGE_BYTES, STRING_BYTES
from csi.health.size_limit import SizeLimit
from csi.proto import csi_v1_pb2 as csi
from kube.clock import Clock, SystemClock
from tests.fake_clock import FakeClock

Fetch = Callable[[str], Awaitable[bytes]]


def page(entries: str, token: str) -> bytes:
    """A page with an entry for each letter."""
    listed = [csi.VolumeHealth(volume_id=letter) for letter in entries]
    return csi.ControllerListVolumeHealthResponse(entries=listed, next_token=token).SerializeToString()


def book(pages: dict[str, tuple[str, str]]) -> tuple[Fetch, list[str]]:
    """Return a list that hands out these pages by token, and the tokens it receives."""
    tokens: list[str] = []

    async def fetch(token: str) -> bytes:
        tokens.append(token)
        return page(*pages[token])

    return fetch, tokens


async def read(fetch: Fetch, clock: Clock | None = None) -> str:
    entries: list[str] = []
    await whole_list(
        fetch, lambda entry: entries.append(csi.VolumeHealth.FromString(entry).volume_id), clock or SystemClock()
    )
    return "".join(entries)


@pytest.mark.parametrize(
    ("pages", "entries"),
    [
        pytest.param({"": ("ab", "")}, "ab", id="one page"),
        pytest.param({"": ("ab", "2"), "2": ("c", "3"), "3": ("", "")}, "abc", id="three pages"),
        pytest.param({"": ("", "2"), "2": ("a", "")}, "a", id="an empty page is not the end"),
        pytest.param({"": ("a", "2"), "2": ("a", "")}, "aa", id="entries may repeat"),
        pytest.param({"": ("a", "t" * STRING_BYTES), "t" * STRING_BYTES: ("b", "")}, "ab", id="the longest token"),
    ],
)
async def test_a_list_is_read_to_its_end(pages: dict[str, tuple[str, str]], entries: str) -> None:
    fetch, tokens = book(pages)
    assert await read(fetch) == entries
    assert tokens == list(pages)


@pytest.mark.parametrize(
    ("pages", "after"),
    [
        pytest.param({"": ("a", "2"), "2": ("b", "2")}, "after 2 entries", id="to itself"),
        pytest.param({"": ("a", "2"), "2": ("b", "3"), "3": ("cd", "2")}, "after 4 entries", id="to an earlier page"),
    ],
)
async def test_a_loop_ends_with_an_error(pages: dict[str, tuple[str, str]], after: str) -> None:
    fetch, tokens = book(pages)
    with pytest.raises(CallFailed, match="was returned twice") as failed:
        await read(fetch)
    assert failed.value.details.endswith(after)
    assert failed.value.code == BROKEN_LIST
    assert len(tokens) == len(pages)


EMPTY_ENTRY = b"\x0a\x00"
PADDING = b"\x7a" + csi.VolumeHealth(volume_id="x" * (PAGE_BYTES - 100)).SerializeToString()[1:]
"""A field that no version knows."""


@pytest.mark.parametrize(
    ("content", "most"),
    [
        pytest.param(b"", MAX_PAGES, id="of empty pages"),
        pytest.param(EMPTY_ENTRY, MAX_PAGES, id="of small pages"),
        pytest.param(EMPTY_ENTRY * (MAX_PAGE_ENTRIES - 1), 11, id="of many entries"),
        pytest.param(PADDING, 65, id="of large pages"),
    ],
)
async def test_pages_without_end_end_with_an_error(content: bytes, most: int) -> None:
    numbers = count(1)

    async def fetch(token: str) -> bytes:
        return content + page("", f"page-{next(numbers)}")

    with pytest.raises(TooLarge, match="not complete") as failed:
        await whole_list(fetch, lambda _: None, SystemClock())
    assert (failed.value.code, failed.value.limit) == (BROKEN_LIST, SizeLimit.LIST)
    assert next(numbers) - 1 == most
    assert (MAX_ENTRIES, LIST_BYTES) == (10 * MAX_PAGE_ENTRIES, 64 * PAGE_BYTES)


async def test_a_list_that_takes_too_long_ends_with_an_error() -> None:
    clock, numbers = FakeClock(), count(1)

    async def fetch(token: str) -> bytes:
        clock.jump(4.0)
        return page("a", str(next(numbers)))

    with pytest.raises(TooLarge, match="not complete after 76 pages"):
        await read(fetch, clock)
    assert MAX_LIST_SECONDS == 300


async def test_a_token_longer_than_the_specification_allows_ends_the_list() -> None:
    fetch, tokens = book({"": ("a", "t" * (STRING_BYTES + 1))})
    with pytest.raises(TooLarge, match="a page token has 129 bytes, 128 allowed") as failed:
        await read(fetch)
    assert failed.value.limit is SizeLimit.PAGE_TOKEN
    assert tokens == [""]


async def test_a_page_that_fails_fails_the_list() -> None:
    async def fetch(token: str) -> bytes:
        if token:
            raise CallFailed("Internal", "second page")
        return page("ab", "2")

    with pytest.raises(CallFailed, match="second page"):
        await read(fetch)
