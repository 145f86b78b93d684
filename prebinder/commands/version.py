"""`pvc-prebinder version`."""

import json
import sys

import cloup

from prebinder.build import build_facts
from prebinder.command_line.command import Command
from prebinder.command_line.parameters import OneOf
from prebinder.errors import ExitCode


@cloup.command("version", cls=Command, examples="\nExit codes:\n  0 success   2 usage\n")
@cloup.option("-o", "--output", type=OneOf(("text", "json")), default="text", metavar="FORM", help="text or json")
def command(output: str) -> int:
    """Prints the version of pvc-prebinder and of Python."""
    facts = build_facts()
    if output == "json":
        sys.stdout.write(json.dumps(facts) + "\n")
    else:
        sys.stdout.write(f"pvc-prebinder {facts['version']} (Python {facts['pythonVersion']})\n")
    return ExitCode.FINE
