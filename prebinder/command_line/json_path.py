"""The templates of `-o jsonpath=`, as kubectl's: text, and in braces paths, texts in quotes, `range` and `end`.

Source: https://kubernetes.io/docs/reference/kubectl/jsonpath/. The paths themselves are python-jsonpath's.
"""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jsonpath import JSONPath, JSONPathError
from jsonpath import compile as compile_path

from kube.plain_text import printable

_PARTS: Final = re.compile(r"\{((?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^}\"'])*)\}")
_ESCAPED_DOT: Final = re.compile(r"\.((?:[^.\[\]\\ ]|\\.)*\\\.(?:[^.\[\]\\ ]|\\.)*)")
"""A step with `\\.` in it, as kubectl writes a key with a dot: `.annotations.example\\.com/name`."""


@dataclass(frozen=True, slots=True)
class _Loop:
    path: Any
    body: "Sequence[_Part]"


_Part = Any
"""A text, a compiled path, or a loop."""


@dataclass(frozen=True, slots=True)
class JsonPathTemplate:
    """A template; a path without braces is taken for one within them."""

    parts: Sequence[_Part]

    def render(self, document: object) -> str:
        """Return the text. A path that leads nowhere is empty; several results have a space between them."""
        return "".join(_rendered(self.parts, document))


def parse_template(text: str) -> JsonPathTemplate:
    """Return the template, or raise ValueError with a sentence for the user."""
    template = text if "{" in text else f"{{{text}}}"
    tokens = list(_tokens(template))
    parts, left = _block(tokens, depth=0)
    if left:
        raise ValueError("{end} without {range}")
    return JsonPathTemplate(parts)


def _tokens(template: str) -> Iterator[tuple[bool, str]]:
    """Yield what is in braces (True) and the texts between."""
    place = 0
    for match in _PARTS.finditer(template):
        yield False, template[place : match.start()]
        yield True, match[1].strip()
        place = match.end()
    if "{" in template[place:]:
        raise ValueError(f'a brace is not closed in "{template[:60]}"')
    yield False, template[place:]


def _block(tokens: Sequence[tuple[bool, str]], depth: int) -> tuple[list[_Part], Sequence[tuple[bool, str]]]:
    """Return the parts up to the end of a loop, and the tokens after it."""
    parts: list[_Part] = []
    while tokens:
        (is_code, text), tokens = tokens[0], tokens[1:]
        if not is_code:
            parts.append(text)
        elif text == "end":
            return parts, tokens if depth else [(True, "end"), *tokens]
        elif text.startswith("range "):
            body, tokens = _block(tokens, depth + 1)
            parts.append(_Loop(_path(text.removeprefix("range ")), body))
        else:
            parts.append(_literal(text) if text[:1] in {'"', "'"} else _path(text))
    if depth:
        raise ValueError("{range} without {end}")
    return parts, []


def _literal(text: str) -> str:
    try:
        return str(ast.literal_eval(text))
    except (SyntaxError, ValueError):
        raise ValueError(f"{text[:60]} is no text in quotes") from None


def _path(text: str) -> JSONPath:
    steps = _ESCAPED_DOT.sub(lambda step: "[" + json.dumps(step[1].replace("\\.", ".")) + "]", text.strip())
    rooted = f"${steps.removeprefix('$').removeprefix('@')}"
    try:
        compiled = compile_path(rooted)
    except JSONPathError as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f'"{text[:60]}" is not a path such as .items[*].name: {reason}') from None
    if not isinstance(compiled, JSONPath):
        raise ValueError(f'"{text[:60]}" is not one path; kubectl knows no operators between paths')
    return compiled


def _rendered(parts: Sequence[_Part], document: object) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, _Loop):
            for value in _values(part.path, document):
                yield from _rendered(part.body, value)
        else:
            yield " ".join(map(_text, _values(part, document)))


def _values(path: JSONPath, document: object) -> list[object]:
    # A result of a loop may be a text or a number, of which only the whole can be printed.
    if not isinstance(document, dict | list):
        return [document] if str(path) == "$" else []
    return list(path.findall(document))


def _text(value: object) -> str:
    if value is None:
        return ""
    return printable(value if isinstance(value, str) else json.dumps(value, separators=(",", ":")))
