"""The stage's process (`demo.stage`) from the side of its parent process."""

import asyncio
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from demo.stage import KEEP, KUBECTL, Ready, Step, read_line
from devcluster.errors import ClusterError
from devcluster.processes.state import discard

_GONE_SECONDS: Final = 60.0


class Backstage:
    """Runs the stage for the length of an `async with` block; nothing of it is left afterwards unless it is kept.

    The stage also ends if this process dies, because its standard input ends.
    """

    def __init__(self, directory: Path, kubectl: bool) -> None:
        self._directory = directory
        self._arguments = [str(directory), *([KUBECTL] if kubectl else [])]
        self._kept = False

    async def __aenter__(self) -> Self:
        self._start()
        return self

    def _start(self) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process that writes to it
        # Not asyncio's: that one kills the process when the loop ends, and a stage that is kept must outlive it.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "demo.stage", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            # Ctrl-C in the terminal is for us; the stage ends when we close its standard input.
            start_new_session=True,
        )

    async def __aexit__(self, *_: object) -> None:
        if not self._kept:
            self._process.send_signal(signal.SIGTERM)
            self._process.communicate()
            async with asyncio.timeout(_GONE_SECONDS):
                while self._directory.exists():
                    # A stage that ended early left no reaper behind.
                    discard(self._directory)
                    await asyncio.sleep(0.05)
        self._errors.close()

    async def ready(self, tell: Callable[[str], object]) -> Ready:
        """Report each step and return when all of them are done; ClusterError has the reason if they were not."""
        assert self._process.stdout is not None
        while line := await asyncio.to_thread(self._process.stdout.readline):
            match read_line(line):
                case Ready() as ready:
                    return ready
                case Step(doing):
                    tell(doing)
        self._process.wait()
        self._errors.seek(0)
        raise ClusterError(self._errors.read().strip() or "the demo's cluster process exited without an error message")

    def keep(self) -> None:
        """Keep the stage up after the block, and after this process."""
        assert self._process.stdin is not None
        self._process.stdin.write(KEEP)
        self._process.stdin.flush()
        self._kept = True
