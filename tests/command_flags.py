"""What the flags of a command amount to, without running it."""

from collections.abc import Sequence
from typing import Any, TypeVar

import cloup

from prebinder.command import Command
from prebinder.flags import Flags, override, settings_flags
from prebinder.scheduler_settings import SchedulerSettings
from prebinder.settings import AgentSettings, Settings

Chosen = TypeVar("Chosen", Settings, AgentSettings, SchedulerSettings)


def settings_from(defaults: Chosen, flags: Flags, arguments: Sequence[str]) -> Chosen:
    """Return the settings with the flags laid over, or raise what a command line would report."""

    @cloup.command("flags", cls=Command)
    @settings_flags(flags, defaults)
    def command(**given: Any) -> Chosen:
        return override(defaults, given, flags)

    with command.make_context("flags", list(arguments)) as context:
        changed = command.invoke(context)
    assert isinstance(changed, type(defaults))
    return changed
