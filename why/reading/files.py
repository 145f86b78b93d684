"""The contents of files that the user names: of the file itself, or of what is below a directory or in an archive.

Directories and archives are those that `kubectl cluster-info dump`, `oc adm must-gather`, sosreport, and the support
bundles of troubleshoot, Longhorn and Talos make: objects between logs, tables and configurations. What does not begin
as objects do is not read any further. No link is followed, nothing is extracted, and what is read is bounded: a part of
a dump would give wrong answers, so exceeding a bound is an error.
"""

import bz2
import gzip
import lzma
import os
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from mmap import ACCESS_READ, mmap
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import BinaryIO, Final, NamedTuple, Protocol, cast

from why.errors import WhyError


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """What is read at most: the `files` below one directory or in one archive, the bytes of those with objects, and the
    bytes that one compressed file becomes, its logs included. A must-gather of 500 nodes has some 30,000 files.
    """

    files: int = 100_000
    object_bytes: int = 1 << 30
    unpacked_bytes: int = 8 << 30


_LIMITS: Final = ReadLimits()

_SNIFFED: Final = 64 << 10
"""Bytes in which the kind of the first object is stated."""

_BLOCK: Final = 1 << 20
_TAR: Final = slice(257, 262)
"""Where the header of a tar file has its mark, `ustar`."""

_ZIP: Final = b"PK\x03\x04"
_DAMAGED: Final = (
    *(tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, OSError),
    # Of a zip file with a password, and of a method of compression that Python does not have.
    *(ValueError, RuntimeError),
)

_BEGINNING: Final = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s+|#[^\n]*\n)*(?:[{\[]|---\s|\w+:)")
_ITEMS: Final = b"items:\n"
"""How a list begins that a Go program wrote without what it is a list of; the file's name says that."""

_NO_OBJECTS: Final = re.compile(r"\.(?:log|txt|html?|md)(?:\.|$)|\.log\b", re.IGNORECASE)


class FilePart(NamedTuple):
    """The content of a file and its name for the user. `named` is whether the user named it: then it has to be read."""

    name: str
    contents: memoryview
    named: bool


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


_COMPRESSED: Final[Mapping[bytes, Callable[[BinaryIO], _Readable]]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
}


def parts(path: str, stdin: BinaryIO, limits: ReadLimits = _LIMITS) -> Iterator[FilePart]:
    """Yield the contents of a file or archive, or of what is below a directory; `-` is the standard input.

    Raises WhyError for what cannot be read, is damaged, or exceeds a bound.
    """
    if path == "-":
        yield from _of_file("standard input", BytesIO(stdin.read()), limits)
        return
    try:
        if Path(path).is_dir():
            yield from _below(path, limits)
        else:
            with Path(path).open("rb") as file:
                yield from _of_file(path, file, limits)
    except OSError as error:
        raise WhyError(f"cannot read {path}: {error.strerror or error}") from error


def _of_file(name: str, file: BinaryIO, limits: ReadLimits) -> Iterator[FilePart]:
    if not file.seekable():
        file = BytesIO(file.read())
    head = file.read(512)
    file.seek(0)
    if head.startswith(_ZIP):
        with _intact(name):
            yield from _in_zip(name, file, limits)
        return
    unpack = _unpacker(head)
    if unpack is None and not _is_tar(head):
        yield FilePart(name, _mapped(file), named=True)
        return
    with _intact(name):
        stream = _Stream(name, file if unpack is None else unpack(file), limits)
        if _is_tar(stream.peek(512)):
            yield from _in_archive(name, stream, limits)
        else:
            yield FilePart(name, memoryview(stream.all()), named=True)


def _unpacker(head: bytes) -> Callable[[BinaryIO], _Readable] | None:
    return next((unpack for mark, unpack in _COMPRESSED.items() if head.startswith(mark)), None)


def _is_tar(head: bytes) -> bool:
    return head[_TAR] == b"ustar"


def _mapped(file: BinaryIO) -> memoryview:
    """Return the content of a file, mapped if it can be."""
    try:
        descriptor = file.fileno()
        status = os.fstat(descriptor)
    except OSError:
        return memoryview(file.read())
    is_mappable = S_ISREG(status.st_mode) and status.st_size
    return memoryview(mmap(descriptor, 0, access=ACCESS_READ) if is_mappable else file.read())


@contextmanager
def _intact(name: str) -> Iterator[None]:
    """Raise WhyError for a damaged file: what is missing from it would count as missing from the cluster."""
    try:
        yield
    except _DAMAGED as error:
        raise WhyError(f"cannot read {name}: it is damaged or incomplete ({error}). Copy it again") from error


class _Stream:
    """Reads a compressed file; its first bytes may be looked at before. Bounded."""

    def __init__(self, name: str, file: _Readable, limits: ReadLimits) -> None:
        self._name = name
        self._limits = limits
        self._file = file
        self._ahead = b""
        self._count = 0

    def peek(self, size: int) -> bytes:
        if len(self._ahead) < size:
            self._ahead += self._read(size - len(self._ahead))
        return self._ahead[:size]

    def read(self, size: int) -> bytes:
        """Return this many bytes, fewer only at the end."""
        ahead, self._ahead = self._ahead[:size], self._ahead[size:]
        return ahead + self._read(size - len(ahead)) if len(ahead) < size else ahead

    def all(self) -> bytes:
        """Return everything, which may be objects."""
        blocks = []
        while block := self.read(_BLOCK):
            blocks.append(block)
            if sum(map(len, blocks)) > self._limits.object_bytes:
                raise _too_much(self._name, self._limits.object_bytes)
        return b"".join(blocks)

    def _read(self, size: int) -> bytes:
        content = b""
        while len(content) < size and (block := self._file.read(size - len(content))):
            content += block
        self._count += len(content)
        if self._count > self._limits.unpacked_bytes:
            raise _too_much(self._name, self._limits.unpacked_bytes)
        return content


def _too_much(name: str, limit: int) -> WhyError:
    return WhyError(f"{name} holds more than {limit:,} bytes: name the files with the objects instead")


class _Budget:
    """Counts what was read below a directory or in an archive. Raises WhyError beyond the bounds."""

    def __init__(self, name: str, limits: ReadLimits) -> None:
        self._name = name
        self._limits = limits
        self._files = 0
        self._bytes = 0

    def file(self) -> None:
        self._files += 1
        if self._files > self._limits.files:
            raise WhyError(f"{self._name} has more than {self._limits.files:,} files: name the one with the objects")

    def objects(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._limits.object_bytes:
            raise _too_much(self._name, self._limits.object_bytes)


def _in_archive(name: str, stream: _Stream, limits: ReadLimits) -> Iterator[FilePart]:
    budget = _Budget(name, limits)
    with tarfile.open(fileobj=cast("BinaryIO", stream), mode="r|") as archive:
        for member in archive:
            budget.file()
            if not member.isreg() or member.issparse() or _NO_OBJECTS.search(member.name):
                continue
            file = archive.extractfile(member)
            head = file.read(_SNIFFED) if file is not None else b""
            if file is not None and _has_objects(head):
                budget.objects(member.size)
                yield FilePart(f"{name}/{member.name}", memoryview(head + file.read()), named=False)


def _in_zip(name: str, file: BinaryIO, limits: ReadLimits) -> Iterator[FilePart]:
    """Yield what is in a zip file, as Longhorn, Harvester and Talos make them."""
    budget = _Budget(name, limits)
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            budget.file()
            if member.is_dir() or S_ISLNK(member.external_attr >> 16) or _NO_OBJECTS.search(member.filename):
                continue
            with archive.open(member) as content:
                stream = _Stream(f"{name}/{member.filename}", content, limits)
                if _has_objects(stream.peek(_SNIFFED)):
                    contents = stream.all()
                    budget.objects(len(contents))
                    yield FilePart(f"{name}/{member.filename}", memoryview(contents), named=False)


def _below(path: str, limits: ReadLimits) -> Iterator[FilePart]:
    budget = _Budget(path, limits)
    for folder, folders, files in os.walk(path, onerror=_raise):
        folders.sort()
        for file in sorted(files):
            budget.file()
            if not _NO_OBJECTS.search(file):
                yield from _of_member(os.path.join(folder, file), budget, limits)


def _raise(error: OSError) -> None:
    raise WhyError(f"cannot read {error.filename}: {error.strerror}")


def _of_member(path: str, budget: _Budget, limits: ReadLimits) -> Iterator[FilePart]:
    """Yield what a file below a directory holds, if that is objects: as they are, or compressed, but no archive."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if os.path.islink(path) or not os.path.isfile(path):
            return
        raise WhyError(f"cannot read {path}: {error.strerror}") from error
    with open(descriptor, "rb") as file:
        if not S_ISREG(os.fstat(descriptor).st_mode):
            return
        head = file.read(_SNIFFED)
        unpack = _unpacker(head)
        if unpack is None:
            if _has_objects(head):
                budget.objects(os.fstat(descriptor).st_size)
                yield FilePart(path, _mapped(file), named=False)
            return
        file.seek(0)
        with _intact(path):
            stream = _Stream(path, unpack(file), limits)
            if _has_objects(stream.peek(_SNIFFED)):
                contents = stream.all()
                budget.objects(len(contents))
                yield FilePart(path, memoryview(contents), named=False)


def _has_objects(head: bytes) -> bool:
    if head.startswith(_ITEMS):
        return True
    return _BEGINNING.match(head) is not None and b"apiVersion" in head and b"kind" in head
