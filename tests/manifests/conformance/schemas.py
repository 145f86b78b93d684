"""JSON schemas of Kubernetes' kinds for kubeconform, made from what an API server itself publishes (/openapi/v2).

Strict: a field that the API server does not know is an error, as with `kubectl apply --validate=strict`.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

Schema = dict[str, Any]

LOCATION: Final = "{{.ResourceKind}}{{.KindSuffix}}.json"
"""How kubeconform is to name the file of a kind: lower case, and `-GROUP-VERSION`, of the group its first word only."""

_DEFINITIONS: Final = "#/definitions/"
_KINDS: Final = "x-kubernetes-group-version-kind"
_LOOSE: Final[Mapping[str, Schema]] = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": ["string", "integer"]},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": ["string", "number"]},
}
"""What OpenAPI 2 can only describe as a string."""


def write_schemas(openapi: Schema, directory: Path) -> None:
    """Write one file for each kind that the API server serves, each with all that it refers to."""
    definitions = {name: _LOOSE.get(name) or _strict(schema) for name, schema in openapi["definitions"].items()}
    for name, schema in definitions.items():
        for kind in schema.get(_KINDS, ()):
            needed = {other: definitions[other] for other in _reachable(name, definitions)}
            document = {"$ref": _DEFINITIONS + name, "definitions": needed}
            (directory / file_name(kind["group"], kind["version"], kind["kind"])).write_text(json.dumps(document))


def file_name(group: str, version: str, kind: str) -> str:
    """Return the name that LOCATION stands for."""
    word = f"{group.partition('.')[0]}-" if group else ""
    return f"{kind}-{word}{version}.json".lower()


def _strict(schema: Any) -> Any:
    """Return the schema without fields that are not listed."""
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _strict(value) for key, value in schema.items()}
    if isinstance(made.get("properties"), dict) and made.get("type", "object") == "object":
        made.setdefault("additionalProperties", False)
    return made


def _reachable(name: str, definitions: Mapping[str, Schema]) -> set[str]:
    reached, left = set[str](), [name]
    while left:
        current = left.pop()
        if current not in reached:
            reached.add(current)
            left.extend(_references(definitions[current]))
    return reached


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix(_DEFINITIONS)
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _references(item)
