"""Durations as Kubernetes users write them, `90s`, `5m`, `1h30m`, `500ms`, and ages as kubectl prints them."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

_UNITS: Final[Mapping[str, float]] = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART: Final = r"([0-9]+(?:[.][0-9]+)?)(h|ms|m|s)"
_WHOLE: Final = re.compile(f"(?:{_PART})+")


def parse_duration(text: str) -> timedelta:
    """Return the duration, or raise ValueError with a sentence for the user."""
    if _WHOLE.fullmatch(text) is None:
        raise ValueError(f'"{text}" is not a duration; expected one like 90s, 5m or 1h30m')
    try:
        return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, text)))
    except OverflowError:
        raise ValueError(f'"{text}" is too long a duration') from None


def format_duration(duration: timedelta) -> str:
    """Return the shortest text that `parse_duration` reads back as this duration."""
    milliseconds = round(duration.total_seconds() * 1000)
    parts = []
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def age_text(age: timedelta) -> str:
    """Return an age as kubectl prints it: 45s, 14m, 3h, 2d."""
    seconds = max(0, int(age.total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size or (seconds >= size and unit != "d"):
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
