"""`pvc-prebinder version`."""

import sys

import cloup

from prebinder.build import build_facts
from prebinder.command_line.command import Command
from prebinder.command_line.output import Output, output_flags, write_document
from prebinder.errors import ExitCode


@cloup.command("version", cls=Command, examples="\nExit codes:\n  0 success   2 usage\n")
@output_flags("text", tables=False)
def command(output: Output) -> int:
    """Prints the version of pvc-prebinder and of Python."""
    facts = build_facts()
    if output.is_document:
        write_document(facts, output)
    else:
        sys.stdout.write(f"pvc-prebinder {facts['version']} (Python {facts['pythonVersion']})\n")
    return ExitCode.FINE
