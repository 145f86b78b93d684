"""The solver in a process of its own: its answers, and what is left when it fails."""

import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from binder.rebalance.integer_program import IntegerProgram, Row, gained, solve
from binder.solver.solver_process import COMMAND, SolverFailure, SolverProcess
from tests.binder.counts import Counts
from tests.binder.rebalance.test_rebalance import served, unchanged
from tests.binder.views import HiddenSolution, view

PROGRAM: Final = IntegerProgram([3.0, 3.0], [Row({0: 2.0, 1: 3.0}, most=9.0)], [0, 1], [0, 3])
BEST: Final = 4
LONG: Final = 60.0
READY: Final = """
import os, signal, sys, time
from binder.rebalance.integer_program import Solution
from binder.solver.frames import read_task, write_answer
out = sys.stdout.buffer
"""
SOLVING: Final = READY + "write_answer(out, None); read_task(sys.stdin.buffer);"


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def answering(answer: str) -> tuple[str, ...]:
    return python(f"{SOLVING} write_answer(out, {answer}); read_task(sys.stdin.buffer)")


FAILING: Final = {
    "no such program": (("/nowhere/solver",), SolverFailure.NOT_STARTED),
    "ends at once": (python("raise SystemExit(3)"), SolverFailure.NOT_STARTED),
    "cannot load the solver": (python(f"{READY}write_answer(out, 'ImportError')"), SolverFailure.NOT_STARTED),
    "prints before it is ready": (python("print('Copyright of the solver')"), SolverFailure.NOT_STARTED),
    "killed": (python(f"{SOLVING} os.kill(os.getpid(), signal.SIGKILL)"), SolverFailure.DIED),
    "ends instead of an answer": (python(SOLVING), SolverFailure.DIED),
    "stops in the middle of a frame": (python(f"{SOLVING} out.write(bytes([0, 0, 0, 9, 1]))"), SolverFailure.DIED),
    "hangs": (python(f"{SOLVING} time.sleep(600)"), SolverFailure.TIMEOUT),
    "does not even read": (python(f"{READY}write_answer(out, None); time.sleep(600)"), SolverFailure.TIMEOUT),
    "an error": (answering("'ZeroDivisionError'"), SolverFailure.ERROR),
    "no frame": (python(f"{SOLVING} out.write(b'Segmentation fault')"), SolverFailure.INVALID),
    "another value": (answering("{'values': 'all'}"), SolverFailure.INVALID),
    "ready once more": (answering("None"), SolverFailure.INVALID),
    "too few values": (answering("Solution([3], 3.0, 0.0)"), SolverFailure.INVALID),
    "more than the most": (answering("Solution([9, 0], 9.0, 0.0)"), SolverFailure.INVALID),
    "less than nothing": (answering("Solution([-1, 9], 9.0, 0.0)"), SolverFailure.INVALID),
    "worse than before": (answering("Solution([1, 1], 2.0, 0.0)"), SolverFailure.INVALID),
    "no time": (answering("Solution([3, 1], 4.0, float('nan'))"), SolverFailure.INVALID),
}


def patience(failure: SolverFailure) -> float:
    """Short only where nothing is waited for."""
    return 0.1 if failure is SolverFailure.TIMEOUT else LONG


def solver_process(counts: Counts, command: tuple[str, ...] = COMMAND, *, grace_seconds: float = LONG) -> SolverProcess:
    """One whose process ends with the pass."""
    return SolverProcess(counts.solver, command, grace_seconds=grace_seconds, idle_seconds=0.0)


@pytest.fixture
def counts() -> Counts:
    return Counts()


def test_the_solution_is_that_of_the_solver(counts: Counts) -> None:
    with solver_process(counts).session() as solve_elsewhere:
        for _ in range(2):
            solution = solve_elsewhere(PROGRAM, LONG)
            assert gained(PROGRAM, solution.values) == BEST
            assert solution.values == solve(PROGRAM, LONG).values
    assert not counts.counted


def test_a_session_without_a_program_starts_no_process(counts: Counts) -> None:
    with solver_process(counts, ("/nowhere/solver",)).session():
        pass
    assert not counts.counted


@pytest.mark.parametrize(("command", "failure"), FAILING.values(), ids=FAILING)
def test_a_failure_leaves_the_start_and_is_counted(
    counts: Counts, command: tuple[str, ...], failure: SolverFailure
) -> None:
    with solver_process(counts, command, grace_seconds=patience(failure)).session() as solve_elsewhere:
        for _ in range(2):
            assert list(solve_elsewhere(PROGRAM, 0.1).values) == [0, 3]
    assert counts.counted == {("solver failed", failure): 1}


def test_the_next_pass_retries_and_a_cause_is_logged_once(counts: Counts, caplog: pytest.LogCaptureFixture) -> None:
    process = solver_process(counts, python("raise SystemExit(3)"))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            with process.session() as solve_elsewhere:
                solve_elsewhere(PROGRAM, LONG)
    assert counts.counted == {("solver failed", SolverFailure.NOT_STARTED): 3}
    assert [record.message for record in caplog.records] == ["Solver failed"]


@pytest.fixture
def started(tmp_path: Path) -> tuple[tuple[str, ...], Path]:
    """A solver process that notes its number in a file."""
    note = tmp_path / "pid"
    code = f"import os, runpy; open({str(note)!r}, 'a').write(f'{{os.getpid()}} '); "
    return python(f"{code} runpy.run_module('binder.solver', run_name='__main__')"), note


def numbers(note: Path) -> list[int]:
    return [int(number) for number in note.read_text(encoding="ascii").split()]


@pytest.mark.parametrize("error", [None, ZeroDivisionError])
def test_the_process_serves_pass_after_pass(
    counts: Counts, started: tuple[tuple[str, ...], Path], error: type[Exception] | None
) -> None:
    command, note = started
    process = SolverProcess(counts.solver, command)
    for _ in range(2):
        try:
            with process.session() as solve_elsewhere:
                solve_elsewhere(PROGRAM, LONG)
                solve_elsewhere(PROGRAM, LONG)
                if error is not None:
                    raise error
        except ZeroDivisionError:
            pass
    (number,) = numbers(note)
    os.kill(number, signal.SIGKILL)
    assert not counts.counted


def test_the_process_ends_when_it_is_idle_and_another_serves_the_next_pass(
    counts: Counts, started: tuple[tuple[str, ...], Path]
) -> None:
    command, note = started
    process = solver_process(counts, command)
    for passes in (1, 2):
        with process.session() as solve_elsewhere:
            assert gained(PROGRAM, solve_elsewhere(PROGRAM, LONG).values) == BEST
        assert len(numbers(note)) == passes
        wait_for_end(numbers(note)[-1])
    assert not counts.counted


def wait_for_end(number: int) -> None:
    """Wait until there is no such process any more; the test's timeout is the limit."""
    while True:
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)


def test_a_process_that_ended_between_two_passes_is_replaced(
    counts: Counts, started: tuple[tuple[str, ...], Path]
) -> None:
    command, note = started
    process = SolverProcess(counts.solver, command)
    for _ in range(2):
        with process.session() as solve_elsewhere:
            assert gained(PROGRAM, solve_elsewhere(PROGRAM, LONG).values) == BEST
        os.kill(numbers(note)[-1], signal.SIGKILL)
        os.waitid(os.P_PID, numbers(note)[-1], os.WEXITED | os.WNOWAIT)
    assert len(numbers(note)) == 2
    assert not counts.counted


def test_as_many_pods_are_served_as_with_the_solver_in_this_process(counts: Counts) -> None:
    seen = view(*HiddenSolution(2, pods=30, slack=(0,)).records())
    with solver_process(counts).session() as solve_elsewhere:
        assert len(served(seen, solve_elsewhere)) == 30
    assert not counts.counted


@pytest.mark.parametrize("cause", ["no such program", "killed", "hangs", "more than the most"])
def test_pods_keep_what_they_got_one_by_one_when_the_solver_fails(counts: Counts, cause: str) -> None:
    seen = view(*HiddenSolution(2, pods=30, slack=(0,)).records())
    command, failure = FAILING[cause]
    with solver_process(counts, command, grace_seconds=patience(failure)).session() as solve_elsewhere:
        assert served(seen, solve_elsewhere) == served(seen, unchanged)
    assert counts.counted.total() == 1
