"""Documents in which others have written what acts on a shell, or on a terminal, into their fields."""

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from tests.why.documents import Document

UNTOUCHED: Final = frozenset({"apiVersion", "kind", "uid", "creationTimestamp", "phase", "storage", "apiGroup"})
"""Fields that say what an object is; the API server checks them."""

KNOWN: Final = re.compile(r"^$|kubernetes\.io/|^scheduler\.cloud\.example/")
"""Names that Kubernetes and this project gave."""

MAX_ITEMS: Final = 20
"""Of a list. Selectors with thousands of values have nothing else behind these."""

Place = tuple[Any, ...]


def leaves(documents: Sequence[Document]) -> Iterator[tuple[Place, str]]:
    """Yield the place and the value of each text that a user has written."""

    def within(value: Any, place: Place) -> Iterator[tuple[Place, str]]:
        if isinstance(value, dict):
            for key, each in value.items():
                if key not in UNTOUCHED:
                    yield from within(each, (*place, key))
        elif isinstance(value, list):
            for number, each in enumerate(value[:MAX_ITEMS]):
                yield from within(each, (*place, number))
        elif isinstance(value, str) and not value[:1].isdigit():  # no time and no quantity: those are checked
            yield place, value

    yield from within(list(documents), ())


def with_value(documents: Sequence[Document], place: Place, value: str) -> list[Document]:
    changed = copy.deepcopy(list(documents))
    inside: Any = changed
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    return changed


def names_in(documents: Sequence[Document]) -> set[str]:
    """Return the names of the objects, and those of what is no object: drivers and schedulers."""
    names: set[str] = set()
    for place, value in leaves(documents):
        if place[-1] in {
            "name",
            "namespace",
            "provisioner",
            "driver",
            "schedulerName",
            "nodeName",
        } and not KNOWN.search(value):
            names.add(value)
    return names


def renaming(documents: Sequence[Document], suffix: str) -> Callable[[str], str]:
    """Return what gives each name in a text a suffix."""
    alternatives = "|".join(map(re.escape, sorted(names_in(documents), key=len, reverse=True)))
    pattern = re.compile(rf"(?<![\w.-])(?:{alternatives})(?![\w.-])")
    return lambda text: pattern.sub(lambda match: match[0] + suffix, text)


def renamed(value: Any, rename: Callable[[str], str], key: str = "") -> Any:
    """Return the value with all names in it renamed, those in texts too."""
    if isinstance(value, dict):
        return {key: each if key in UNTOUCHED else renamed(each, rename, key) for key, each in value.items()}
    if isinstance(value, list):
        return [renamed(each, rename, key) for each in value]
    return rename(value) if isinstance(value, str) else value
