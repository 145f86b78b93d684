"""What is made of files, and made again when they have changed, as cert-manager and the kubelet change them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")


class ReloadedFiles(Generic[T]):
    """Holds the latest `value` that could be made of the files."""

    def __init__(self, files: Sequence[Path], load: Callable[[], T]) -> None:
        """Read the files. Raises OSError if they cannot be read or `load` does not accept them."""
        self._files = files
        self._load = load
        self._content = self._read()
        self.value = load()

    def refresh(self) -> bool:
        """Make the value again if the files have changed; return whether it was.

        Raises OSError if that is not possible: the value stays, and the same content is not tried again.
        """
        content = self._read()
        if content == self._content:
            return False
        self._content = content
        self.value = self._load()
        return True

    def _read(self) -> tuple[bytes, ...]:
        return tuple(file.read_bytes() for file in self._files)
