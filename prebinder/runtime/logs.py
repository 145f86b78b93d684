"""The format of log lines: constant messages with key=value pairs, or the same as JSON.

Code logs `logger.info("Reserved", extra={"pvc": key})`; the message never varies, what varies is in `extra`.
Credentials in a text from a library or a plugin are redacted. Every line written while a key is reconciled also carries
`reconcile`, a number that is the same for all of them.
"""

import json
import logging
from datetime import UTC, datetime
from typing import Final

from kube.plain_text import printable, printable_lines
from kube.redaction import redacted
from kube.workqueue import RECONCILE
from prebinder.config.settings import LogFormat, LoggingSettings

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure(settings: LoggingSettings) -> None:
    """Send log lines to standard error in the chosen format, ours from the chosen level, libraries' from warning."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if settings.format is LogFormat.JSON else TextFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for package in ("prebinder", "why", "scheduler", "binder", "csi", "kube"):
        logging.getLogger(package).setLevel(settings.level.upper())


class TextFormatter(logging.Formatter):
    """`2026-01-02T03:04:05.678Z INFO Reserved pvc=web/data pv=pv-1 logger=binder.writers.actor`."""

    def format(self, record: logging.LogRecord) -> str:
        pairs = " ".join(f"{key}={_quoted(value)}" for key, value in _pairs(record).items())
        line = printable(f"{_time(record)} {record.levelname} {redacted(record.getMessage())} {pairs}")
        trace = printable_lines(redacted(self.formatException(record.exc_info))) if record.exc_info else ""
        return f"{line}\n{trace}" if trace else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line, with `ts`, `level` and `msg` first."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"ts": _time(record), "level": record.levelname.lower(), "msg": record.getMessage(), **_pairs(record)}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        shown = {key: redacted(value) if isinstance(value, str) else value for key, value in line.items()}
        return json.dumps(shown, default=lambda value: redacted(str(value)))


def _pairs(record: logging.LogRecord) -> dict[str, object]:
    pairs = {key: value for key, value in vars(record).items() if key not in _STANDARD}
    number = RECONCILE.get(None)
    return pairs | ({} if number is None else {"reconcile": number}) | {"logger": record.name}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _quoted(value: object) -> str:
    """Return the value as one word, quoted if it contains spaces or quotes."""
    text = redacted(str(value))
    plain = text and text.isprintable() and not any(character in text for character in ' "=')
    return text if plain else printable(json.dumps(text, ensure_ascii=False))
