"""Configuration files: YAML, versioned, decoded strictly by a dataclass. Errors name path and line.

pydantic decodes. It is imported when a document is read: a process that is configured by flags does not need it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import yaml

from kube.configuration.fields import CAMEL_KEYS, show
from kube.configuration.nearest import did_you_mean, nearest
from kube.configuration.strict_yaml import line_of, load_strictly
from kube.rules.duration import format_duration

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError
    from pydantic.json_schema import GenerateJsonSchema
    from pydantic_core import ErrorDetails

API_VERSION: Final = "config.pvc-prebinder/v1alpha1"

T = TypeVar("T")
Place = tuple[str | int, ...]
Schema = Mapping[str, Any]


class ConfigurationError(ValueError):
    """A document that cannot be used. `place` is a path such as `profiles[0].scores.BinPack`, empty for the whole
    document.

    `line` is where in the text that is, None if it has no line.
    """

    def __init__(self, place: str, problem: str, line: int | None = None) -> None:
        where = f" (line {line})" if line is not None else ""
        super().__init__(f"{place}: {problem}{where}" if place else f"{problem}{where}")
        self.place = place
        self.problem = problem
        self.line = line


@dataclass(frozen=True, slots=True)
class ConfigurationFile(Generic[T]):
    """A kind of configuration file. `content` is a dataclass whose fields are its keys besides apiVersion and kind."""

    kind: str
    content: type[T]
    api_version: str = API_VERSION

    def parse(self, text: str) -> T:
        """Return the content of a document. Raises ConfigurationError for the first error."""
        try:
            document = load_strictly(text)
        except ValueError as error:
            raise ConfigurationError("", str(error)) from error
        content = self._without_head(document, text)
        for place, key in _odd_keys(content, ()):
            problem = f"expected a string as a key, found {show(key)}; put it in quotes"
            raise ConfigurationError(path_of(place), problem, line_of(text, place))
        return self._decode(content, text)

    def dump(self, content: T) -> str:
        """Return the document that `parse` reads back, defaults included."""
        values = self._adapter().dump_python(content, mode="json", by_alias=True)
        document = {"apiVersion": self.api_version, "kind": self.kind, **values}
        return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)

    def schema(self) -> dict[str, Any]:
        schema = self._adapter().json_schema(by_alias=True, schema_generator=_schema_generator())
        head = {"apiVersion": {"const": self.api_version}, "kind": {"const": self.kind}}
        schema["properties"] = {**head, **schema.get("properties", {})}
        schema["required"] = [*head, *schema.get("required", ())]
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": self.kind}

    def _without_head(self, document: object, text: str) -> Mapping[Any, object]:
        """Report first that it is another kind of file: every other error would follow from that."""
        if not isinstance(document, Mapping):
            raise ConfigurationError("", f"expected a mapping with apiVersion and kind, found {show(document)}")
        for key, expected in (("apiVersion", self.api_version), ("kind", self.kind)):
            if document.get(key) != expected:
                problem = f'expected "{expected}", found {show(document.get(key))}'
                raise ConfigurationError(key, problem, line_of(text, (key,)))
        return {key: value for key, value in document.items() if key not in {"apiVersion", "kind"}}

    def _decode(self, content: Mapping[Any, object], text: str) -> T:
        from pydantic import ValidationError  # noqa: PLC0415 - loaded only where a document is read

        adapter = self._adapter()
        try:
            # The JSON mode is the strict one in which lists are accepted as tuples and strings as enumeration members.
            return adapter.validate_json(json.dumps(content, default=str), strict=True)
        except ValidationError as error:
            raise misfit(error, adapter, text) from error

    def _adapter(self) -> "TypeAdapter[T]":
        from pydantic import TypeAdapter  # noqa: PLC0415 - as above

        return TypeAdapter(self.content)


def _schema_generator() -> "type[GenerateJsonSchema]":
    """Return what writes schemas in which a default is a text that a file can have."""
    from pydantic.json_schema import GenerateJsonSchema  # noqa: PLC0415 - as above

    class Defaults(GenerateJsonSchema):
        def encode_default(self, dft: Any) -> Any:
            return format_duration(dft) if isinstance(dft, timedelta) else super().encode_default(dft)

    return Defaults


def misfit(
    error: "ValidationError", adapter: "TypeAdapter[Any]", text: str | None = None, place: Place = ()
) -> ConfigurationError:
    """Return pydantic's first error in terms of the document.

    `place` is where in the document the decoded part is.
    """
    errors = error.errors(include_url=False)
    # An unknown key is often a mistyped one of those that are missing.
    first = next((detail for detail in errors if detail["type"] in _UNKNOWN_KEY), errors[0])
    there = (*place, *first["loc"])
    line = None if text is None else line_of(text, there)
    return ConfigurationError(path_of(there), _problem(first, adapter.json_schema(by_alias=True)), line)


def decode_part(kind: type[T], content: object, text: str, place: Place) -> T:
    """Return the content of a part of a document, as a dataclass that does not depend on documents.

    Its keys are the fields in camelCase, and no others. Raises ConfigurationError with the place in the whole document.
    """
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - loaded only where a document is read

    foreign = is_dataclass(kind) and not hasattr(kind, "__pydantic_config__")
    spelled = {"__pydantic_config__": CAMEL_KEYS, "__slots__": (), "__module__": kind.__module__}
    adapter: TypeAdapter[T] = TypeAdapter(type(kind.__name__, (kind,), spelled) if foreign else kind)
    try:
        return adapter.validate_json(json.dumps(content, default=str), strict=True)
    except ValidationError as error:
        raise misfit(error, adapter, text, place) from error


def dump_part(value: object) -> Any:
    """Return what `decode_part` decodes to the same value."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - as above

    return TypeAdapter(type(value)).dump_python(value, mode="json", by_alias=True)


def path_of(place: Place) -> str:
    """Return a place in the usual notation: `profiles[0].scores`."""
    path = ""
    for step in place:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


_EXPECTED: Final[Mapping[str, str]] = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a string",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "dataclass_type": "a mapping",
    "none_required": "nothing",
}
"""Type of a pydantic error -> what was expected, in terms of YAML."""


_UNKNOWN_KEY: Final = frozenset({"unexpected_keyword_argument", "extra_forbidden"})


def _problem(error: "ErrorDetails", schema: Schema) -> str:
    kind, shown = error["type"], show(error["input"])
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}, found {shown}"
    if kind in _UNKNOWN_KEY:
        *above, key = error["loc"]
        keys = list(_schema_at(schema, above).get("properties", ()))
        meant = nearest(str(key), keys)
        return f'unknown key; did you mean "{meant}"?' if meant else f"unknown key; expected {', '.join(keys)}"
    if kind in {"missing", "missing_argument"}:
        return "is required"
    if kind in {"enum", "literal_error"}:
        words = [str(word) for word in _schema_at(schema, error["loc"]).get("enum", ())]
        suggestion = did_you_mean(str(error["input"]), words).rstrip(".")
        return f"expected {', '.join(words)}, found {shown}{suggestion}"
    if kind == "value_error":
        return str(error["ctx"]["error"])
    return _limit(error, schema) or f"{error['msg']}, found {shown}"


def _limit(error: "ErrorDetails", schema: Schema) -> str:
    """Return the limit that a value of the right type exceeds, empty for any other error."""
    limits, shown = error.get("ctx", {}), show(error["input"])
    match error["type"]:
        case "too_short":
            return f"expected at least {limits['min_length']} entries, found {limits['actual_length']}"
        case "string_too_short":
            return "is empty"
        case "string_too_long":
            return f"expected at most {limits['max_length']} characters"
        case "string_pattern_mismatch":
            return f'expected lower-case letters, digits, "-" and ".", found {shown}'
        case "greater_than_equal" | "less_than_equal" | "greater_than" | "less_than":
            return f"expected {_bounds(_schema_at(schema, error['loc']))}, found {shown}"
        case _:
            return ""


def _bounds(schema: Schema) -> str:
    low, high = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum")
    number = "a whole number" if schema.get("type") == "integer" else "a number"
    if high is None:
        return f"{number} of at least {low}" if "minimum" in schema else f"{number} greater than {low}"
    return f"{number} of at most {high}" if low is None else f"{number} from {low} to {high}"


def _schema_at(schema: Schema, place: "tuple[str | int, ...] | list[str | int]") -> Schema:
    """Return the part of a JSON schema that describes a place, empty if none does."""
    part = _resolved(schema, schema)
    for step in place:
        below = part.get("items") if isinstance(step, int) else part.get("properties", {}).get(step)
        if below is None and isinstance(step, str):
            below = part.get("additionalProperties")
        if not isinstance(below, Mapping):
            return {}
        part = _resolved(below, schema)
    return part


def _resolved(part: Schema, schema: Schema) -> Schema:
    """Follow a reference, and leave out "or null"."""
    options = [option for option in part.get("anyOf", ()) if option.get("type") != "null"]
    part = options[0] if len(options) == 1 else part
    reference = part.get("$ref")
    if reference is None:
        return part
    return dict(schema["$defs"][reference.rpartition("/")[2]])


def _odd_keys(value: object, place: Place) -> Iterator[tuple[Place, object]]:
    """Yield the keys that are not strings, with the place of the mapping they are in."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            if not isinstance(key, str):
                yield place, key
            else:
                yield from _odd_keys(below, (*place, key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from _odd_keys(below, (*place, index))
