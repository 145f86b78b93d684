"""Text that others wrote is harmless on a terminal, and one word in a shell."""

import shlex
import subprocess
from collections.abc import Sequence

import pytest

from kube.plain_text import field_value, printable, shell

HOSTILE = "a'b\"c $(touch x) `id`; d & e | f > g < h * ? [i] {j} ~ # \\ ! \n k"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("web-0 on n1: über 100 %", "web-0 on n1: über 100 %", id="plain"),
        pytest.param("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07", id="escape sequences"),
        pytest.param("\x9b31m\x7f", "\\x9b31m\\x7f", id="C1 and DEL"),
        pytest.param("a\nb\rc\u2028d", "a\\nb\\rc\\u2028d", id="line breaks"),
        pytest.param("a\u202eb\u2066c\u061c", "a\\u202eb\\u2066c\\u061c", id="direction"),
        pytest.param("a\u200bb\ufeff\U000e0041", "a\\u200bb\\ufeff\\U000e0041", id="invisible"),
        pytest.param("\udc80", "\\udc80", id="no character"),
    ],
)
def test_nothing_acts_on_a_terminal(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("template", "words", "meant"),
    [
        pytest.param("kubectl get pv {}", ["pv-1"], ["kubectl", "get", "pv", "pv-1"], id="plain"),
        pytest.param("kubectl -n {} get {}", [HOSTILE, "a b"], ["kubectl", "-n", HOSTILE, "get", "a b"], id="hostile"),
        pytest.param("a --is={}-", [HOSTILE], ["a", f"--is={HOSTILE}-"], id="a part of a word"),
        pytest.param("a {} b", [["x y", "z"]], ["a", "x y", "z", "b"], id="several"),
        pytest.param("a {} b", [""], ["a", "", "b"], id="empty"),
        pytest.param("a {}", ["--server=http://x"], ["a", "\\--server=http://x"], id="no flag"),
        pytest.param("a --is={}", ["--x"], ["a", "--is=--x"], id="a dash within a word"),
    ],
)
def test_each_word_is_the_one_that_is_meant(template: str, words: list[str | Sequence[str]], meant: list[str]) -> None:
    command = shell(template, *words)
    assert shlex.split(command) == meant
    printed = subprocess.run(
        ["/bin/sh", "-c", f"printf '%s\\0' {command}"], capture_output=True, text=True, check=True, timeout=60
    )
    assert printed.stdout.split("\0")[:-1] == meant


def test_a_value_of_a_field_selector_adds_no_other_condition() -> None:
    assert field_value(r"n1,status.phase!=a\b") == r"n1\,status.phase!\=a\\b"
