"""The solver process from the controller's side.

Native code that crashes ends only that process, a search that does not end is ended with it, and the memory of solver
and program is returned when volumes are no longer short. Whatever fails, the answer is the program's start: what was
planned without a solver.
"""

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from math import inf, isfinite
from threading import Event, Lock, Timer, current_thread
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, Counter

from binder.rebalance.integer_program import IntegerProgram, Solution, Solve, gained
from binder.solver.frames import Answer, Task, read_answer, write_task

# -P: a directory that the controller happens to be started in is no place for modules.
COMMAND: Final = (sys.executable, "-P", "-m", "binder.solver")
START_SECONDS: Final = 20.0
GRACE_SECONDS: Final = 3.0
"""How much longer than it was given a search may take: HiGHS reads the clock between its steps only."""
IDLE_SECONDS: Final = 30.0
"""After which the process ends. Where volumes stay short pass follows pass, and a start takes a tenth of a second."""
_ENVIRONMENT: Final = {"OPENBLAS_NUM_THREADS": "1"}
"""numpy, which HiGHS's interface needs, would otherwise reserve memory for a thread on each processor."""

logger = logging.getLogger(__name__)


class SolverFailure(StrEnum):
    """Why there is no solution: the process did not start, died, was too slow or reported an error; or nonsense."""

    NOT_STARTED = "not_started"
    DIED = "died"
    TIMEOUT = "timeout"
    ERROR = "error"
    INVALID = "invalid"


class SolverMetrics:
    """Counts searches without a result."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._failures = Counter(
            "pvc_prebinder_solver_failures_total",
            "Passes with too few volumes in which the solver failed and pods got what they found one by one.",
            ["cause"],
            registry=registry,
        )
        for cause in SolverFailure:
            self._failures.labels(cause)

    def solver_failed(self, cause: SolverFailure) -> None:
        """Count a pass that went on without a solver."""
        self._failures.labels(cause).inc()


class _Failed(Exception):
    def __init__(self, cause: SolverFailure, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class SolverProcess:
    """Starts a solver process when one is needed, and ends it when it was not needed for a while.

    Failures are counted; each cause is logged once.
    """

    def __init__(
        self,
        metrics: SolverMetrics,
        command: Sequence[str] = COMMAND,
        *,
        grace_seconds: float = GRACE_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._metrics, self._idle_seconds = metrics, idle_seconds
        self._running = _Running(command, grace_seconds)
        self._lock = Lock()
        self._idle: Timer | None = None
        self._logged: set[SolverFailure] = set()

    @contextmanager
    def session(self) -> Iterator[Solve]:
        """Yield a solver for one pass, in one thread. A session waits for the one before."""
        with self._lock:
            if self._idle is not None:
                self._idle.cancel()
                self._idle = None
            try:
                yield _Session(self._running, self._failed).solve
            finally:
                if self._running.started:
                    self._idle = timer = Timer(self._idle_seconds, self._end_idle)
                    # A controller that stops waits for no timer; the process ends with its standard input.
                    timer.daemon = True
                    timer.start()

    def _end_idle(self) -> None:
        with self._lock:
            if self._idle is current_thread():
                self._running.end()

    def _failed(self, failure: _Failed) -> None:
        self._metrics.solver_failed(failure.cause)
        if failure.cause not in self._logged:
            self._logged.add(failure.cause)
            logger.warning("Solver failed", extra={"cause": str(failure.cause), "error": str(failure)})


class _Session:
    """What a pass solves, until a failure."""

    def __init__(self, running: "_Running", failed: Callable[[_Failed], None]) -> None:
        self._running, self._report = running, failed
        self._failed = False

    def solve(self, program: IntegerProgram, seconds: float, /) -> Solution:
        """Return the process's solution, the program's start if it failed now or before. Raises nothing."""
        if not self._failed:
            try:
                return self._running.solved(program, seconds)
            except _Failed as failure:
                # A second process would most likely fail at the same program, and others wait for this pass.
                self._failed = True
                self._running.end()
                self._report(failure)
        return Solution(program.start, inf, 0.0)


class _Running:
    """The process, from the first program on."""

    def __init__(self, command: Sequence[str], grace: float) -> None:
        self._command, self._grace = command, grace
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def started(self) -> bool:
        return self._process is not None

    def end(self) -> None:
        """End the process if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def solved(self, program: IntegerProgram, seconds: float) -> Solution:
        """Return the process's solution. Raises _Failed."""
        process = self._present()
        answer = _answer(process, seconds + self._grace, Task(program, seconds))
        if isinstance(answer, str):
            raise _Failed(SolverFailure.ERROR, answer)
        if answer is None or not _is_sound(program, answer):
            raise _Failed(SolverFailure.INVALID, "not a solution of the program")
        return answer

    def _present(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        # It may have ended since the last pass.
        self.end()
        return self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        try:
            self._process = process = subprocess.Popen(
                self._command,
                stdin=pipe,
                stdout=pipe,
                stderr=subprocess.DEVNULL,
                env=os.environ | _ENVIRONMENT,
                # Ctrl-C in a terminal is for the controller.
                start_new_session=True,
            )
        except OSError as error:
            raise _Failed(SolverFailure.NOT_STARTED, str(error)) from error
        try:
            answer = _answer(process, START_SECONDS)
        except _Failed as failure:
            raise _Failed(SolverFailure.NOT_STARTED, str(failure)) from failure
        if answer is not None:
            raise _Failed(SolverFailure.NOT_STARTED, str(answer))
        return process


def _answer(process: subprocess.Popen[bytes], seconds: float, task: Task | None = None) -> Answer:
    """Send the task and return the next answer. After so many seconds the process is killed."""
    assert process.stdin is not None
    assert process.stdout is not None
    expired = Event()

    def expire() -> None:
        expired.set()
        process.kill()

    timer = Timer(seconds, expire)
    timer.start()
    try:
        if task is not None:
            write_task(process.stdin, task)
        return read_answer(process.stdout)
    except (OSError, EOFError) as error:
        if expired.is_set():
            raise _Failed(SolverFailure.TIMEOUT, f"no answer within {seconds:.1f} s") from error
        process.kill()
        raise _Failed(SolverFailure.DIED, f"exit code {process.wait()}") from error
    except msgspec.MsgspecError as error:
        raise _Failed(SolverFailure.INVALID, str(error)) from error
    finally:
        timer.cancel()


def _is_sound(program: IntegerProgram, solution: Solution) -> bool:
    """Whether the solution is one in form, and gains no less than the start. Its rows are not checked: pods get what
    the rules for single pods allow, whatever it says.
    """
    return (
        len(solution.values) == len(program.start)
        and all(0 <= value <= most for value, most in zip(solution.values, program.most, strict=False))
        and gained(program, solution.values) >= gained(program, program.start)
        and isfinite(solution.seconds)
        and solution.seconds >= 0
    )
