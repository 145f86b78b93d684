"""The command line `pvc-prebinder`: finds the command, runs it, and reports errors in one line.

Each command is a module with a click command named `command`, whose function returns an exit code.
"""

import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import click
from click.shell_completion import shell_complete

from kube.configuration.nearest import nearest
from kube.plain_text import printable, printable_lines
from kube.redaction import redacted
from prebinder.command_line.command import PROGRAM, Group, Sections
from prebinder.errors import CommandError, ExitCode, UsageError
from why.errors import WhyError

COMPLETION: Final = "_PVC_PREBINDER_COMPLETE"
"""Set by the shell's completion function (click.shell_completion)."""

SECTIONS: Final[Sections] = {
    "Ask": {
        "why": ("prebinder.commands.why.why", "find the root cause of a pending pod or claim, and the next command"),
        "explain": ("prebinder.commands.explain", "explain a code of why, of an Event or of a metric"),
        "simulate": (
            "prebinder.commands.simulate",
            "schedule pods on a cluster in memory and answer what-if questions",
        ),
        "health": ("prebinder.commands.health", "report the health of volumes and its source"),
        "reservations": ("prebinder.commands.reservations", "list which volumes are held for which claims"),
        "quarantine": ("prebinder.commands.quarantine", "list volumes in quarantine, or release them"),
        "replace": ("prebinder.commands.replace", "give a pod another volume for one that is lost; plan first"),
        "doctor": ("prebinder.commands.doctor", "check prerequisites: cluster, permissions, CSI drivers"),
        "uninstall": ("prebinder.commands.uninstall", "remove what pvc-prebinder wrote to pods, claims and volumes"),
    },
    "Run in a cluster": {
        "controller": ("prebinder.commands.run.controller", "reserve volumes for pending pods"),
        "csi-agent": ("prebinder.commands.run.csi_agent", "publish the health of one CSI driver's volumes"),
        "extender": ("prebinder.commands.run.extender", "steer kube-scheduler to reserved, healthy volumes"),
        "scheduler": ("prebinder.commands.run.scheduler", "schedule the pods that name it (alpha)"),
    },
    "Try and develop": {
        "demo": ("demo.command", "watch it work on a real control plane on this machine"),
        "dev": ("prebinder.commands.dev.group", "run a local control plane, profile a running scheduler"),
        "completion": ("prebinder.commands.completion", "print the completion script for bash, zsh or fish"),
        "version": ("prebinder.commands.version", "print the version"),
    },
}

EXAMPLES: Final = """
Examples:
  pvc-prebinder demo                                  watch it work; needs no cluster
  pvc-prebinder why pod/web-0 -n shop                 why is it pending? needs no controller
  pvc-prebinder controller --dry-run                  report what it would reserve in your cluster
  pvc-prebinder controller --mode prebind --csi-endpoint csi.example.com=unix:///csi/csi.sock
  kubectl get pv,pvc,sc,node -A -o json | pvc-prebinder match -f - --node node-7    match stands for why --match

Exit codes:
  0 success   1 error   2 usage   3 a problem was found   4 inconclusive: something could not be read
"""

NESTED: Final = {("why", "dump"): "prebinder.commands.why.dump"}
"""Two words, and the module of their command. A pod named `dump` is asked about as pod/dump."""

ALIASES: Final = {"match": ("why", "--match")}
"""A name, and the command and arguments that it stands for."""

main_group: Final = Group(
    SECTIONS,
    aliases=ALIASES,
    nested=NESTED,
    examples=EXAMPLES,
    name=PROGRAM,
    help="Reserves healthy PersistentVolumes for all claims of a pod together, in one zone, before Kubernetes binds "
    "them one by one.",
)
click.version_option(package_name="pvc-prebinder", prog_name=PROGRAM, message="%(prog)s %(version)s")(main_group)


def main(argv: Sequence[str] | None = None, program: Group = main_group, speaker: str = PROGRAM) -> int:
    """Run one command of a program and return its exit code. `speaker` begins the line of an error."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    if COMPLETION in os.environ:
        return shell_complete(main_group, {}, PROGRAM, COMPLETION, os.environ[COMPLETION])
    debug = _wants_debug(arguments)
    try:
        return run(arguments, program)
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT, as in shells
    except BrokenPipeError:
        # The reader of our output has exited (`| head`). Python would report that again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FINE
    except Exception as error:
        failure = _failure(_innermost(error), debug=debug)
        _report(failure, speaker, traced=debug)
        return failure.exit_code


def run(arguments: Sequence[str], program: Group = main_group) -> int:
    """Parse the arguments and run the command.

    Raises UsageError for invalid arguments, CommandError for a command that failed.
    """
    try:
        with program.make_context(program.name, list(arguments)) as context:
            return int(program.invoke(context) or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return ExitCode.FINE if error.ctx is not None and error.ctx.parent is None else ExitCode.USAGE
    except click.exceptions.Exit as finished:
        return finished.exit_code
    except click.ClickException as error:
        raise UsageError(_in_one_line(error)) from error


def _in_one_line(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = context.command_path if context is not None else PROGRAM
    return f"{_problem(error, context)} See {path} --help"


def _problem(error: click.ClickException, context: click.Context | None) -> str:
    match error:
        case click.NoSuchOption():
            return f'unknown flag "{error.option_name}"{_meant(error.option_name, _options(context))}'
        case click.MissingParameter():
            return f"{_flag(error)} is required."
        case click.BadParameter():
            end = "" if error.message.endswith(("?", ".")) else "."
            place = f"{_flag(error)}: " if isinstance(error.param, click.Option) else ""
            return f"{place}{error.message}{end}"
        case click.BadOptionUsage():
            return f"{error.option_name} needs a value."
        case _:
            return error.message


def _meant(flag: str, options: Sequence[str]) -> str:
    begun = [option for option in options if option.startswith(flag)]
    if len(begun) == 1:
        return f'; did you mean "{begun[0]}"?'
    # Without the dashes, which would make any two flags alike.
    words = {option.lstrip("-"): option for option in options}
    meant = nearest(flag.lstrip("-"), words)
    return f'; did you mean "{words[meant]}"?' if meant else "."


def _flag(error: click.BadParameter) -> str:
    if isinstance(error.param, click.Option):
        return max(error.param.opts, key=len)
    return error.param.make_metavar(error.ctx) if error.param is not None and error.ctx is not None else "argument"


def _options(context: click.Context | None) -> list[str]:
    params = context.command.params if context is not None else ()
    return [name for param in params for name in (*param.opts, *param.secondary_opts) if name.startswith("-")]


def _wants_debug(arguments: Sequence[str]) -> bool:
    """Whether tracebacks are enabled; read before parsing, because parsing can fail too."""
    return "--log-level=debug" in arguments or ("--log-level", "debug") in pairwise(arguments)


def _failure(cause: BaseException, *, debug: bool) -> CommandError:
    match cause:
        case CommandError():
            return cause
        case WhyError():
            return CommandError(str(cause))
        case _:
            hint = "" if debug else "; this is a bug, --log-level debug shows the traceback"
            return CommandError(f"{type(cause).__name__}: {cause}{hint}")


def _innermost(error: BaseException) -> BaseException:
    """Return the first error of a task group; the group itself carries no information."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _report(error: CommandError, speaker: str, *, traced: bool) -> None:
    if traced:
        import traceback  # noqa: PLC0415 - the help does without it

        sys.stderr.write(printable_lines(redacted(traceback.format_exc())))
    sys.stderr.write(f"{speaker}: {printable(redacted(str(error)))}\n")


if __name__ == "__main__":
    sys.exit(main())
