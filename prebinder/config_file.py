"""The configuration file: YAML, versioned, decoded strictly. An unknown key or a wrong type is an error that names it.

Keys are the fields of `prebinder.settings` in camelCase; what is left out keeps its default.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import Any, Final, TypeVar, get_args, get_type_hints

import yaml

from csi.endpoint import Endpoint, parse_endpoint
from kube.strict_yaml import load_strictly
from prebinder.duration import format_duration, parse_duration
from prebinder.errors import UsageError
from prebinder.nearest import did_you_mean
from prebinder.settings import Settings

API_VERSION: Final = "config.pvc-prebinder/v1alpha1"
KIND: Final = "ControllerConfiguration"

T = TypeVar("T")


def load(path: str) -> Settings:
    """Read the file, or raise UsageError that names the file, the key and what was expected."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the configuration file {path}: {getattr(error, 'strerror', error)}.") from error
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"configuration file {path}: {error}") from error


def parse(text: str) -> Settings:
    """Return the settings in a document, or raise ValueError with the path of the key that is wrong."""
    document = load_strictly(text)
    if not isinstance(document, Mapping):
        raise ValueError(f"expected a mapping with apiVersion and kind, found {_found(document)}")
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.get(key) != expected:
            raise ValueError(f'{key}: expected "{expected}", found {_found(document.get(key))}')
    return _group(Settings, {key: document[key] for key in document if key not in {"apiVersion", "kind"}}, "")


def dump(settings: Settings) -> str:
    """Return the settings as a document that `parse` reads back."""
    document = {"apiVersion": API_VERSION, "kind": KIND, **_plain(settings)}
    return str(yaml.safe_dump(document, sort_keys=False))


def convert(kind: Any, value: object) -> Any:
    """Return `value` as the type of a settings field, or raise ValueError that says what was expected."""
    if isinstance(kind, UnionType):
        # The only unions among the settings are with None, which means "not said".
        return None if value is None else convert(next(one for one in get_args(kind) if one is not type(None)), value)
    if kind is timedelta and isinstance(value, str):
        return parse_duration(value)
    if isinstance(kind, type) and issubclass(kind, StrEnum) and isinstance(value, str):
        if value not in list(kind):
            raise ValueError(f'expected {", ".join(kind)}, found "{value}"{did_you_mean(value, kind)}')
        return kind(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is kind:
        return value
    raise ValueError(f"expected {_EXPECTED.get(kind, 'text')}, found {_found(value)}")


_EXPECTED: Final = {bool: "true or false", int: "a whole number", float: "a number", timedelta: "a duration like 5m"}


def _group(group: type[T], found: object, path: str) -> T:
    """Return a group of settings; `path` is its place in the document, empty at the top."""
    if not isinstance(found, Mapping):
        raise ValueError(f"{path}: expected a mapping, found {_found(found)}")
    types = get_type_hints(group)
    names = {_camel(one.name): one.name for one in fields(group)}  # type: ignore[arg-type]
    values = {}
    for key, value in found.items():
        place = f"{path}.{key}" if path else str(key)
        if key not in names:
            raise ValueError(f"{place}: unknown key{did_you_mean(str(key), names)}")
        values[names[key]] = _field(types[names[key]], value, place)
    try:
        return group(**values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _field(kind: Any, value: object, place: str) -> Any:
    if is_dataclass(kind):
        return _group(kind, value, place)  # type: ignore[arg-type]
    try:
        return _LISTS[kind](value) if kind in _LISTS else convert(kind, value)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


def _endpoints(value: object) -> tuple[Endpoint, ...]:
    return tuple(parse_endpoint(one) for one in _texts(value, "NAME=unix:///path"))


def _texts(value: object, expected: str = "names") -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"expected a list of {expected}, found {_found(value)}")
    return tuple(value)


_LISTS: Final[Mapping[Any, Callable[[object], Any]]] = {tuple[Endpoint, ...]: _endpoints, tuple[str, ...]: _texts}


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, Endpoint | type):
        return {_camel(one.name): _plain(getattr(value, one.name)) for one in fields(value)}
    match value:
        case Endpoint():
            return f"{value.driver}={value}"
        case tuple():
            return [_plain(one) for one in value]
        case timedelta():
            return format_duration(value)
        case StrEnum():
            return value.value
        case _:
            return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join({"ttl": "TTL"}.get(word, word.capitalize()) for word in rest)


def _found(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case _:
            return f"{type(value).__name__} {value!r}"
