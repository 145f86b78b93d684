"""What others wrote is exactly one word of a next command, whatever it contains."""

import ast
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pytest

from kube.plain_text import field_value
from tests.why.documents import NAMESPACE, Document, facts_of
from tests.why.dumps import test_claims, test_claims_in_clusters, test_on_call, test_pods
from tests.why.hostile import Place, leaves, renamed, renaming, with_value
from tests.why.page_examples import EXAMPLES, Example
from why.errors import WhyError
from why.explain.answering import report_on
from why.explain.targets import Target, parse_target
from why.facts.facts import Source
from why.report.report import Item

ROOT: Final = Path(__file__).parents[2]
EVIL: Final = "$(touch${IFS}x)'\"`id`;&|>*\\"
FLAG: Final = f"--server=http://{EVIL}"
QUOTED: Final = re.compile(r"'[^']*'|\"'\"")
SAFE: Final = re.compile(r"[\w@%+=:,./ -]*( \| grep [\w@%+=:,./ -]*)?")

ABOUT_CODES: Final = {str(reason): example for reason, example in EXAMPLES.items() if isinstance(example, Example)}
DUMPS: Final = {**test_claims.DUMPS, **test_claims_in_clusters.DUMPS, **test_on_call.DUMPS, **test_pods.DUMPS}
CASES: Final[dict[str, tuple[Sequence[Document], str, Sequence[Source]]]] = {
    **{code: (example.documents, example.target, example.without) for code, example in ABOUT_CODES.items()},
    **{name: (dump.documents, dump.target, ()) for name, dump in DUMPS.items()},
}


def items_of(
    documents: Sequence[Document], target: Target | None, namespace: str, without: Sequence[Source]
) -> Sequence[Item]:
    targets = () if target is None else (target,)
    return report_on(facts_of(*documents, without=without), targets, namespace).items


def target_after(target: Target, place: Place, value: str, documents: Sequence[Document]) -> Target:
    """Return the target by the name that it has after this change."""
    number, *field = place
    changed = documents[number]
    is_named = field == ["metadata", "name"] and changed["kind"] == target.kind
    return replace(target, name=value) if is_named and changed["metadata"]["name"] == target.name else target


@pytest.mark.parametrize("example", ABOUT_CODES.values(), ids=ABOUT_CODES)
def test_no_field_gets_out_of_its_word(example: Example) -> None:
    for place, text in leaves(example.documents):
        for value in (f"{text} {EVIL}", FLAG):
            target = target_after(parse_target(example.target), place, value, example.documents)
            namespace = value if place[1:] == ("metadata", "namespace") else NAMESPACE
            try:
                items = items_of(with_value(example.documents, place, value), target, namespace, example.without)
            except WhyError:
                continue  # the object is in another namespace now
            for command in chain.from_iterable(item.next for item in items):
                assert SAFE.fullmatch(QUOTED.sub("", command)), (place, command)
                assert not any(word.startswith("--server") for word in shlex.split(command)), (place, command)


def meaning(word: str) -> Any:
    """Return the content of JSON, and of a string in a path of JSON; others mean themselves."""
    if word.startswith(("[", '{"')):
        return json.loads(word)
    string = re.search(r'@\.name==(".*")\)', word)
    return [word[: string.start()], json.loads(string[1])] if string else word


def without_ends(value: Any) -> Any:
    """Return the value without the hostile ends of its names, if they are whole."""
    if isinstance(value, dict):
        return {key: without_ends(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_ends(each) for each in value]
    return value.replace(field_value(EVIL), "").replace(EVIL, "")


def commands(case: str) -> Iterator[tuple[str, str]]:
    """Yield each command, and what it is where every name has a hostile end, if the cause is still the same."""
    documents, named, without = CASES[case]
    rename = renaming(documents, EVIL)
    target = parse_target(named) if named else None
    other = None if target is None else replace(target, name=rename(target.name))
    before = items_of(documents, target, NAMESPACE, without)
    try:
        after = items_of(renamed(documents, rename), other, rename(NAMESPACE), without)
    except WhyError:  # A volume is held for no replica that has such an end.
        return
    for item, same in zip(before, after, strict=False):
        if item.code == same.code:
            yield from zip(item.next, same.next, strict=False)


def test_each_word_is_the_one_that_is_meant() -> None:
    compared = 0
    for case in CASES:
        for command, hostile in commands(case):
            words, hostile_words = shlex.split(command), shlex.split(hostile)
            if len(words) == len(hostile_words):
                compared += EVIL in hostile.replace("'\"'\"'", "'")
                assert without_ends([meaning(word) for word in hostile_words]) == list(map(meaning, words)), case
    assert compared > 100


def interpolated(module: Path) -> Iterator[str]:
    """Yield the commands that a module puts together by itself."""
    for text in ast.walk(ast.parse(module.read_text())):
        if isinstance(text, ast.JoinedStr) and "kubectl " in ast.unparse(text):
            values = (part.value for part in text.values if isinstance(part, ast.FormattedValue))
            if any(not (isinstance(value, ast.Name) and value.id.isupper()) for value in values):
                yield ast.unparse(text)


def test_only_one_place_puts_names_into_commands() -> None:
    modules = sorted((ROOT / "why" / "causes").rglob("*.py"))
    assert modules
    assert [command for module in modules for command in interpolated(module)] == []
