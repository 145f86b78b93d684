"""YAML of configuration files, without its traps: a key given twice, and `off` read as false."""

from collections.abc import Hashable
from typing import Any

import yaml


def load_strictly(text: str) -> object:
    """Return what a document says. Raises ValueError when it is not YAML, or says a key twice."""
    try:
        return yaml.load(text, Loader=_StrictLoader)
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {' '.join(str(error).split())}") from error


class _StrictLoader(yaml.SafeLoader):
    """Only true and false are booleans, as in YAML 1.2, so that `mode: off` means what it says."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool" or first in "tTfF"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise ValueError(f'key "{key}" is given twice, the second time near line {node.end_mark.line}')
        return super().construct_mapping(node, deep)
