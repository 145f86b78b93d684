"""Splits a page of a list into its entries without decoding them.

A page that is decoded as a whole may take 30 times its size and 150 ms (4 MiB of entries without content); its entries
are decoded one by one, and other work is done in between. The wire format: protobuf.dev/programming-guides/encoding.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from csi.client.channel import CallFailed, TooLarge
from csi.client.size_limits import VOLUME_BYTES
from csi.health.report_source import MALFORMED
from csi.health.size_limit import SizeLimit

MAX_PAGE_ENTRIES: Final = 50_000
"""Of a page; a driver that does not keep to the 1,000 asked for can send that many in 4 MiB."""
_ENTRIES: Final = 1
_NEXT_TOKEN: Final = 2
_LENGTH_DELIMITED: Final = 2
_FIXED: Final = {1: 8, 5: 4}


def split_page(received: bytes) -> tuple[Sequence[bytes], str]:
    """Return the entries and the next token of a ListVolumesResponse or a ControllerListVolumeHealthResponse, which
    have both fields in common. Raises CallFailed.
    """
    entries: list[bytes] = []
    token = b""
    try:
        for number, (field, content) in enumerate(_fields(received)):
            if number > MAX_PAGE_ENTRIES:
                raise TooLarge(SizeLimit.LIST, f"a page has more than {MAX_PAGE_ENTRIES} entries")
            if field == _ENTRIES:
                entries.append(_checked(content))
            elif field == _NEXT_TOKEN:
                token = content
        return entries, token.decode()
    except (IndexError, ValueError) as error:
        raise CallFailed(MALFORMED, f"a page of {len(received)} bytes that cannot be decoded") from error


def _checked(entry: bytes) -> bytes:
    if len(entry) > VOLUME_BYTES:
        raise TooLarge(SizeLimit.ANSWER, f"an entry of a list has {len(entry)} bytes, {VOLUME_BYTES} allowed")
    return entry


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of each length-delimited field, 0 and nothing for others. IndexError or ValueError if it
    is no message.
    """
    position, end = 0, len(message)
    while position < end:
        tag, position = _varint(message, position)
        kind = tag & 7
        if kind == _LENGTH_DELIMITED:
            size, position = _varint(message, position)
            if position + size > end:
                raise ValueError("a field longer than its message")
            yield tag >> 3, message[position : position + size]
            position += size
            continue
        if kind == 0:
            _, position = _varint(message, position)
        else:
            position += _FIXED.get(kind, end + 1)
        yield 0, b""
    if position > end:
        raise ValueError("a field longer than its message")


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """Return the number at the position, and the position after it."""
    byte = message[position]
    if byte < 0x80:
        return byte, position + 1
    value, shift = byte & 0x7F, 7
    while shift < 64:
        position += 1
        byte = message[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
    raise ValueError("a number of more than 64 bits")
