"""Log lines: a constant message and what varies, as text or JSON."""

import json
import logging
import sys

import pytest

from prebinder.runtime.logs import JsonFormatter, TextFormatter


def record(**values: object) -> logging.LogRecord:
    made = logging.makeLogRecord(
        {"name": "binder.writers.actor", "levelname": "INFO", "msg": "Reserved volume", "created": 0.25}
    )
    vars(made).update(values)
    return made


@pytest.mark.parametrize(
    ("values", "pairs"),
    [
        pytest.param({"pvc": "web/data"}, "pvc=web/data", id="plain"),
        pytest.param({"count": 3}, "count=3", id="number"),
        pytest.param({"err": "no answer: x=1"}, 'err="no answer: x=1"', id="words"),
        pytest.param({"note": ""}, 'note=""', id="empty"),
        pytest.param({"err": 'say "no"\nnow'}, r'err="say \"no\"\nnow"', id="quotes and lines"),
        pytest.param({"err": "\x1b[31mred"}, r'err="\u001b[31mred"', id="terminal escape"),
    ],
)
def test_text(values: dict[str, object], pairs: str) -> None:
    line = TextFormatter().format(record(**values))
    assert line == f"1970-01-01T00:00:00.250Z INFO Reserved volume {pairs} logger=binder.writers.actor"


def test_json() -> None:
    line = json.loads(JsonFormatter().format(record(pvc="web/data", objects={"extra": 1}, odd=object)))
    assert list(line)[:4] == ["ts", "level", "msg", "pvc"]
    assert (line["msg"], line["pvc"], line["objects"]) == ("Reserved volume", "web/data", {"extra": 1})


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()], ids=["text", "json"])
def test_a_traceback_is_kept(formatter: logging.Formatter) -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        line = formatter.format(record(exc_info=sys.exc_info()))
    assert "ValueError: broken" in line


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()], ids=["text", "json"])
def test_credentials_in_texts_of_others_are_hidden(formatter: logging.Formatter) -> None:
    text = 'exec: process returned 1. b\'{"token": "s3cret"} from https://me:s3cret@idp.example\''
    try:
        raise ValueError(text)
    except ValueError as error:
        made = record(msg=text, err=text, other=error, exc_info=sys.exc_info())
    line = formatter.format(made)
    assert "s3cret" not in line
    assert "idp.example" in line
