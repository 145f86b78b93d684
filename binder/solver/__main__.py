"""The solver process: reads programs from standard input and writes solutions to standard output until input ends."""

import os
import resource
import sys
from typing import IO, Final

from binder.rebalance.integer_program import solve
from binder.solver.frames import read_task, write_answer

_MAX_MEMORY_BYTES: Final = 256 * 2**20
"""Bytes of data: a program that needs more fails here, before the kernel ends the whole container for it."""


def main() -> None:
    """Solve what is sent. The first answer means that the solver is loaded."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = _MAX_MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(_MAX_MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    with os.fdopen(os.dup(1), "wb") as answers:
        # What native code prints is no answer.
        os.dup2(2, 1)
        try:
            import highspy  # noqa: F401, PLC0415 - its absence is an answer
        except ImportError as error:
            write_answer(answers, f"{type(error).__name__}: {error}")
            return
        write_answer(answers, None)
        _serve(sys.stdin.buffer, answers)


def _serve(tasks: IO[bytes], answers: IO[bytes]) -> None:
    while True:
        try:
            task = read_task(tasks)
        except EOFError:
            return
        try:
            answer = solve(task.program, task.seconds)
        except Exception as error:
            write_answer(answers, f"{type(error).__name__}: {error}")
        else:
            write_answer(answers, answer)


if __name__ == "__main__":
    main()
