"""Durations as Kubernetes users write them, `90s`, `5m`, `1h30m`, `500ms`, and ages as kubectl prints them."""

import re
from datetime import timedelta
from typing import Final

import durationpy

_KUBERNETES: Final = re.compile(r"(?:[0-9]+(?:[.][0-9]+)?(?:h|ms|m|s))+")
"""The units in use there; durationpy also reads years, which Kubernetes does not."""
_ISO: Final = re.compile(r"P[0-9DTHMS.]+")


def parse_duration(text: str) -> timedelta:
    """Return the duration, written as in Kubernetes or, as schemas have it, by ISO 8601: `PT10M`.

    Raises ValueError with a sentence for the user.
    """
    try:
        if _ISO.fullmatch(text) is not None and (duration := _of_schema(text)) is not None:
            return duration
        if _KUBERNETES.fullmatch(text) is not None:
            return durationpy.from_str(text)
    except (durationpy.DurationError, OverflowError):
        raise ValueError(f'"{text}" is too long a duration') from None
    raise ValueError(f'"{text}" is not a duration; expected one like 90s, 5m or 1h30m')


def _of_schema(text: str) -> timedelta | None:
    import msgspec  # noqa: PLC0415 - the help does without it

    try:
        return msgspec.convert(text, timedelta)
    except msgspec.ValidationError:
        return None


def format_duration(duration: timedelta) -> str:
    """Return the text that `parse_duration` reads back as this duration, as Kubernetes writes it: `10m`."""
    return durationpy.to_str(duration) if duration else "0s"


def age_text(age: timedelta) -> str:
    """Return an age as kubectl prints it: 45s, 14m, 3h, 2d."""
    seconds = max(0, int(age.total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size or (seconds >= size and unit != "d"):
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
