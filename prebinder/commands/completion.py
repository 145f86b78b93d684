"""`pvc-prebinder completion`: the script with which a shell completes commands, flags and their values."""

import sys
from typing import Final

import cloup
from click.shell_completion import get_completion_class

from prebinder import cli
from prebinder.command_line.command import PROGRAM, Command
from prebinder.command_line.parameters import OneOf
from prebinder.errors import CommandError, ExitCode

SHELLS: Final = ("bash", "zsh", "fish")

EXAMPLES: Final = """
Examples:
  source <(pvc-prebinder completion bash)
  pvc-prebinder completion zsh > "${fpath[1]}/_pvc-prebinder"
  pvc-prebinder completion fish > ~/.config/fish/completions/pvc-prebinder.fish

Exit codes:
  0 success   1 error   2 usage
"""


@cloup.command("completion", cls=Command, examples=EXAMPLES)
@cloup.argument("shell", type=OneOf(SHELLS), metavar="bash|zsh|fish")
def command(shell: str) -> int:
    """Prints the completion script for a shell."""
    completion = get_completion_class(shell)
    if completion is None:
        raise CommandError(f"no completion for {shell}")
    script = completion(cli.main_group, {}, PROGRAM, cli.COMPLETION)
    sys.stdout.write(script.source() + "\n")
    return ExitCode.FINE
