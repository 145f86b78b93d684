"""The page of each code: what it means, how to see it, how to fix it. Written in docs/causes, shipped beside this code.

Names come from the command line; only those of the index are opened.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from kube.configuration.nearest import did_you_mean
from why.errors import WhyError

_SHIPPED: Final = "cause_pages"
"""The folder in the wheel, beside the modules of `why` (pyproject.toml)."""
_SOURCES: Final = Path(__file__).parents[2] / "docs" / "causes"
_INDEX: Final = "README.md"
_ROW: Final = re.compile(r"^\| \[(\w+)\]\(\w+\.md\) \| (\S.*) \|$", re.MULTILINE)
_LINK: Final = re.compile(r"\]\((?:\.\./)+([^)]+)\)")


@cache
def meanings() -> Mapping[str, str]:
    """Return what each code means, in one sentence."""
    return dict(_ROW.findall(_text(_INDEX)))


def known_code(text: str) -> str:
    """Return the code that a user means, whatever its case. Raises WhyError with the nearest one."""
    codes = {code.lower(): code for code in meanings()}
    if text.lower() not in codes:
        meant = did_you_mean(text, codes.values())
        # A full stop: no code is near.
        raise WhyError(f'unknown code "{text}"{"; without a code, explain lists all" if meant == "." else meant}')
    return codes[text.lower()]


def page_of(code: str) -> str:
    """Return the page of a known code, in Markdown. Links to other pages name them as in the source tree."""
    return _LINK.sub(lambda link: f"]({_in_source_tree(link.group(1))})", _text(f"{code}.md"))


def _in_source_tree(target: str) -> str:
    return target if target.partition("/")[0] == "why" else f"docs/{target}"


def _text(name: str) -> str:
    return (_folder() / name).read_text(encoding="utf-8")


def _folder() -> Traversable:
    shipped = files("why") / _SHIPPED
    return shipped if shipped.is_dir() else _SOURCES
