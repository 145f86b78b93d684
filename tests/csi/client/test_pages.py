from collections.abc import Awaitable, Callable
from itertools import count

import pytest

from csi.client.channel import CallFailed
from csi.client.pages import BROKEN_LIST, MAX_ENTRIES, MAX_PAGES, Page, whole_list

Fetch = Callable[[str], Awaitable[Page[str]]]


def book(pages: dict[str, Page[str]]) -> tuple[Fetch, list[str]]:
    """Return a list that hands out these pages by token, and the tokens it receives."""
    tokens: list[str] = []

    async def fetch(token: str) -> Page[str]:
        tokens.append(token)
        return pages[token]

    return fetch, tokens


@pytest.mark.parametrize(
    ("pages", "entries"),
    [
        pytest.param({"": ("ab", "")}, "ab", id="one page"),
        pytest.param({"": ("ab", "2"), "2": ("c", "3"), "3": ("", "")}, "abc", id="three pages"),
        pytest.param({"": ("", "2"), "2": ("a", "")}, "a", id="an empty page is not the end"),
        pytest.param({"": ("a", "2"), "2": ("a", "")}, "aa", id="entries may repeat"),
    ],
)
async def test_a_list_is_read_to_its_end(pages: dict[str, Page[str]], entries: str) -> None:
    fetch, tokens = book(pages)
    assert "".join(await whole_list(fetch)) == entries
    assert tokens == list(pages)


@pytest.mark.parametrize(
    "pages",
    [
        pytest.param({"": ("a", "2"), "2": ("b", "2")}, id="to itself"),
        pytest.param({"": ("a", "2"), "2": ("b", "3"), "3": ("c", "2")}, id="to an earlier page"),
    ],
)
async def test_a_loop_ends_with_an_error(pages: dict[str, Page[str]]) -> None:
    fetch, tokens = book(pages)
    with pytest.raises(CallFailed, match="was returned twice") as failed:
        await whole_list(fetch)
    assert failed.value.code == BROKEN_LIST
    assert len(tokens) == len(pages)


@pytest.mark.parametrize(
    ("size", "most"), [(0, MAX_PAGES), (1, MAX_PAGES), (MAX_ENTRIES // 2, 3)], ids=["empty", "small", "huge"]
)
async def test_pages_without_end_end_with_an_error(size: int, most: int) -> None:
    numbers = count(1)

    async def fetch(token: str) -> Page[str]:
        return ["x"] * size, f"page-{next(numbers)}"

    with pytest.raises(CallFailed, match="not complete") as failed:
        await whole_list(fetch)
    assert failed.value.code == BROKEN_LIST
    assert next(numbers) - 1 == most


async def test_a_page_that_fails_fails_the_list() -> None:
    async def fetch(token: str) -> Page[str]:
        if token:
            raise CallFailed("Internal", "second page")
        return "ab", "2"

    with pytest.raises(CallFailed, match="second page"):
        await whole_list(fetch)
