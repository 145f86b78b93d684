"""The rules about texts that a machine can check."""

import ast
import logging
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.test_architecture import PRODUCT, ROOT, modules, offences

LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
PACKAGES = (*PRODUCT, "soak", "bench")
EVERYWHERE = (*PACKAGES, "tests", "docs")

LOG_KEYS: Final = {
    # Whom it is about: namespace/name, or the name alone.
    *("pvc", "pv", "pod", "node", "driver", "lease", "object"),
    *("namespace", "kind", "resource", "key", "zone", "plugin", "gate", "endpoint", "storage_class"),
    # What happened to it.
    *("error", "code", "reason", "note", "cause", "effect", "health", "published", "quarantine", "mode", "protocol"),
    *("change", "subject", "found", "version", "transition", "resource_version", "unknown_capabilities"),
    # Of how many, or how long.
    *("count", "seconds", "objects", "volumes", "claims", "nodes", "pods"),
    # The process and its surroundings.
    *("component", "server", "address", "schedulers", "source", "file", "signal", "method", "path", "verb"),
}
"""The keys of log fields. A new one is added only where none of these says it: people filter by them."""

FORBIDDEN: Final = re.compile(
    r"\b(sick\w*|ill|asked|asks|nobody|somebody|anybody|whoever|whom|afresh|anew|told|"
    r"takes? over|taken over|free volumes?|lift\w* (the )?(scheduling )?gates?|gates? lifted)\b",
    re.IGNORECASE,
)
"""Words of an idiom of our own. The field says unhealthy, probed, Available, rejected, removed, reported."""


NAMELESS: Final = {"one", "found", "said"}
"""Names of variables that say nothing of the value: a volume, a claim, a match and a verdict have names."""

IDIOM: Final = NAMELESS | {"told", "asked", "Said", "Told", "Asked", "_said", "_told", "_asked"}
"""The same as names of functions, classes and attributes: what was reported, probed or requested is called so."""

FORBIDDEN_IN_DOCSTRINGS: Final = re.compile(
    r"\b(sick\w*|nobody|somebody|anybody|everybody|whoever|whom|afresh|anew)\b", re.IGNORECASE
)
"""Who acts has a name here: the controller, the scheduler, another writer, a user; what is repeated is done again."""


FORBIDDEN_IN_TEST_NAMES: Final = {
    *(
        "sick",
        "anew",
        "vain",
        "rid",
        "lie",
        "trap",
        "traps",
        "company",
        "patience",
        "pretence",
        "whatever",
        "whichever",
    ),
    # Who acts has a name: a pod, a user, another writer, a caller, the process that probes.
    *("nobody", "somebody", "anybody", "everybody", "everyone", "person", "persons", "stranger", "twin"),
    *("who", "whom", "he", "him", "his", "himself"),
    # So has what is done: it is reported, written, requested, evaluated or probed.
    *(
        "told",
        "tell",
        "tells",
        "said",
        "asked",
        "ask",
        "asks",
        "asking",
        "speak",
        "speaks",
        "hears",
        "heard",
        "minds",
        "robbed",
        "news",
    ),
}
"""A test's name is a sentence in the words of the field."""


def logger_calls(module: Path) -> Iterator[ast.Call]:
    text = module.read_text()
    for node in ast.walk(ast.parse(text)) if "logger" in text else ():
        method = node.func if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and isinstance(method, ast.Attribute) and method.attr in LEVELS | {"log"}:
            yield from (node,) if ast.unparse(method.value) == "logger" else ()


def message_of(call: ast.Call) -> ast.expr:
    assert isinstance(call.func, ast.Attribute)
    return call.args[1 if call.func.attr == "log" else 0]


def formatted_messages(module: Path) -> Iterator[str]:
    for call in logger_calls(module):
        message = message_of(call)
        if not isinstance(message, ast.Constant) or (len(call.args) > 1 and message is not call.args[-1]):
            yield ast.unparse(call)


def test_log_messages_are_constant() -> None:
    """What differs from one time to the next is in `extra`, not among a format's arguments: a message can be searched
    for and counted.
    """
    assert offences(formatted_messages, modules(*PACKAGES)) == []


def keys_of(value: ast.expr, tree: ast.Module) -> Iterator[str]:
    """Yield the keys of a dict as the module writes it: a display, a variable, a function's result, or a union."""
    match value:
        case ast.Dict():
            for key, part in zip(value.keys, value.values, strict=True):
                if key is None:
                    yield from keys_of(part, tree)
                else:
                    yield str(key.value) if isinstance(key, ast.Constant) else f"{{{ast.unparse(key)}}}"
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            yield from keys_of(left, tree)
            yield from keys_of(right, tree)
        case ast.Name(id=name):
            parts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Assign) and named(node, name)]
            assert parts, f"{name} is not assigned in the module"
            for part in parts:
                yield from keys_of(part, tree)
        case ast.Call(func=ast.Name(id=name)):
            functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name]
            returns = [node for function in functions for node in ast.walk(function) if isinstance(node, ast.Return)]
            assert returns, f"{name} is not a function of the module"
            for returned in returns:
                assert returned.value is not None
                yield from keys_of(returned.value, tree)
        case _:
            pytest.fail(f"the keys of {ast.unparse(value)} cannot be read")


def named(assignment: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in assignment.targets)


def keys_of_our_own(module: Path) -> Iterator[str]:
    extras = [word.value for call in logger_calls(module) for word in call.keywords if word.arg == "extra"]
    if extras:
        tree = ast.parse(module.read_text())
        yield from (key for extra in extras for key in keys_of(extra, tree) if key not in LOG_KEYS)


def test_log_fields_have_uniform_keys() -> None:
    assert offences(keys_of_our_own, modules(*PACKAGES)) == []


def test_no_key_of_a_log_field_is_one_of_the_record_itself() -> None:
    """`logging` raises KeyError for these, but only where the line is reached."""
    assert LOG_KEYS & ({"message", "asctime"} | vars(logging.makeLogRecord({})).keys()) == set()


def texts_of(module: Path) -> Iterator[tuple[int, str]]:
    """Yield the sentences in the code with their lines, without docstrings: what users may get to see."""
    tree = ast.parse(module.read_text())
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        if isinstance(node, ast.Constant) and id(node) not in statements and " " in text.strip():
            yield node.lineno, text


def forbidden_texts(module: Path) -> Iterator[str]:
    return (f"{line}: {text}" for line, text in texts_of(module) if FORBIDDEN.search(text))


def test_texts_are_in_the_words_of_the_field() -> None:
    assert offences(forbidden_texts, modules(*PACKAGES)) == []


def forbidden_lines(page: Path) -> Iterator[str]:
    lines = enumerate(page.read_text().splitlines(), 1)
    return (f"{number}: {line}" for number, line in lines if FORBIDDEN.search(line))


def test_pages_are_in_the_words_of_the_field() -> None:
    pages = sorted((ROOT / "docs").glob("*.md"))
    assert pages
    assert offences(forbidden_lines, [ROOT / "README.md", *pages]) == []


def refusals(file: Path) -> Iterator[str]:
    lines = enumerate(file.read_text(errors="replace").splitlines(), 1)
    return (f"{number}: {line}" for number, line in lines if re.search(r"(?i)(?<!connection )refus", line))


def test_what_is_not_accepted_is_rejected() -> None:
    """One word for one idea, in names and in texts. "Connection refused" is the operating system's."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    files = [ROOT / name for name in listed if not name.startswith(("csi/proto/", "tests/test_english.py"))]
    assert offences(refusals, files) == []


def bound_names(module: Path) -> Iterator[tuple[int, str]]:
    """Yield variables and parameters with their lines. The fields of a class are not among them."""
    tree = ast.parse(module.read_text())
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    fields = {id(line.target) for kind in classes for line in kind.body if isinstance(line, ast.AnnAssign)}
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in fields:
            yield node.lineno, node.id


def defined_names(module: Path) -> Iterator[tuple[int, str]]:
    """Yield functions, classes and the attributes that are assigned, with their lines."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def nameless_variables(module: Path) -> Iterator[str]:
    return (f"{line}: {name}" for line, name in bound_names(module) if name in NAMELESS)


def test_variables_are_named_for_what_they_are() -> None:
    assert offences(nameless_variables, modules(*EVERYWHERE)) == []


def limits_in_our_idiom(module: Path) -> Iterator[str]:
    for line, name in bound_names(module):
        if re.match(r"_?(MOST|LEAST|LONGEST|SHORTEST|LARGEST|SMALLEST|FEWEST)_", name):
            yield f"{line}: {name}"


def test_limits_are_a_max_or_a_min() -> None:
    assert offences(limits_in_our_idiom, modules(*PACKAGES)) == []


def definitions_in_our_idiom(module: Path) -> Iterator[str]:
    return (f"{line}: {name}" for line, name in defined_names(module) if is_idiom(name))


def is_idiom(name: str) -> bool:
    return name in IDIOM or (name.startswith("test_") and not FORBIDDEN_IN_TEST_NAMES.isdisjoint(name.split("_")))


def test_definitions_are_named_for_what_they_are() -> None:
    assert offences(definitions_in_our_idiom, modules(*PRODUCT, "soak", "tests", "docs")) == []


def docstrings_of(module: Path) -> Iterator[tuple[int, str]]:
    """Yield docstrings, those of attributes too, with their lines, and without the names of code in them."""
    for node in ast.walk(ast.parse(module.read_text())):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.lineno, re.sub(r"`[^`]*`", "", value.value)


def forbidden_docstrings(module: Path) -> Iterator[str]:
    return (f"{line}: {text}" for line, text in docstrings_of(module) if FORBIDDEN_IN_DOCSTRINGS.search(text))


def test_docstrings_are_in_the_words_of_the_field() -> None:
    assert offences(forbidden_docstrings, modules(*PACKAGES, "tests")) == []
