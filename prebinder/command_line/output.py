"""The forms in which commands print their documents: a table for people, JSON or YAML for programs."""

import sys
from enum import StrEnum
from typing import Any

import msgspec
import yaml

from kube.plain_text import printable
from why.rendering.lines import json_of, write_json


class Output(StrEnum):
    """A form of output."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def write_document(document: Any, output: Output, *, one_of_many: bool = False) -> None:
    """Write a document to the standard output; `one_of_many` on one line of JSON, or after a separator of YAML."""
    if output is Output.YAML:
        # Through JSON, so that both forms have the same types and nothing that acts on a terminal.
        plain = msgspec.json.decode(json_of(document))
        text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=False, explicit_start=one_of_many)
        sys.stdout.write("".join(f"{printable(line)}\n" for line in text.splitlines()))
    else:
        write_json(document, pretty=not one_of_many)
