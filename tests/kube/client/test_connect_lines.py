from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.client.connect import LONGEST_LINE, LineTooLong, split_lines


async def chunked(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def split(chunks: list[bytes]) -> list[bytes]:
    return [line async for line in split_lines(chunked(chunks))]


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([b"a\nb\n"], [b"a", b"b"], id="two in one"),
        pytest.param([b"a", b"", b"b", b"\n"], [b"ab"], id="one in many"),
        pytest.param([b"a\nb"], [b"a", b"b"], id="unended rest"),
        pytest.param([b"\n\n"], [b"", b""], id="empty lines"),
    ],
)
async def test_lines(chunks: list[bytes], lines: list[bytes]) -> None:
    assert await split(chunks) == lines


@given(st.lists(st.sampled_from([b"", b"x", b"yz", b"\n", b"\nq"])))
def test_chunks_do_not_matter(chunks: list[bytes]) -> None:
    whole = b"".join(chunks).split(b"\n")
    expected = whole if whole[-1] else whole[:-1]

    def drive() -> list[bytes]:
        coroutine = split(chunks)
        with pytest.raises(StopIteration) as stop:
            coroutine.send(None)
        found: list[bytes] = stop.value.value
        return found

    assert drive() == expected


async def test_a_line_without_end_is_given_up() -> None:
    with pytest.raises(LineTooLong):
        await split([b"x" * (LONGEST_LINE // 2), b"x" * (LONGEST_LINE // 2), b"x"])
