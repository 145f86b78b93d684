"""docs/why.md and the schema beside it say what the program does."""

import json
import re
from inspect import cleandoc
from pathlib import Path

import msgspec

from why.report.report import WhyReport

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/why.md").read_text()
SCHEMA = ROOT / "docs/why.schema.json"


def schema() -> str:
    document = msgspec.json.schema(WhyReport)
    for definition in document["$defs"].values():
        if "description" in definition:  # a docstring, which Python 3.13 strips of its indentation
            definition["description"] = cleandoc(definition["description"])
    return msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=2).decode()


def test_the_schema_is_that_of_the_report() -> None:
    expected = schema() + "\n"
    assert SCHEMA.read_text() == expected, f"write this to {SCHEMA.name}:\n{expected}"


def test_the_example_is_a_report_with_every_field() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    report = msgspec.json.decode(example, type=WhyReport)
    assert json.loads(msgspec.json.encode(report)) == json.loads(example)
