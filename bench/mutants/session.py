"""The pytest plugin that judges mutations: `pytest -p bench.mutants.session tests/csi/health`.

The tests are collected once. A first child process runs all of them, noting which functions each one calls; then each
mutation gets a child of its own, in which the code of its function is replaced before the tests that call it run. No
file is changed, and nothing is imported or collected again.
"""

import gc
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Final, TypeAlias

import pytest

from bench.mutants.mutations import Mutation, is_python, mutations

Place: TypeAlias = str
"""A function: `PATH:LINE` of its first line."""
Record: TypeAlias = dict[str, tuple[float, list[Place]]]
"""Test -> its seconds, and what it calls."""

PATIENCE: Final = 30.0
"""Seconds, beyond five times what its tests take, after which a mutation that makes them hang counts as found."""
_FOUND, _SURVIVED, _HANGS, _CRASHES, _UNCLEAR = "found", "survived", "hangs", "crashes", "unclear"


def pytest_runtestloop(session: pytest.Session) -> bool:
    """Judge a sample: its size, its seed and the files are in $MUTANTS, verdicts go to the file named there."""
    options = json.loads(os.environ["MUTANTS"])
    items = {item.nodeid: item for item in session.items if item.get_closest_marker("cluster") is None}
    record_file = Path(options["record"])
    record: Record = json.loads(record_file.read_text()) if record_file.exists() else {}
    if record.keys() != items.keys():
        _in_child(lambda: _write_record(list(items.values()), record_file), None)
        record = json.loads(record_file.read_text())
    verdicts = Path(options["verdicts"])
    known = dict(json.loads(line) for line in verdicts.read_text().splitlines()) if verdicts.exists() else {}
    for key, mutation in sample(options["files"], options["each"], options["seed"]):
        if key not in known:
            known[key] = _judged(mutation, record, items)
            with verdicts.open("a") as file:
                file.write(json.dumps([key, known[key]]) + "\n")
        print(f"{known[key]:9}{mutation.path}:{mutation.line} {mutation.what}", file=sys.stderr, flush=True)
    return True


def sample(files: Sequence[str], count: int, seed: int) -> Iterator[tuple[str, Mutation]]:
    """Yield that many mutations inside functions with their names, of all files alike. Each has its place in the order
    by its own text: a sample stays what it was when other lines come and go.
    """
    named, seen = dict[str, Mutation](), Counter[tuple[str, str]]()
    for each in (each for file in files for each in mutations(file, _source(file)) if each.function):
        seen[each.path, each.what] += 1
        named[f"{each.path} {each.what} {seen[each.path, each.what]}"] = each
    order = sorted(named, key=lambda name: sha256(f"{seed} {name}".encode()).digest())
    chosen = ((name, named[name]) for name in order)
    return islice((pair for pair in chosen if is_python(pair[1].apply(_source(pair[1].path)))), count)


@cache
def _source(path: str) -> str:
    """Return the text of a module as it was at the first look: it may be changed while its mutations are judged."""
    return Path(path).read_text()


def _judged(mutation: Mutation, record: Record, items: dict[str, pytest.Item]) -> str:
    place, room = f"{mutation.path}:{mutation.function}", f"tests/{Path(mutation.path).parent}/"
    chosen = [test for test, (_, calls) in record.items() if place in calls and test in items]
    chosen.sort(key=lambda test: (not test.startswith(room), record[test][0]))

    if not chosen:
        return _SURVIVED
    chosen_items = [items[test] for test in chosen]
    seconds = PATIENCE + 5 * sum(record[test][0] for test in chosen)
    with tempfile.NamedTemporaryFile(prefix="mutants-") as note:
        status = _in_child(partial(_fails, chosen_items, Path(note.name), mutation), seconds)
        failed = Path(note.name).read_text()
    if not failed and status:
        # The process of the tests ended before one could fail, as after a fault in a library in C.
        return _CRASHES if _in_child(partial(_fails, chosen_items, Path(os.devnull)), None) == 0 else _UNCLEAR
    if not failed:
        return _HANGS if status is None else _SURVIVED
    # A test that fails without the mutation too, because the machine is busy for instance, shows nothing.
    by_itself = _in_child(partial(_fails, [items[failed]], Path(os.devnull)), None)
    return _FOUND if by_itself == 0 else _UNCLEAR


def _fails(items: Sequence[pytest.Item], note: Path, mutation: Mutation | None = None) -> int:
    """Return 1 if one of the tests fails with the mutation, and note which."""
    if mutation is not None:
        _replace(mutation)
    failed = _first_failure(items)
    note.write_text(failed or "")
    return int(failed is not None)


def _in_child(work: Callable[[], int], seconds: float | None) -> int | None:
    """Return the exit status of a child that does this, None if it takes longer."""
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        status = 1
        try:
            status = work()
        finally:
            os._exit(status)
    deadline = time.monotonic() + (seconds or 1e9)
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _first_failure(
    items: Sequence[pytest.Item], after: Callable[[pytest.Item], None] = lambda _: None, *, all_of_them: bool = False
) -> str | None:
    """Run tests up to the first that fails, or all, and return the first that failed."""
    failed: list[str] = []

    class Failures:
        @staticmethod
        def pytest_runtest_logreport(report: pytest.TestReport) -> None:
            if report.failed:
                failed.append(report.nodeid)

    for item, following in zip(items, [*items[1:], None], strict=True):
        if not item.config.pluginmanager.has_plugin("failures"):
            item.config.pluginmanager.register(Failures(), "failures")
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        after(item)
        if failed and not all_of_them:
            break
    return failed[0] if failed else None


def _replace(mutation: Mutation) -> None:
    """Give every function made from the mutated one's code the code of the mutation."""
    original = str(Path(mutation.path).resolve())
    source = mutation.apply(_source(mutation.path))
    outermost = dict(_functions(compile(source, original, "exec", dont_inherit=True)))
    for function in [each for each in gc.get_objects() if isinstance(each, FunctionType)]:
        code = function.__code__
        changed = outermost.get((code.co_firstlineno, code.co_qualname)) if code.co_filename == original else None
        if changed is not None and changed.co_freevars == code.co_freevars:
            function.__code__ = changed


def _functions(code: CodeType) -> Iterator[tuple[tuple[int, str], CodeType]]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield (constant.co_firstlineno, constant.co_qualname), constant
            yield from _functions(constant)


def _write_record(items: Sequence[pytest.Item], file: Path) -> int:
    root, called, record = f"{Path.cwd()}/", set[CodeType](), dict[str, tuple[float, list[Place]]]()
    began = [time.monotonic()]

    def note(frame: FrameType, _event: str, _argument: object) -> None:
        called.add(frame.f_code)

    def note_calls(item: pytest.Item) -> None:
        codes = [each for each in list(called) if each.co_filename.startswith(root)]
        places = {f"{each.co_filename.removeprefix(root)}:{each.co_firstlineno}" for each in codes}
        record[item.nodeid] = (time.monotonic() - began[0], sorted(places))
        called.clear()
        began[0] = time.monotonic()

    threading.settrace(note)
    sys.settrace(note)
    _first_failure(items, note_calls, all_of_them=True)
    sys.settrace(None)
    file.write_text(json.dumps(record))
    return 0
