"""Nothing that others wrote acts on a terminal, whatever a command prints, and wherever it was written."""

import ast
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import pytest
import yaml

from prebinder.cli import main
from tests.prebinder.dump_file import write_dump
from tests.test_architecture import modules
from tests.why.documents import Document
from tests.why.hostile import leaves, renamed, renaming, with_value
from tests.why.page_examples import EXAMPLES, Example

ROOT: Final = Path(__file__).parents[2]
EVIL: Final = "\x1b[2J\x1b]0;x\x07\x9b31m\x7f\u202e\u2066\u2028\r[red]x[/red]\nforged"
WRITERS: Final = {
    "prebinder/cli.py",
    "prebinder/plugin.py",
    "prebinder/command_line/configured.py",
    "prebinder/command_line/output.py",
    "prebinder/commands/completion.py",
    "prebinder/commands/version.py",
    "prebinder/commands/run/scheduler.py",
    "prebinder/commands/dev/devcluster.py",
    "prebinder/commands/dev/profile.py",
    "prebinder/view/process.py",
    "why/rendering/lines.py",
    "why/rendering/printer.py",
}
"""Modules that write by themselves: our own words, or what has been made printable."""

COMMANDS: Final = {
    "why": ("why", "-A"),
    "why of a namespace": ("why", "-n", "web", "-o", "wide"),
    "why as JSON": ("why", "-A", "-o", "json"),
    "why as YAML": ("why", "-A", "-o", "yaml"),
    "why as names": ("why", "-A", "-o", "name"),
    "match": ("match",),
    "match as JSON": ("match", "-o", "json"),
    "simulate": ("simulate",),
    "simulate as JSON": ("simulate", "-o", "json"),
}
EXAMPLE_DOCUMENTS: Final = {
    str(reason): example.documents for reason, example in EXAMPLES.items() if isinstance(example, Example)
}


def acting(text: str) -> set[str]:
    """Return the characters that act on a terminal."""
    return {each for each in text if not each.isprintable() and each != "\n"}


def hostile(documents: Sequence[Document]) -> Iterator[list[Document]]:
    """Yield documents whose names all have a hostile end, and those in which each other text has one."""
    yield renamed(documents, renaming(documents, EVIL))
    changed = list(documents)
    for place, text in leaves(documents):
        if place[-1] not in {"name", "namespace"}:
            changed = with_value(changed, place, f"{text}{EVIL}")
    yield changed


def printed(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    main(arguments)
    output, errors = capsys.readouterr()
    assert "this is a bug" not in errors
    if arguments[-3:-2] == ["json"]:
        json.loads(output or "{}")
    return output + errors


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_nothing_acts_on_a_terminal(command: Sequence[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    every = 10 if command[0] == "simulate" else 1  # which only counts
    for code, documents in islice(EXAMPLE_DOCUMENTS.items(), 0, None, every):
        for changed in hostile(documents):
            text = printed([*command, "-f", write_dump(tmp_path, changed)], capsys)
            assert not acting(text), (code, acting(text))
            assert not any(line.startswith("forged") for line in text.splitlines()), code


def test_documents_for_programs_mean_what_was_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = EXAMPLE_DOCUMENTS["StorageClassNotFound"]
    path = write_dump(tmp_path, renamed(documents, renaming(documents, EVIL)))
    main(["why", "-A", "-o", "json", "-f", path])
    as_json = json.loads(capsys.readouterr().out)
    main(["why", "-A", "-o", "yaml", "-f", path])
    as_yaml = yaml.safe_load(capsys.readouterr().out)
    assert as_json["items"][0]["name"].endswith(EVIL)
    assert as_yaml["items"][0]["name"] == as_json["items"][0]["name"]


def writing(module: Path) -> Iterator[int]:
    """Yield the lines in which a module writes more than a constant to a standard stream."""
    calls = (node for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Call) and node.args)
    for call in calls:
        function = ast.unparse(call.func)
        is_write = function == "print" or function.startswith(("sys.stdout.", "sys.stderr."))
        if is_write and not isinstance(call.args[0], ast.Constant):
            yield call.lineno


def test_few_modules_write_to_the_standard_streams() -> None:
    named = {str(module.relative_to(ROOT)) for module in modules("prebinder", "why") if any(writing(module))}
    assert named == WRITERS
