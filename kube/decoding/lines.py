"""Lines out of chunks: a watch sends one JSON object a line, and an object with large annotations is a long line."""

from collections.abc import AsyncIterable, AsyncIterator
from typing import Final

LONGEST_LINE: Final = 32 * 2**20
"""Bytes. etcd refuses objects far below this, so a longer line is no object but an attack on our memory."""


class LineTooLong(Exception):
    """A line grew past LONGEST_LINE without ending."""


async def split_lines(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield each line without its newline, and last the rest that no newline ended, if there is one.

    Joins each line once, so a long line costs its length and not its square.
    """
    pieces: list[bytes] = []
    length = 0
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        length += len(first)
        if length > LONGEST_LINE:
            raise LineTooLong(f"a line of the response is longer than {LONGEST_LINE} bytes")
        if not others:
            continue
        yield b"".join(pieces)
        *whole, rest = others
        for line in whole:
            yield line
        pieces, length = [rest], len(rest)
    if length:
        yield b"".join(pieces)
