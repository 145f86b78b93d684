"""What commands print: lines for people and documents for programs, in which nothing acts on a terminal.

Names and messages in them were written by any user of the cluster, by drivers, or into a dump.
"""

import sys
from typing import Final

import msgspec

from kube.plain_text import printable, printable_json

_WARNING: Final = "pvc-prebinder"


def write_line(text: str) -> None:
    """Write one line to the standard output."""
    sys.stdout.write(f"{printable(text)}\n")


def warn(text: str, command: str = _WARNING) -> None:
    """Write one line to the standard error, after the command that it is from."""
    sys.stderr.write(f"{printable(f'{command}: {text}')}\n")


def json_of(document: object) -> bytes:
    """Return a document as JSON on one line."""
    return printable_json(msgspec.json.encode(document))


def write_json(document: object, *, pretty: bool = True) -> None:
    """Write a document to the standard output as JSON: indented, or on one line."""
    encoded = json_of(document)
    sys.stdout.write((msgspec.json.format(encoded, indent=2) if pretty else encoded).decode() + "\n")
