"""The configuration in force, replaced while the scheduler runs; from a file whenever the file changes.

The kubelet updates a mounted ConfigMap by switching the symbolic link `..data`, so the content is compared. An invalid
file is rejected as a whole: the previous configuration stays, and the error is reported once. The scheduler reads
`current` once for each pod, so a change takes effect between two pods.
"""

import asyncio
import logging
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Final, NoReturn

from kube.clock import Clock, every
from kube.configuration.document import ConfigurationError
from scheduler.framework.config import Configuration

POLL_SECONDS: Final = 5.0
"""How often the file is read. The kubelet itself takes up to a minute to bring a change into a pod."""

Parse = Callable[[str], Configuration]

logger = logging.getLogger(__name__)


class ReloadOutcome(StrEnum):
    """The result of a configuration change."""

    APPLIED = "applied"
    REJECTED = "rejected"


class ConfigurationInForce:
    """Holds the latest valid configuration, and calls `changed` with each outcome, of a file that is rejected too.

    Its text names the place of the error; it is empty if the configuration was applied.
    """

    def __init__(self, current: Configuration, parse: Parse) -> None:
        self.current = current
        self.changed: list[Callable[[ReloadOutcome, str], None]] = []
        self._parse = parse
        self._changing = asyncio.Lock()

    async def apply(self, content: bytes) -> None:
        """Apply a configuration, from any source. Raises ConfigurationError, and then nothing has changed.

        Of two concurrent calls the later one wins. Only the caller is notified of an invalid one.
        """
        async with self._changing:
            # In a thread, because a megabyte of YAML takes seconds, and pods are scheduled meanwhile.
            self.current = await asyncio.to_thread(lambda: self._parse(_text(content)))
            self._report(ReloadOutcome.APPLIED, "")

    def _report(self, outcome: ReloadOutcome, problem: str) -> None:
        for notify in self.changed:
            notify(outcome, problem)


class WatchedConfiguration(ConfigurationInForce):
    """Holds the latest valid configuration of a file, or one that was applied since the file changed."""

    def __init__(self, path: Path, parse: Parse) -> None:
        """Read the file. Raises OSError, or ConfigurationError: at startup there is no previous one."""
        self._path = path
        self._seen: bytes | None = path.read_bytes()
        super().__init__(parse(_text(self._seen)), parse)

    async def follow(self, clock: Clock) -> NoReturn:
        """Check the file periodically until cancelled."""
        await every(POLL_SECONDS, clock, self.refresh)

    async def refresh(self) -> None:
        """Apply the file if it has changed and is valid."""
        try:
            content = await asyncio.to_thread(self._path.read_bytes)
        except OSError as error:
            if self._seen is not None:
                self._rejected(f"cannot read the file: {error.strerror or error}")
            self._seen = None
            return
        if content == self._seen:
            return
        self._seen = content
        try:
            await self.apply(content)
        except ConfigurationError as error:
            self._rejected(str(error))
        else:
            logger.info("Configuration reloaded", extra={"file": str(self._path)})

    def _rejected(self, problem: str) -> None:
        logger.warning(
            "Configuration rejected; the previous one stays in force", extra={"file": str(self._path), "error": problem}
        )
        self._report(ReloadOutcome.REJECTED, problem)


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ConfigurationError("", f"expected UTF-8, found an invalid byte at {error.start}") from error
