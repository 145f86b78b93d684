"""`python -m soak.stage.skewed_replica SECONDS FLAGS...`: the controller, with a wall clock so many seconds ahead.

The one module of a soak that imports the product: it composes what `pvc-prebinder controller` composes, with another
clock.
"""

import sys
from datetime import datetime, timedelta

from kube.clock import SystemClock
from prebinder.command_line.flags import FLAGS, settings_from
from prebinder.config.settings import Settings
from prebinder.controller.process import Controller
from prebinder.runtime.process import run_process


class SkewedClock(SystemClock):
    """A wall clock that is ahead, or behind if `seconds` is negative; time passes as it does elsewhere."""

    def __init__(self, seconds: float) -> None:
        self._ahead = timedelta(seconds=seconds)

    def now(self) -> datetime:
        return super().now() + self._ahead


def main(arguments: list[str]) -> None:
    seconds, *flags = arguments
    settings, clock = settings_from(Settings(), FLAGS, flags), SkewedClock(float(seconds))
    run_process(settings, lambda transport: Controller(settings, transport, clock=clock))


if __name__ == "__main__":
    main(sys.argv[1:])
