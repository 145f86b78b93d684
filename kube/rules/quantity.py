"""Exact quantities, parsed as k8s.io/apimachinery/pkg/api/resource does.

A quantity is an integer number of nano-units: the finest step that Kubernetes keeps, so comparisons and sums are exact.
"""

import re
from collections.abc import Mapping
from typing import Final

from kube.objects.memory import remembered

NANO: Final = 10**9
"""One whole unit (a byte, a core) in nano-units."""

MAX_QUANTITY: Final = 10**1009
"""Larger values are capped. Kubernetes accepts `1e1000000000`; no real amount exceeds 10^1000 units, and the cap keeps
a text from creating a number with a billion digits.
"""

_KNOWN_BYTES: Final = 2 * 2**20
"""Of cached quantities: 16,000 short ones."""

_MAX_DIGITS: Final = 1009
_MAX_BINARY: Final = (2**63 - 1) * NANO
_SHORT_DIGITS: Final = 18
_SCANNER: Final = re.compile(r"(?P<sign>[+-]?)0*(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<suffix>.*)", re.DOTALL)
_SUFFIX_SHAPE: Final = re.compile(r"[eEinumkKMGTP]*[-+]?[0-9]*")
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)")
_DECIMAL: Final[Mapping[str, int]] = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_BINARY: Final[Mapping[str, int]] = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def whole_units(nano: int) -> int:
    """Return a quantity in whole units, rounded up as Kubernetes compares quantities (`Quantity.Value`)."""
    return -(-nano // NANO)


class QuantityError(ValueError):
    """The text is not a quantity. The message quotes it and states the problem."""


def parse_quantity(quantity: str | int | float) -> int:
    """Return a quantity in nano-units, rounded up (away from zero) to the next one.

    Text is read as by `Quantity.UnmarshalJSON`: surrounding spaces are ignored, a binary suffix caps the value at
    2^63-1, and oddities such as `.` (zero) or `5.` are legal. Numbers are what JSON and YAML carry without quotes.
    Raises QuantityError for anything else.
    """
    if isinstance(quantity, str):
        return _parse(quantity)
    if isinstance(quantity, bool):
        raise QuantityError(f"{quantity!r} is not a quantity: expected a number such as 10Gi")
    if isinstance(quantity, int):
        return max(-MAX_QUANTITY, min(MAX_QUANTITY, quantity * NANO))
    return _parse(repr(quantity))


@remembered(_KNOWN_BYTES)
def _parse(text: str) -> int:
    stripped = text.strip()
    parts = _SCANNER.fullmatch(stripped)
    if parts is None or not stripped or not _SUFFIX_SHAPE.fullmatch(parts["suffix"]):
        raise QuantityError(f"{_quoted(text)} is not a quantity: expected a number and a unit such as 10Gi")
    whole, fraction, suffix = parts["whole"], parts["fraction"] or "", parts["suffix"]
    has_digits = any(map(str.isdigit, stripped[: len(stripped) - len(suffix)]))
    if suffix in _BINARY:
        short = not fraction and _BINARY[suffix] < 50
        magnitude = min(_MAX_BINARY, _scaled(whole + fraction, -len(fraction), factor=2 ** _BINARY[suffix]))
    else:
        exponent = _DECIMAL[suffix] if suffix in _DECIMAL else _exponent(text, suffix)
        short, magnitude = _decimal(whole, fraction, exponent)
    if not (has_digits or short):
        raise QuantityError(f"{_quoted(text)} is not a quantity: it has no digits before the unit")
    return -magnitude if parts["sign"] == "-" else magnitude


def _decimal(whole: str, fraction: str, exponent: int) -> tuple[bool, int]:
    """Return whether Go parses this as a short number (which needs no digits), and the amount in nano-units.

    Go keeps scales in 32 bits and lets them wrap, differently for short and long numbers; this does the same.
    """
    scale = _int32(exponent - len(fraction))
    short = max(1, len(whole)) + len(fraction) <= _SHORT_DIGITS and scale >= -9
    if not short:
        scale = -_int32(len(fraction) + _int32(-exponent))
    return short, _scaled(whole + fraction, scale)


def _exponent(text: str, suffix: str) -> int:
    digits = _EXPONENT.fullmatch(suffix)
    if digits is None or len(digits[1]) > 4000 or not -(2**63) <= int(digits[1]) < 2**63:
        units = "n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent"
        raise QuantityError(f"{_quoted(text)} is not a quantity: the unit {_quoted(suffix)} is not one of {units}")
    return _int32(int(digits[1]))


def _scaled(digits: str, exponent: int, factor: int = 1) -> int:
    """Return digits x factor x 10^exponent units in nano-units, rounded up, at most MAX_QUANTITY."""
    digits = digits.lstrip("0")
    exponent += 9
    if not digits:
        return 0
    if len(digits) + exponent > _MAX_DIGITS:
        return MAX_QUANTITY
    if exponent >= 0:
        return int(digits) * factor * int(10**exponent)
    if len(digits) + exponent < -20:  # too small to reach one nano-unit with any factor
        return 1
    kept = digits[: _MAX_DIGITS * 2]
    exponent += len(digits) - len(kept)
    lost = bool(digits[len(kept) :].strip("0"))
    divisor = int(10**-exponent)
    return (int(kept) * factor + divisor - 1 + lost) // divisor


def _int32(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")


def format_quantity(nano: int, *, binary: bool = True) -> str:
    """Return the shortest exact readable text: 10Gi, 1G, 500m. `binary=False` for what is not counted in bytes."""
    decimal = _format(nano, 1000, ("n", "u", "m", "", "k", "M", "G", "T", "P", "E"))
    if not binary or nano % NANO or abs(nano) > _MAX_BINARY:
        return decimal
    return min(_format(nano // NANO, 1024, ("", *_BINARY)), decimal, key=len)


def _format(amount: int, step: int, suffixes: tuple[str, ...]) -> str:
    if not amount:
        return "0"
    place = 0
    while place < len(suffixes) - 1 and amount % step == 0:
        amount //= step
        place += 1
    return f"{amount}{suffixes[place]}"
