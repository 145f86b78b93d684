"""The rules about texts that a machine can check."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_architecture import PRODUCT, modules, name_of

LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}


def log_messages(module: Path) -> Iterator[ast.expr]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
            yield from node.args[:1] if ast.unparse(node.func.value) == "logger" else ()


@pytest.mark.parametrize("module", modules(*PRODUCT), ids=name_of)
def test_log_messages_are_constant(module: Path) -> None:
    """What differs from one time to the next is in `extra`: a message can be searched for and counted."""
    built = (ast.JoinedStr, ast.BinOp, ast.Call)
    assert [ast.unparse(message) for message in log_messages(module) if isinstance(message, built)] == []
