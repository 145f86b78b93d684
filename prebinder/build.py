"""Which version this is."""

import platform
from importlib.metadata import version


def build_facts() -> dict[str, str]:
    """Return the version of the program and of the interpreter, under the names of the JSON output."""
    return {"version": version("pvc-prebinder"), "pythonVersion": platform.python_version()}
