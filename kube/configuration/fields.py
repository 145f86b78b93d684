"""How the fields of a dataclass appear in a configuration file. It loads nothing that reads files: settings that come
from flags need neither YAML nor pydantic.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

T = TypeVar("T")

_MAX_SHOWN: Final = 60
"""Characters of a wrong value that are shown."""
_MAX_NUMBER_BITS: Final = 100
"""Bits. Python does not print numbers of thousands of digits."""


def camel(name: str) -> str:
    """Return a field's name as a key: `reservation_ttl` is `reservationTTL`."""
    first, *rest = name.split("_")
    return first + "".join({"ttl": "TTL", "https": "HTTPS", "url": "URL"}.get(word, word.capitalize()) for word in rest)


CAMEL_KEYS: Final[Mapping[str, object]] = {
    "extra": "forbid",
    "alias_generator": camel,
    "use_attribute_docstrings": True,
}
"""The `__pydantic_config__` of a dataclass that appears in a file: keys in camelCase, and no others."""


@dataclass(frozen=True, slots=True)
class AsText(Generic[T]):
    """Annotates a field whose value is text in a file.

    `read` raises ValueError with a sentence for the user, `write` returns what it reads back, `expected` describes it.
    """

    read: Callable[[str], T]
    write: Callable[[T], str]
    expected: str

    def __get_pydantic_core_schema__(self, _source: object, _handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core import core_schema  # noqa: PLC0415 - only pydantic calls this

        return core_schema.no_info_plain_validator_function(
            self._read,
            json_schema_input_schema=core_schema.str_schema(),
            serialization=core_schema.plain_serializer_function_ser_schema(
                self.write, return_schema=core_schema.str_schema()
            ),
        )

    def _read(self, value: object) -> T:
        if not isinstance(value, str):
            raise ValueError(f"expected {self.expected}, found {show(value)}")
        return self.read(value)


def show(value: object) -> str:
    """Return a value as its author wrote it, shortened."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case int() if value.bit_length() > _MAX_NUMBER_BITS:
            return "a very long number"
        case int() | float():
            return str(value)
        case str():
            return f'"{value[:_MAX_SHOWN]}"'
        case bytes():
            return "bytes"
        case _:
            return "a list" if isinstance(value, list | tuple) else "a mapping"
