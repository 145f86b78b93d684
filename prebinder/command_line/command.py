"""What all commands have in common: the format of their help, `--log-level`, and boolean flags as in Kubernetes.

A group imports the module of a command only when that command is used.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import click
import cloup

from kube.configuration.nearest import did_you_mean
from prebinder.command_line.parameters import OneOf
from prebinder.errors import CommandError, UsageError

PROGRAM: Final = "pvc-prebinder"
PLUGIN_OF: Final = "kubectl"
"""The program in front of the plugin's name, `kubectl pvc-why`."""
LOG_LEVEL: Final = "--log-level"
LOG_LEVEL_HELP: Final = "debug, info (default), warning or error; debug also shows tracebacks"
LEVELS: Final = ("debug", "info", "warning", "error")
OPTIONAL: Final = frozenset({"cryptography"})
"""Dependencies of the extra `devcluster` only."""

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_STYLE: Final = cloup.HelpFormatter.settings(width=100, max_width=100, col1_max_width=32)

Sections = Mapping[str, Mapping[str, tuple[str, str]]]
"""Title -> command -> the module that defines it as `command`, and its line in the help."""

_AS_PLUGIN: Final = (
    ("pvc-prebinder why", "kubectl pvc-why"),
    ("pvc-prebinder match", "kubectl pvc-why --match"),
    ("pvc-prebinder explain", "kubectl pvc-why explain"),
)


def as_typed(text: str, ctx: click.Context) -> str:
    """Return a text with the commands of the plugin as its user types them."""
    if ctx.find_root().info_name == PLUGIN_OF:
        for command, typed in _AS_PLUGIN:
            text = text.replace(command, typed)
    return text


class Command(cloup.Command):
    """A command of this program. `examples` is printed as it is, below the flags."""

    def __init__(self, *args: Any, examples: str = "", **settings: Any) -> None:
        params = list(settings.get("params") or ())
        if not any(LOG_LEVEL in param.opts for param in params):
            params.append(_quiet_log_level())
        settings["params"] = params
        settings.setdefault("options_metavar", "[flags]")
        settings.setdefault("formatter_settings", _STYLE)
        settings["context_settings"] = {"allow_extra_args": True, "help_option_names": ["-h", "--help"]}
        super().__init__(*args, **settings)
        self._examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            super().parse_args(ctx, self._without_values(args))
        except click.UsageError as error:
            # The parser leaves it out where a flag lacks its value; the message names the command by it.
            error.ctx = error.ctx or ctx
            raise
        if ctx.args:
            raise click.UsageError(f'unknown argument "{ctx.args[0]}".', ctx)
        return ctx.args

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_usage(ctx, formatter)
        if ctx.parent is None or not isinstance(ctx.parent.command, Group):
            return
        meaning = ctx.parent.command.meaning_of(ctx.info_name or "")
        if meaning:
            whole = f"{ctx.parent.command_path} {meaning}"
            formatter.write(f"\n  Stands for `{whole}`. This is the help of both.\n")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(as_typed(self._examples, ctx))

    def _without_values(self, args: Sequence[str]) -> list[str]:
        """Return the arguments with `--switch=false` as `--no-switch`, which Kubernetes components accept too."""
        switches = {
            name: param.secondary_opts
            for param in self.params
            if isinstance(param, click.Option) and param.is_flag
            for name in param.opts
        }
        plain: list[str] = []
        for place, argument in enumerate(args):
            if argument == "--":
                return [*plain, *args[place:]]
            name, separator, value = argument.partition("=")
            if separator and name in switches:
                plain += _switched(name, value, switches[name])
            else:
                plain.append(argument)
        return plain


def _switched(name: str, value: str, opposite: Sequence[str]) -> list[str]:
    if value in _TRUE:
        return [name]
    if value in _FALSE:
        return list(opposite[:1])
    raise UsageError(f'{name}: expected true or false, found "{value}"')


class Verbs(click.Group):
    """A group with a fixed set of commands, such as `quarantine list|release`."""

    def __init__(self, *args: Any, examples: str = "", **settings: Any) -> None:
        settings.setdefault("options_metavar", "[flags]")
        settings.setdefault("subcommand_metavar", "COMMAND")
        settings["context_settings"] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
        super().__init__(*args, **settings)
        self._examples = examples

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        command = self.get_command(ctx, name)
        if command is None:
            meant = did_you_mean(name, self.list_commands(ctx))
            raise click.UsageError(f'unknown command "{name}"{meant}', ctx)
        return name, command, args[1:]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(f"\n`{ctx.command_path} COMMAND --help` describes a command.\n{self._examples}")


class Group(Verbs):
    """Commands in sections, each imported when it is used.

    `aliases` are further names, and the command and arguments for which each of them stands. `nested` are commands of
    two words, of which the first is a command too, and their modules.
    """

    def __init__(
        self,
        sections: Sections,
        aliases: Mapping[str, tuple[str, ...]] | None = None,
        nested: Mapping[tuple[str, str], str] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self._aliases = aliases or {}
        self._nested = nested or {}
        self._modules = {name: module for commands in sections.values() for name, (module, _) in commands.items()}
        self._sections = sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._modules)

    def meaning_of(self, name: str) -> str:
        """Return the words for which an alias stands, empty for any other name."""
        return " ".join(self._aliases.get(name, ()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, *others = args
        inner = self._nested.get((name, others[0])) if others else None
        if inner is not None:
            return f"{name} {others[0]}", import_module(inner).command, others[1:]
        known, *arguments = self._aliases.get(name, (name,))
        _, command, remaining = super().resolve_command(ctx, [known, *arguments, *others])
        return name, command, remaining

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = self._modules.get(cmd_name)
        if module is None:
            return None
        try:
            command: click.Command = import_module(module).command
        except ModuleNotFoundError as error:
            if error.name not in OPTIONAL:
                raise
            missing = f"{cmd_name} needs optional dependencies. In the source tree: pip install '.[devcluster]'"
            raise CommandError(missing) from error
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, summary) for name, (_, summary) in commands.items()])


def log_level_option(function: Callable[..., int]) -> Callable[..., int]:
    """Add `--log-level` to a command that logs; it receives it as `log_level`."""
    return cloup.option(LOG_LEVEL, type=OneOf(LEVELS), metavar="LEVEL", help=LOG_LEVEL_HELP)(function)


def _quiet_log_level() -> click.Option:
    """Return the flag for commands that do not log: it only controls tracebacks (prebinder.cli)."""
    return cloup.Option(
        [LOG_LEVEL],
        type=OneOf(LEVELS),
        metavar="LEVEL",
        help="debug shows tracebacks",
        expose_value=False,
    )
