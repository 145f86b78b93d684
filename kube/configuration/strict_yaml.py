"""YAML of configuration files, without its traps: duplicate keys, and `off` read as false.

Aliases are rejected, because a few lines of them can expand to more than any memory holds.
"""

from collections.abc import Hashable
from typing import Any

import yaml


def load_strictly(text: str) -> object:
    """Return the content of a document. Raises ValueError if it is not YAML, has aliases or a duplicate key."""
    try:
        return yaml.load(text, Loader=_StrictLoader)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except yaml.YAMLError as error:
        raise ValueError(f"invalid YAML: {_described(error)}") from error


def line_of(text: str, place: tuple[str | int, ...]) -> int | None:
    """Return the line, from 1, of a place in a document: that of the nearest key above it.

    None if the document has no such place.
    """
    node = yaml.compose(text, Loader=_StrictLoader)
    line: int | None = None
    for step in place:
        below = _below(node, step)
        if below is None:
            return line
        line, node = below
    return line


def _below(node: yaml.Node | None, step: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == step:
                return key.start_mark.line + 1, value
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark.line + 1, node.value[step]
    return None


def _described(error: yaml.YAMLError) -> str:
    """Return the error and its position, in one line."""
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    if mark is None:
        return " ".join(str(error).split())
    problem = str(error.problem)  # type: ignore[attr-defined]
    hint = "; indent with spaces" if r"'\t'" in problem else ""
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}{hint}"


class _StrictLoader(yaml.SafeLoader):
    """Only true and false are booleans, as in YAML 1.2, so that `mode: off` means what it says."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool" or first in "tTfF"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            place = f"alias *{event.anchor} on line {event.start_mark.line + 1}"
            raise ValueError(f"{place}: aliases are not supported; write the value out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key in (self.construct_object(key, deep=True) for key, _ in node.value):
            if not isinstance(key, Hashable):
                continue  # rejected below, with its place
            if key in seen:
                raise ValueError(f'duplicate key "{key}" near line {node.end_mark.line}')
            seen.add(key)
        return super().construct_mapping(node, deep)
