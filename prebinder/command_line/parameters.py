"""The types of flags beyond click's own: each parses a text or states in a sentence what was expected."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from enum import StrEnum
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin

import click
from click.shell_completion import CompletionItem

from csi.client.endpoint import Endpoint, parse_endpoint
from kube.configuration.nearest import did_you_mean
from kube.rules.duration import parse_duration
from prebinder.config.feature_gates import FeatureGates, parse_gates


class Reading(click.ParamType[Any]):
    """Parses a text by a function that raises ValueError with a sentence for the user."""

    def __init__(self, name: str, read: Callable[[str], object]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


Completions = Callable[[click.Context, str], Iterable[CompletionItem]]
"""Returns what a beginning may become; the context has the values given so far."""


class Completing(Reading):
    """As Reading, of texts that the shell completes."""

    def __init__(self, name: str, read: Callable[[str], object], completions: Completions) -> None:
        super().__init__(name, read)
        self._completions = completions

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return list(self._completions(ctx, incomplete))


class OneOf(click.ParamType[Any]):
    """One of several words, which the shell completes."""

    name = "word"

    def __init__(self, words: Iterable[str]) -> None:
        self._words = tuple(words)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        known = {str(word): word for word in self._words}
        if value not in known:
            meant = did_you_mean(value, known).rstrip(".")
            self.fail(f'expected {", ".join(known)}, found "{value}"{meant}', param, ctx)
        return known[value]

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(str(word)) for word in self._words if str(word).startswith(incomplete)]


def _number(kind: type[int] | type[float], expected: str) -> Callable[[str], object]:
    def read(text: str) -> object:
        try:
            return kind(text)
        except ValueError:
            raise ValueError(f'expected {expected}, found "{text[:60]}"') from None

    return read


def whole_number(least: int, most: int) -> Reading:
    """Return the type of an integer between these."""

    def read(text: str) -> int:
        digits = text.isascii() and text.isdigit() and len(text) <= len(str(most))
        if not (digits and least <= int(text) <= most):
            raise ValueError(f'expected a whole number from {least} to {most}, found "{text[:60]}"')
        return int(text)

    return Reading("number", read)


def _timeout(text: str) -> timedelta:
    """Return a duration as kubectl takes it: a number of seconds, too."""
    return timedelta(seconds=int(text)) if text.isdecimal() and len(text) <= 9 else parse_duration(text)


WHOLE_NUMBER: Final = Reading("number", _number(int, "a whole number"))
NUMBER: Final = Reading("number", _number(float, "a number"))
DURATION: Final = Reading("duration", parse_duration)
TIMEOUT: Final = Reading("duration", _timeout)
ENDPOINT: Final = Reading("endpoint", parse_endpoint)
FEATURE_GATES: Final = Reading("gates", parse_gates)
FILE: Final = click.Path()
"""A path; the shell completes it."""


def type_of(kind: Any, metavar: str) -> click.ParamType[Any]:
    """Return the type of the flag that sets a field of this kind, which may be None without the flag."""
    kind = next((part for part in get_args(kind) if get_args(kind)[1:] == (NoneType,)), kind)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return OneOf(kind)
    if get_origin(kind) is Literal:
        return OneOf(get_args(kind))
    types: dict[Any, click.ParamType[Any]] = {
        int: WHOLE_NUMBER,
        float: NUMBER,
        timedelta: DURATION,
        tuple[Endpoint, ...]: ENDPOINT,
        FeatureGates: FEATURE_GATES,
    }
    return types.get(kind, FILE if metavar == "FILE" else click.STRING)
