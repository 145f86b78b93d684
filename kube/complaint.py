"""What msgspec complains about, in the words of who wrote the document: it speaks of Python's and JSON's types."""

import re
from typing import Final

_WORDS: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "bytes": "bytes",
    "null": "nothing",
}
UNKNOWN_KEY: Final = "unknown key"

_PLACE: Final = re.compile(r" - at (`key` in )?`\$\.?(.*)`$")
_MISSING: Final = re.compile(r"Object missing required field `(.*)`")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`")
_TYPE: Final = re.compile(r"Expected `(\w+)(?: \| null)?`, got `(\w+)`")
_LONGEST_NUMBER: Final = 100
"""Bits. Python refuses to write out numbers of thousands of digits."""
_OTHERS: Final = (
    # The only texts that have to follow a pattern are names of objects.
    (re.compile(r"Expected `str(?: \| null)?` matching regex .*"), 'expected lower-case letters, digits, "-" and "."'),
    (re.compile(r"Expected `str(?: \| null)?` of length >= 1"), "is empty"),
    (re.compile(r"Expected `str(?: \| null)?` of length <= (\d+)"), r"expected at most \1 characters"),
    (re.compile(r"Expected `array(?: \| null)?` of length >= 1"), "expected one at least, found none"),
)


def read_complaint(message: str) -> tuple[str, str]:
    """Return place and problem of what msgspec says, such as "Expected `int`, got `str` - at `$.profiles[0].x`"."""
    told = _PLACE.search(message)
    place = told[2] if told is not None else ""
    complaint = message[: told.start()] if told is not None else message
    for pattern, problem in ((_MISSING, "is missing"), (_UNKNOWN, UNKNOWN_KEY)):
        named = pattern.fullmatch(complaint)
        if named is not None:
            return f"{place}.{named[1]}" if place else named[1], problem
    kinds = _TYPE.fullmatch(complaint)
    if kinds is not None:
        as_key = " as a key" if told is not None and told[1] else ""
        return place, f"expected {_WORDS.get(kinds[1], kinds[1])}{as_key}, found {_WORDS.get(kinds[2], kinds[2])}"
    for pattern, problem in _OTHERS:
        other = pattern.fullmatch(complaint)
        if other is not None:
            return place, other.expand(problem)
    return place, complaint


def show(value: object) -> str:
    """Return a value as its author wrote it, shortened."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case int() if value.bit_length() > _LONGEST_NUMBER:
            return "a number of many digits"
        case int() | float():
            return str(value)
        case str():
            return f'"{value[:60]}"'
        case _:
            return "a list" if isinstance(value, list) else "a mapping"
