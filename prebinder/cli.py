"""The command line `pvc-prebinder`: finds the command, imports only what that one needs, reports its faults.

Each command is a module with `register(subparsers)`, which adds its parser and sets the default `run`: a function
from the parsed arguments to an exit code. Exit codes: 0 fine, 1 error, 2 usage, 3 a problem was found.
"""

import argparse
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from itertools import pairwise
from types import ModuleType
from typing import NoReturn, cast

from prebinder.errors import CommandError, ExitCode, UsageError
from prebinder.nearest import did_you_mean

PROGRAM = "pvc-prebinder"

COMMANDS = {
    "controller": ("prebinder.controller_command", "reserve volumes for pods that wait, in a cluster"),
    "csi-agent": ("prebinder.agent_command", "watch the health of one CSI driver's volumes, from beside the driver"),
    "extender": ("prebinder.extender_command", "answer kube-scheduler about nodes, by what is reserved and healthy"),
    "scheduler": ("prebinder.scheduler_command", "schedule the pods that name it, by what is reserved and healthy"),
    "match": ("prebinder.match", "say offline which volume Kubernetes would pick for a claim, and why not the others"),
    "simulate": ("prebinder.simulate", "schedule pods on a cluster in memory, made up or dumped, and ask what if"),
    "health": ("prebinder.health_command", "say how volumes are, and who says so"),
    "quarantine": (
        "prebinder.quarantine_command",
        "list volumes kept from claims because of their health, or let them out",
    ),
    "profile": ("prebinder.profile_command", "say where a running scheduler spends its time"),
    "doctor": ("prebinder.doctor", "look whether the cluster, the rights and the drivers are what is needed"),
    "demo": ("prebinder.demo", "watch it work on a real control plane on this machine"),
    "devcluster": ("devcluster.command", "start and stop a real control plane on this machine"),
    "version": ("prebinder.version", "print the version"),
}
"""Command -> the module that holds it, and its line in the help."""

OPTIONAL = frozenset({"cryptography"})
"""What only the extra `devcluster` installs."""

_VALUED_SWITCH = re.compile(r"argument (--[-\w]+)/(--no-[-\w]+): ignored explicit argument .*")
"""What argparse says of `--leader-elect=false`, the form of Kubernetes' own components."""

DESCRIPTION = """\
Reserves healthy PersistentVolumes for all claims of a pod together, in one zone, before Kubernetes binds them.
"""

EXAMPLES = """\
examples:
  pvc-prebinder demo                                  watch it work; needs no cluster
  pvc-prebinder controller --dry-run                  say what it would reserve in your cluster, write nothing
  pvc-prebinder controller --mode prebind --csi-endpoint csi.example.com=unix:///csi/csi.sock
  kubectl get pv,pvc,sc,node -A -o json | pvc-prebinder match -f - --node node-7

exit codes:
  0 fine   1 error   2 usage   3 a problem was found
"""


class Parser(argparse.ArgumentParser):
    """argparse that reports a wrong argument in one line and takes no abbreviations."""

    def __init__(self, **options: object) -> None:
        options.setdefault("formatter_class", partial(argparse.RawDescriptionHelpFormatter, max_help_position=32))
        super().__init__(allow_abbrev=False, **options)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        valued = _VALUED_SWITCH.fullmatch(message)
        if valued is not None:
            message = f"{valued[1]} takes no value: expected {valued[1]} or {valued[2]}"
        raise UsageError(f"{message}. See {self.prog} --help")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = _wants_debug(arguments)
    try:
        return run(arguments)
    except CommandError as error:
        _report(error, traced=debug)
        return error.exit_code
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT, as shells have it
    except BrokenPipeError:
        # The reader of our output went away (`| head`). Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FINE
    except Exception as error:
        cause = _innermost(error)
        if isinstance(cause, CommandError):
            _report(cause, traced=debug)
            return cause.exit_code
        hint = "" if debug else "; this is a bug, --log-level debug shows the traceback"
        _report(CommandError(f"{type(cause).__name__}: {cause}{hint}"), traced=debug)
        return ExitCode.ERROR


def run(arguments: Sequence[str]) -> int:
    """Parse the arguments and run the command they name.

    Raises UsageError for what cannot be parsed, CommandError for what the command could not do.
    """
    name = next((argument for argument in arguments if not argument.startswith("-")), None)
    if name is not None and name not in COMMANDS:
        raise UsageError(f'unknown command "{name}"{did_you_mean(name, COMMANDS)} See {PROGRAM} --help')
    parser, subparsers = _parser(name)
    parsed, unknown = parser.parse_known_args(arguments)
    command = subparsers.choices[name] if name else parser
    if unknown:
        raise UsageError(_unknown_arguments(unknown, command))
    if "run" not in parsed:
        command.print_help()
        return ExitCode.FINE if name is None else ExitCode.USAGE
    return int(cast(Callable[[argparse.Namespace], int], parsed.run)(parsed))


def _parser(name: str | None) -> tuple[Parser, "argparse._SubParsersAction[Parser]"]:
    """Return the parser with only the named command in it; the help lists the others from COMMANDS."""
    commands = "".join(f"  {command:<12} {summary}\n" for command, (_, summary) in COMMANDS.items())
    parser = Parser(
        prog=PROGRAM,
        usage="%(prog)s COMMAND [flags]",
        description=f"{DESCRIPTION}\ncommands:\n{commands}\n`{PROGRAM} COMMAND --help` says more.",
        epilog=EXAMPLES,
    )
    subparsers = parser.add_subparsers(help=argparse.SUPPRESS, parser_class=Parser, prog=PROGRAM)
    if name is not None:
        _import(name).register(subparsers)
        subparsers.choices[name].add_argument(
            "--log-level",
            choices=("debug", "info", "warning", "error"),
            help="default info; debug also shows tracebacks",
        )
    return parser, subparsers


def _import(name: str) -> ModuleType:
    try:
        return import_module(COMMANDS[name][0])
    except ModuleNotFoundError as error:
        if error.name not in OPTIONAL:
            raise
        missing = f"{name} needs more than is installed. In the sources: pip install '.[devcluster]'"
        raise CommandError(missing) from error


def _unknown_arguments(unknown: Sequence[str], command: argparse.ArgumentParser) -> str:
    word = next((argument for argument in unknown if argument.startswith("-")), unknown[0]).split("=")[0]
    kind = "flag" if word.startswith("-") else "argument"
    return f'unknown {kind} "{word}"{did_you_mean(word, _options(command))} See {command.prog} --help'


def _options(command: argparse.ArgumentParser) -> list[str]:
    """Return every flag of a command and of the commands below it."""
    options: list[str] = []
    for action in command._actions:
        options += action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            options += [option for below in action.choices.values() for option in _options(below)]
    return options


def _wants_debug(arguments: Sequence[str]) -> bool:
    """Whether tracebacks are wanted; read before parsing, because parsing can fail too."""
    return "--log-level=debug" in arguments or ("--log-level", "debug") in pairwise(arguments)


def _innermost(error: BaseException) -> BaseException:
    """Return the first error that a group of tasks ended with; the group itself says nothing."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _report(error: CommandError, *, traced: bool) -> None:
    if traced:
        traceback.print_exc()
    sys.stderr.write(f"{PROGRAM}: {error}\n")


if __name__ == "__main__":
    sys.exit(main())
