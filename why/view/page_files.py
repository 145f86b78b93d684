"""The files of the page, as they are in the package: read once, served as they are."""

import hashlib
from dataclasses import dataclass
from importlib import resources
from typing import Final

_TYPES: Final = (
    (".html", "text/html"),
    (".css", "text/css"),
    (".js", "text/javascript"),
    (".svg", "image/svg+xml"),
)


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file. `tag` changes with its content."""

    content: bytes
    content_type: str
    tag: str


def page_files() -> dict[str, PageFile]:
    """Return the files by name."""
    files: dict[str, PageFile] = {}
    for entry in resources.files("why.view").joinpath("assets").iterdir():
        kind = next((content_type for ending, content_type in _TYPES if entry.name.endswith(ending)), None)
        if kind is not None:
            content = entry.read_bytes()
            files[entry.name] = PageFile(content, kind, f'"{hashlib.sha256(content).hexdigest()[:20]}"')
    return files
