"""Files cut into documents, the broken ones set aside."""

import json

import pytest

from why.reading.documents import Document, Unreadable, documents

LONG = b'{"kind": "' + b"x" * (1 << 21)


def read(contents: bytes) -> list[object]:
    """Documents as values, unreadable parts as the line where they begin."""
    results = documents(memoryview(contents))
    return [json.loads(bytes(item.text)) if isinstance(item, Document) else item.line for item in results]


A, B = {"kind": "A"}, {"kind": "B"}

FILES = [
    pytest.param(b"", [], id="nothing"),
    pytest.param(b" \n---\n\n---\n# only a comment\n", [], id="separators and comments"),
    pytest.param(b'{"kind":"A"}', [A], id="one JSON object"),
    pytest.param(b'\xef\xbb\xbf{"kind":"A"}\n', [A], id="byte order mark"),
    pytest.param(b'{"kind":"A"}\n{"kind":"B"}\n', [A, B], id="JSON lines"),
    pytest.param(b'{"kind":"A"}{"kind":"B"}', [A, B], id="JSON without anything between"),
    pytest.param(b'{\n  "kind": "A"\n}\n{\n  "kind": "B"\n}\n', [A, B], id="printed JSON one after another"),
    pytest.param(b"kind: A\n---\nkind: B\n", [A, B], id="YAML documents"),
    pytest.param(b"--- # first\nkind: A\n...\n---\nkind: B\n", [A, B], id="YAML with all its marks"),
    pytest.param(b'kind: A\n---\n{"kind":"B"}\n', [A, B], id="YAML, then JSON"),
    pytest.param(b'{"kind":"A"}\n---\nkind: B\n', [A, B], id="JSON, then YAML"),
    pytest.param(b"{kind: A}\n---\nkind: B\n", [A, B], id="YAML that begins with a brace"),
    pytest.param(b"kind: A\nnote: |\n  ---\n  x\n", [{"kind": "A", "note": "---\nx\n"}], id="dashes inside a text"),
    pytest.param(b"when: 2026-01-02\n", [{"when": "2026-01-02"}], id="dates stay texts"),
    pytest.param(b'{"kind":"A"}\n{"kind": oops}\n{"kind":"B"}\n', [A, 2, B], id="a broken line of JSON"),
    pytest.param(b"kind: A\n---\nkind: [\n---\nkind: B\n", [A, 3, B], id="a broken YAML document"),
    pytest.param(b"kind: A\n---\n{1, [\n---\nkind: B\n", [A, 3, B], id="neither of the two"),
    pytest.param(b'{"kind":5}{"kind":"B"}', [1, B], id="a kind that is a number"),
    pytest.param(b'["a"]\n---\nkind: B\n', [1, B], id="a list"),
    pytest.param(b"just words\n", [1], id="a text"),
    pytest.param(b"? [a]\n: b\n", [1], id="YAML that cannot be JSON"),
    pytest.param(b"\x00\x01\x02", [1], id="binary"),
    pytest.param(b'INFO: started\n{"kind":"B"}', [1, B], id="a line of a log, then JSON"),
    pytest.param(
        b'{"kind":"A"}\n==== START logs for container c of pod n/p ====\nI: x\n{"level":"info"}\n'
        b'==== END logs for container c of pod n/p ====\n{"kind":"B"}',
        [A, B],
        id="kubectl's logs between objects",
    ),
    pytest.param(b'{"kind":"A"}\n==== START logs for container c\n{}', [A], id="logs without an end"),
    pytest.param(LONG, [1], id="a long file that ends too early"),
    pytest.param(LONG + b'\n{"kind":"B"}', [1, B], id="a long broken object, then another"),
]


@pytest.mark.parametrize(("contents", "expected"), FILES)
def test_cuts_files(contents: bytes, expected: list[object]) -> None:
    assert read(contents) == expected


@pytest.mark.parametrize(
    ("contents", "line", "problem"),
    [
        pytest.param(
            b"# of\n# mine\nkind: [\n",
            1,
            "while parsing a flow node, did not find expected node content at line 4, column 1",
            id="YAML",
        ),
        pytest.param(
            b"kind: A\n---\nkind: B\nspec: a: b\n",
            3,
            "mapping values are not allowed in this context at line 4, column 8",
            id="YAML in the second document",
        ),
        pytest.param(b"<html></html>", 1, "found a string, not an object", id="a text"),
        pytest.param(b"[1]", 1, "found a list, not an object", id="a list"),
        pytest.param(b"12", 1, "found a number, not an object", id="a number"),
        pytest.param(b'{"kind":5}', 1, "Expected `str | null`, got `int` - at `$.kind`", id="a field"),
        pytest.param(LONG, 1, "Input data was truncated", id="an end too early"),
    ],
)
def test_says_what_was_wrong_and_where_in_the_file(contents: bytes, line: int, problem: str) -> None:
    unreadable = [item for item in documents(memoryview(contents)) if isinstance(item, Unreadable)]
    assert unreadable == [Unreadable(line, problem)]


LAUGHS = b'a: &a ["lol"]\n' + b"".join(
    b"%c: &%c [%s]\n" % (name, name, b",".join([b"*%c" % (name - 1)] * 9)) for name in b"bcdefghijk"
)


@pytest.mark.parametrize(
    ("contents", "line"),
    [
        pytest.param(b"kind: A\n" + LAUGHS, 2, id="ten levels, each nine times the one before"),
        pytest.param(b"kind: A\nx: &x\n- *x\n", 2, id="a value that is within itself"),
        pytest.param(b"a: &a {kind: A}\n<<: *a\n", 1, id="keys merged into another"),
        pytest.param(b"a: &a text\nb: *a\n", 1, id="a text"),
    ],
)
def test_aliases_are_rejected(contents: bytes, line: int) -> None:
    (result, other) = documents(memoryview(contents + b"\n---\nkind: B\n"))
    assert isinstance(result, Unreadable)
    assert result.problem.startswith(
        f"aliases are not supported, write the value out: one stands for what begins at line {line}, column "
    )
    assert isinstance(other, Document)


MANY = 200_000


@pytest.mark.parametrize(
    "contents",
    [
        pytest.param(b"[" * MANY, id="lists"),
        pytest.param(b'{"a":' * MANY, id="objects"),
        pytest.param(b'{"kind":"Pod","spec":' + b"[" * MANY + b"]" * MANY + b"}", id="whole JSON"),
        pytest.param(b'{"kind":"List","items":[' * MANY, id="lists of objects"),
        pytest.param(b"kind: Pod\nspec: " + b"[" * MANY, id="YAML"),
        pytest.param(b"- " * MANY + b"a", id="YAML by lines"),
    ],
)
def test_what_is_nested_too_deeply_cannot_be_read(contents: bytes) -> None:
    results = list(documents(memoryview(contents)))
    assert all(isinstance(result, Unreadable) for result in results)
