"""A hook of mkdocs: a link to a file of the source tree becomes its path, because the site has only docs/."""

import posixpath
import re
from typing import Any, Final

_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)#:\s]+)(#[^)]*)?\)")
_CODE: Final = re.compile(r"(```.*?```)", re.DOTALL)


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Return the page without links that lead out of docs/."""
    folder = posixpath.dirname(page.file.src_uri)
    return "".join(
        part if part.startswith("```") else _LINK.sub(lambda link: _inside(link, folder), part)
        for part in _CODE.split(markdown)
    )


def _inside(link: re.Match[str], folder: str) -> str:
    target = posixpath.normpath(posixpath.join("docs", folder, link[2]))
    has_page = target.startswith("docs/") and posixpath.splitext(target)[1] != ""
    return link[0] if has_page else f"{link[1]} (`{target}`)"
