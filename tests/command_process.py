"""The command line as a process of its own, run to its end."""

import asyncio
import sys


async def command(*arguments: str) -> tuple[int | None, str, str]:
    """Return exit code, output and errors."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "prebinder.cli",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await process.communicate()
    return process.returncode, out.decode(), errors.decode()
