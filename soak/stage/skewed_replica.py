"""`python -m soak.stage.skewed_replica SECONDS FLAGS...`: the controller, with a wall clock so many seconds ahead.

The one module of a soak that imports the product: it composes what `pvc-prebinder controller` composes, with another
clock.
"""

import asyncio
import sys
from datetime import datetime, timedelta

from kube.client.connect import connect
from kube.clock import SystemClock
from prebinder.command_line.flags import FLAGS, settings_from
from prebinder.config.settings import Settings
from prebinder.controller.process import Controller
from prebinder.runtime.informers import calm_collector
from prebinder.runtime.logs import configure
from prebinder.runtime.signals import stop_requested


class SkewedClock(SystemClock):
    """A wall clock that is ahead, or behind if `seconds` is negative; time passes as it does elsewhere."""

    def __init__(self, seconds: float) -> None:
        self._ahead = timedelta(seconds=seconds)

    def now(self) -> datetime:
        return super().now() + self._ahead


async def run(settings: Settings, seconds: float) -> None:
    """Run until a signal stops it."""
    async with await connect(settings.cluster.kubeconfig, settings.cluster.context) as transport:
        with stop_requested() as stop:
            await Controller(settings, transport, clock=SkewedClock(seconds)).run(stop)


def main(arguments: list[str]) -> None:
    seconds, *flags = arguments
    settings = settings_from(Settings(), FLAGS, flags)
    configure(settings.logging)
    calm_collector()
    asyncio.run(run(settings, float(seconds)))


if __name__ == "__main__":
    main(sys.argv[1:])
