"""docs/why.md and the schema beside it say what the program does."""

import json
import re
from pathlib import Path

import msgspec

from binder.matching.rejection import Reason
from prebinder.why.report.report import WhyReport

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/why.md").read_text()
SCHEMA = ROOT / "docs/why.schema.json"


def schema() -> str:
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(WhyReport), order="sorted"), indent=2).decode()


def test_the_schema_is_that_of_the_report() -> None:
    expected = schema() + "\n"
    assert SCHEMA.read_text() == expected, f"write this to {SCHEMA.name}:\n{expected}"


def test_the_example_is_a_report_with_every_field() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    report = msgspec.json.decode(example, type=WhyReport)
    assert json.loads(msgspec.json.encode(report)) == json.loads(example)


def test_every_code_that_a_check_returns_is_explained() -> None:
    table = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| `.*", PAGE, re.MULTILINE))))
    used = set()
    for module in (ROOT / "prebinder/why/causes").glob("*.py"):
        used |= set(re.findall(r"(?:Finding\(\s*|code = |, )Reason\.([A-Z_]+)", module.read_text()))
    about_nodes = {Reason.VOLUME_ZONE_MISMATCH, Reason.INSUFFICIENT_RESOURCES, Reason.CLAIMED_BY_OTHER}
    codes = {Reason[name] for name in used} - about_nodes
    assert {str(code) for code in codes} <= table
