"""Text that others wrote, made harmless: on a terminal, and as words of a shell command.

The API server accepts any character in annotations, in a claim's `spec.volumeName` and in Events; drivers report
anything; a dump may come from anywhere.
"""

import json
import re
from collections.abc import Sequence
from shlex import quote
from string import Formatter
from typing import Final

_SELECTING: Final = re.compile(r"[\\,=]")


def printable(text: str) -> str:
    """Return the text as one line, in which nothing acts on a terminal or changes the order of what is shown.

    Line breaks, control and formatting characters become escapes such as `\\n`, `\\x1b` and `\\u202e`.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def printable_lines(text: str) -> str:
    """Return a text of several lines, each of them printable."""
    return "\n".join(map(printable, text.split("\n")))


def printable_json(document: bytes) -> bytes:
    """Return a JSON document in which what is not printable is written as an escape. It means the same."""
    text = document.decode()
    if text.isascii() and "\x7f" not in text:
        return document
    return "".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text).encode()


def shell(template: str, *words: str | Sequence[str]) -> str:
    """Return a shell command. Each `{}` of the template is a word, or the rest of one, whatever it contains; of several
    words if it is given several.

    A word that begins with a dash would be a flag, and some flags of kubectl send its credentials elsewhere. No object
    has such a name: it gets a backslash, and is not found.
    """
    given, parts = iter(words), []
    for literal, field, _, _ in Formatter().parse(template):
        parts.append(literal)
        if field is not None:
            word = next(given)
            begins = not literal or literal.endswith(" ")
            parts.append(
                _word(word, begins) if isinstance(word, str) else " ".join(_word(each, begins) for each in word)
            )
    return "".join(parts)


def field_value(text: str) -> str:
    """Return a value as a field selector compares it: its separators escaped (EscapeValue in
    apimachinery/pkg/fields/selector.go).
    """
    return _SELECTING.sub(r"\\\g<0>", text)


def _word(text: str, begins: bool) -> str:
    return quote(f"\\{text}" if begins and text.startswith("-") else text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
