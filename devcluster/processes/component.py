"""One process of a cluster: start, stop, pause, kill, and the end of its log when it fails."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from devcluster.errors import AddressInUseError, ComponentFailedError

# Generous: on a heavily overloaded machine an API server takes half a minute.
START_SECONDS = 180.0
# Long enough for a clean exit of most components; an API server with open watches would take a minute.
_STOP_SECONDS = 3.0
_POLL_SECONDS = 0.03
_TAIL_LINES = 15

Probe = Callable[[], Awaitable[bool]]
"""Checks once whether a component is ready. It must not raise if the component is not listening yet."""


class ProcessOwner(Protocol):
    """The owner of a process: see `state.State`."""

    @property
    def group(self) -> int: ...

    def record(self, process: subprocess.Popen[bytes]) -> None: ...


class Component:
    """A process that can be stopped, paused and started again, with the same arguments, ports and log file."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        owner: ProcessOwner,
        directory: Path,
        probe: Probe,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.command = [str(each) for each in command]
        self.log_path = directory / f"{name}.log"
        self._owner = owner
        self._directory = directory
        self._probe = probe
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id; ComponentFailedError if it was never started."""
        return self._started().pid

    @property
    def running(self) -> bool:
        """Whether the process exists, paused or not."""
        return self._process is not None and self._process.poll() is None

    async def start(self, seconds: float = START_SECONDS) -> None:
        """Start it and return when it reports ready; ComponentFailedError if it ends, or is not ready in time."""
        if self.running:
            return
        self._spawn()
        try:
            async with asyncio.timeout(seconds):
                while not await self._probe():
                    self._check_alive()
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise self._failure(f"was not ready within {seconds:.0f} s") from None
        # Another process may have responded, on a port that this one could not get.
        self._check_alive()

    async def stop(self) -> None:
        """Ask it to end and wait; after 3 seconds it is killed. Does nothing if it is not running."""
        if not self.running:
            return
        self.resume()
        self._started().send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._ended()
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """End it as a crash would (SIGKILL), paused or not."""
        if self.running:
            self._started().kill()
            await self._ended()

    async def restart(self) -> None:
        """Stop it, start it again and return when it is ready."""
        await self.stop()
        await self.start()

    def pause(self) -> None:
        """Suspend it (SIGSTOP) and return when it is suspended: its connections stay open and it does not respond.

        One thread receives the signal and stops the others. Until that one is scheduled, on a busy machine a good part
        of a second, the others continue.
        """
        process = self._started()
        process.send_signal(signal.SIGSTOP)
        with suppress(ChildProcessError):  # it has ended
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Resume a paused process (SIGCONT)."""
        self._started().send_signal(signal.SIGCONT)

    def log_tail(self) -> str:
        """Return the last lines of its log."""
        try:
            lines = self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        return "\n".join(lines[-_TAIL_LINES:])

    def _spawn(self) -> None:
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._directory,
                env=os.environ | self._environment,
                process_group=self._owner.group,
            )
        self._owner.record(self._process)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ComponentFailedError(f"{self.name} was not started")
        return self._process

    async def _ended(self) -> None:
        process = self._started()
        while process.poll() is None:  # noqa: ASYNC110 - asyncio's own child watchers are tied to one loop
            await asyncio.sleep(_POLL_SECONDS)

    def _check_alive(self) -> None:
        code = self._started().poll()
        if code is not None:
            raise self._failure(f"ended with exit code {code} before it was ready")

    def _failure(self, what: str) -> ComponentFailedError:
        tail = self.log_tail()
        kind = AddressInUseError if "address already in use" in tail else ComponentFailedError
        return kind(f"{self.name} {what}; the end of {self.log_path}:\n{tail}")
