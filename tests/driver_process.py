"""The directory driver as a process of its own: it can be stopped, continued and killed."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from csi.client.endpoint import Endpoint


class DriverProcess:
    """`python -m devcluster.driver` on a socket below `directory`; its volumes are below `root` and outlive it.

    `arguments` are those of its next start; `within` is a command that it is started by.
    """

    def __init__(self, directory: Path, name: str, *arguments: str, within: Sequence[str] = ()) -> None:
        self.name, self.root = name, directory / name
        self.socket = directory / f"{name}.sock"
        self.endpoint = Endpoint(name, str(self.socket))
        self.arguments, self._within = arguments, within
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Return when the driver accepts connections."""
        command = [sys.executable, "-m", "devcluster.driver", "--socket", str(self.socket), "--root", str(self.root)]
        command = [*self._within, *command]
        self._process = await asyncio.create_subprocess_exec(*command, "--name", self.name, *self.arguments)
        await eventually(self._accepts, f"{self.name} accepts connections")

    async def send(self, number: signal.Signals) -> None:
        assert self._process is not None, "the driver was not started"
        self._process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            await self._process.wait()

    @property
    def pid(self) -> int:
        assert self._process is not None, "the driver was not started"
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        assert self._process is not None, "the driver was not started"
        return self._process.returncode

    async def __aenter__(self) -> "DriverProcess":
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._process is not None and self._process.returncode is None:
            await self.send(signal.SIGKILL)

    async def _accepts(self) -> bool:
        assert self._process is not None
        assert self._process.returncode is None, f"{self.name} ended with code {self._process.returncode}"
        try:
            _, writer = await asyncio.open_unix_connection(self.socket)
        except OSError:
            return False
        writer.close()
        await writer.wait_closed()
        return True


async def eventually(condition: Callable[[], Awaitable[bool]], what: str, seconds: float = 30) -> None:
    """Return when the condition holds; fail, saying what was awaited, if it does not in that time."""
    try:
        async with asyncio.timeout(seconds):
            while not await condition():  # noqa: ASYNC110  (another process cannot set an event)
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not within {seconds} s: {what}") from None
