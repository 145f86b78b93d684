"""`kubectl pvc-why`: the command `why` as a plugin of kubectl, and its completion.

kubectl runs the executable `kubectl-pvc_why` for `kubectl pvc-why`, and since 1.26 `kubectl_complete-pvc_why` for
completions (kubernetes#105867); its output ends with a line `:DIRECTIVE`.
"""

import sys
from collections.abc import Sequence
from typing import Final

from click.shell_completion import ShellComplete

from prebinder import cli
from prebinder.command_line.command import PLUGIN_OF, Group

_NAME: Final = "pvc-why"
_GROUP: Final = Group(
    {"Ask": {_NAME: cli.SECTIONS["Ask"]["why"]}},
    nested={(_NAME, "dump"): cli.NESTED["why", "dump"], (_NAME, "explain"): cli.SECTIONS["Ask"]["explain"][0]},
    name=PLUGIN_OF,
)
_NO_FILES: Final = ":4"
"""ShellCompDirectiveNoFileComp of cobra, which kubectl completes by."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `why` with the arguments passed by kubectl, or `why dump` or `explain`."""
    return cli.main([_NAME, *(sys.argv[1:] if argv is None else argv)], _GROUP, f"{PLUGIN_OF} {_NAME}")


def complete() -> int:
    """Print the completions of the last argument."""
    words = sys.argv[1:] or [""]
    completion = ShellComplete(_GROUP, {}, PLUGIN_OF, cli.COMPLETION)
    for item in completion.get_completions([_NAME, *words[:-1]], words[-1]):
        sys.stdout.write(f"{item.value}\t{item.help}\n" if item.help else f"{item.value}\n")
    sys.stdout.write(f"{_NO_FILES}\n")
    return 0
