"""Runs a process against an API server, from its log configuration to its exit code."""

import asyncio
import logging
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from kube.client.connect import KubernetesTransport, connect
from kube.errors import KubeconfigError
from prebinder.config.settings import ClusterSettings, LoggingSettings
from prebinder.errors import CommandError
from prebinder.runtime.informers import calm_collector
from prebinder.runtime.logs import configure
from prebinder.runtime.signals import stop_requested

SWITCH_SECONDS: Final = 0.0005

logger = logging.getLogger(__name__)


class Process(Protocol):
    """All parts of a process, composed for one transport."""

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then finish what has begun."""


class ProcessSettings(Protocol):
    """What the settings of all processes have."""

    @property
    def cluster(self) -> ClusterSettings: ...

    @property
    def logging(self) -> LoggingSettings: ...


Compose = Callable[[KubernetesTransport], Process]
"""Composes the process, and logs that it starts."""


def favour_event_loop() -> None:
    """Have threads that compute give way to the event loop sooner than by default. Call it once in a process.

    The loop gives up the interpreter whenever it sends or receives something, and then waits for such a thread: by
    default 5 ms each time, so that twenty requests become a pause of a tenth of a second.
    """
    sys.setswitchinterval(SWITCH_SECONDS)


def raise_descriptor_limit() -> None:
    """Let this process open as many files and connections as it may.

    The usual soft limit of 1024 is there for programs that call select(2).
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # macOS says "unlimited" and does not mean it
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def run_process(settings: ProcessSettings, compose: Compose) -> int:
    """Run until a signal stops it; return the exit code. Raises CommandError if it cannot start."""
    configure(settings.logging)
    calm_collector()
    favour_event_loop()
    raise_descriptor_limit()
    try:
        return asyncio.run(_run(settings, compose))
    except KubeconfigError as error:
        raise CommandError(str(error)) from error


async def _run(settings: ProcessSettings, compose: Compose) -> int:
    async with await connect(settings.cluster.kubeconfig, settings.cluster.context) as transport:
        process = compose(transport)
        with stop_requested() as stop:
            await process.run(stop)
    logger.info("Stopped")
    return 0
