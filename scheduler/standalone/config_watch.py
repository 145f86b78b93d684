"""The configuration in force, replaced while the scheduler runs; one from a file whenever the file changes.

The kubelet replaces a mounted ConfigMap by swinging the symbolic link `..data`, so the content is what is looked at.
A file that cannot be used is refused as a whole: what was in force stays, and it is complained about once. Whoever
schedules reads `current` once for each pod, so a change falls between two pods.
"""

import asyncio
import logging
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Final, NoReturn, Protocol

from kube.clock import Clock, every
from kube.configuration.document import ConfigurationError
from scheduler.framework.config import Configuration

LOOK_SECONDS: Final = 5.0
"""How often the file is looked at. The kubelet itself takes up to a minute to bring a change into a pod."""

Parse = Callable[[str], Configuration]

logger = logging.getLogger(__name__)


class ReloadOutcome(StrEnum):
    """What became of a changed configuration."""

    APPLIED = "applied"
    REFUSED = "refused"


class ReloadObserver(Protocol):
    """Is told of each change: for the metric and the Event."""

    def configuration_changed(self, outcome: ReloadOutcome, problem: str) -> None:
        """`problem` names the place that is wrong; empty when it was applied."""


class ConfigurationInForce:
    """Holds the newest good configuration, and tells `observers` of each change, and of a file that is refused."""

    def __init__(self, current: Configuration, parse: Parse) -> None:
        self.current = current
        self.observers: list[ReloadObserver] = []
        self._parse = parse
        self._changing = asyncio.Lock()

    async def apply(self, content: bytes) -> None:
        """Take a configuration over, from wherever it comes. Raises ConfigurationError, and then nothing changed.

        Of two at the same time the later call wins. Observers are not told of a bad one: the caller is.
        """
        async with self._changing:
            # In a thread, because a megabyte of YAML takes seconds, and pods are scheduled meanwhile.
            self.current = await asyncio.to_thread(lambda: self._parse(_text(content)))
            self._tell(ReloadOutcome.APPLIED, "")

    def _tell(self, outcome: ReloadOutcome, problem: str) -> None:
        for observer in self.observers:
            observer.configuration_changed(outcome, problem)


class WatchedConfiguration(ConfigurationInForce):
    """Holds the newest good configuration of a file, or one that was applied since the file changed."""

    def __init__(self, path: Path, parse: Parse) -> None:
        """Read the file. Raises OSError, or ConfigurationError: there is nothing to stay with at the start."""
        self._path = path
        self._seen: bytes | None = path.read_bytes()
        super().__init__(parse(_text(self._seen)), parse)

    async def follow(self, clock: Clock) -> NoReturn:
        """Look at the file again and again until cancelled."""
        await every(LOOK_SECONDS, clock, self.refresh)

    async def refresh(self) -> None:
        """Take the file over if it has changed and is good."""
        try:
            content = await asyncio.to_thread(self._path.read_bytes)
        except OSError as error:
            if self._seen is not None:
                self._refused(f"cannot read the file: {error.strerror or error}")
            self._seen = None
            return
        if content == self._seen:
            return
        self._seen = content
        try:
            await self.apply(content)
        except ConfigurationError as error:
            self._refused(str(error))
        else:
            logger.info("Configuration reloaded", extra={"file": str(self._path)})

    def _refused(self, problem: str) -> None:
        logger.warning(
            "Configuration rejected; the previous one stays in force", extra={"file": str(self._path), "error": problem}
        )
        self._tell(ReloadOutcome.REFUSED, problem)


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ConfigurationError("", f"expected UTF-8, found an invalid byte at {error.start}") from error
