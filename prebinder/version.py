"""`pvc-prebinder version`."""

import argparse
import json
import platform
import sys
from importlib.metadata import version


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command `version`."""
    parser = subparsers.add_parser(
        "version",
        usage="%(prog)s [flags]",
        description="Prints the version of pvc-prebinder and of Python.",
        epilog="exit codes:\n  0 fine   2 usage",
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default text")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    facts = build_facts()
    if arguments.output == "json":
        sys.stdout.write(json.dumps(facts) + "\n")
    else:
        sys.stdout.write(f"pvc-prebinder {facts['version']} (Python {facts['pythonVersion']})\n")
    return 0


def build_facts() -> dict[str, str]:
    """Return the version of the program and of the interpreter, by the names the JSON output uses."""
    return {"version": version("pvc-prebinder"), "pythonVersion": platform.python_version()}
