"""What the controller and its solver process send each other: frames of MessagePack, which has an infinity."""

import struct
from dataclasses import dataclass
from typing import IO, Final

import msgspec

from binder.rebalance.integer_program import IntegerProgram, Solution

_LENGTH: Final = struct.Struct(">I")
_MAX_BYTES: Final = 2**28
"""Of a frame: longer ones are garbage."""


@dataclass(frozen=True, slots=True)
class Task:
    """A program, and for how many seconds a better solution may be looked for."""

    program: IntegerProgram
    seconds: float


Answer = Solution | str | None
"""A solution, or why there is none; None, once, when the process is ready."""

_TASK: Final = msgspec.msgpack.Decoder(Task)
_ANSWER: Final[msgspec.msgpack.Decoder[Answer]] = msgspec.msgpack.Decoder(Answer)


def write_task(stream: IO[bytes], task: Task) -> None:
    """Raises OSError if the other side is gone."""
    _write(stream, msgspec.msgpack.encode(task))


def read_task(stream: IO[bytes]) -> Task:
    """Raises EOFError at the end, MsgspecError for anything else than a task."""
    return _TASK.decode(_read(stream))


def write_answer(stream: IO[bytes], answer: Answer) -> None:
    """Raises OSError if the other side is gone."""
    _write(stream, msgspec.msgpack.encode(answer))


def read_answer(stream: IO[bytes]) -> Answer:
    """Raises EOFError at the end, MsgspecError for anything else than an answer."""
    return _ANSWER.decode(_read(stream))


def _write(stream: IO[bytes], content: bytes) -> None:
    stream.write(_LENGTH.pack(len(content)) + content)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    if length > _MAX_BYTES:
        raise msgspec.DecodeError(f"a frame of {length} bytes")
    return _exactly(stream, length)


def _exactly(stream: IO[bytes], length: int) -> bytes:
    content = stream.read(length)
    if len(content) < length:
        raise EOFError
    return content
