"""The first signal asks to stop, the second ends the process; shown on a process of its own."""

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, sys
from prebinder.runtime.signals import stop_requested

async def main():
    with stop_requested() as stop:
        print("ready", flush=True)
        await stop.wait()
        print("stopping", flush=True)
        if "stubborn" in sys.argv:
            await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize("manner", ["polite", "stubborn"])
def test_signals(number: signal.Signals, manner: str) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, manner], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.readline() == "stopping\n"
        if manner == "stubborn":
            process.send_signal(number)
        assert process.wait(60) == (0 if manner == "polite" else 128 + number)
