"""Gives a command its settings: from its flags, and from a configuration file that they override."""

import json
import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import cloup

from prebinder.command_line.flags import Chosen, Flags, override, settings_flags
from prebinder.command_line.parameters import FILE
from prebinder.errors import ExitCode

if TYPE_CHECKING:
    from kube.configuration.document import ConfigurationFile


def configured(
    kind: str, flags: Flags, defaults: Chosen, file: "Callable[[], ConfigurationFile[Chosen]]"
) -> Callable[[Callable[[Chosen], int]], Callable[..., int]]:
    """Return the decorator for a command that is called with the settings in force.

    `kind` names the file in the help, with its article. `file` is called where a file or its schema is needed, because
    that takes time to load.
    """

    def decorate(function: Callable[[Chosen], int]) -> Callable[..., int]:
        @wraps(function)
        def with_settings(config: str | None, print_config: bool, print_schema: bool, **given: Any) -> int:
            from prebinder.config.config_file import load  # noqa: PLC0415 - see above

            if print_schema:
                sys.stdout.write(json.dumps(file().schema(), indent=2) + "\n")
                return ExitCode.FINE
            settings = override(load(file(), config) if config else defaults, given, flags)
            if print_config:
                sys.stdout.write(file().dump(settings))
                return ExitCode.FINE
            return function(settings)

        decorators = (
            cloup.option("--config", type=FILE, metavar="FILE", help=f"{kind}; flags override it"),
            cloup.option("--print-config", is_flag=True, help="print the settings in force and exit"),
            cloup.option(
                "--print-schema", is_flag=True, help="print the JSON schema of the configuration file and exit"
            ),
            settings_flags(flags, defaults),
        )
        command: Callable[..., int] = with_settings
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate
