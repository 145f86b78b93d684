"""`kubectl pvc-why`: the command `why` as a plugin of kubectl, and its completion.

kubectl runs the executable `kubectl-pvc_why` for `kubectl pvc-why`, and since 1.26 `kubectl_complete-pvc_why` for
completions (kubernetes#105867); its output ends with a line `:DIRECTIVE`.
"""

import sys
from typing import Final

from click.shell_completion import ShellComplete

from prebinder import cli
from prebinder.command_line.command import PROGRAM

_NO_FILES: Final = ":4"
"""ShellCompDirectiveNoFileComp of cobra, which kubectl completes by."""


def main() -> int:
    """Run `why` with the arguments passed by kubectl."""
    return cli.main(["why", *sys.argv[1:]])


def complete() -> int:
    """Print the completions of the last argument."""
    words = sys.argv[1:] or [""]
    completion = ShellComplete(cli.main_group, {}, PROGRAM, cli.COMPLETION)
    for item in completion.get_completions(["why", *words[:-1]], words[-1]):
        sys.stdout.write(f"{item.value}\t{item.help}\n" if item.help else f"{item.value}\n")
    sys.stdout.write(f"{_NO_FILES}\n")
    return 0
