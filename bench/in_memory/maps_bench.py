"""(q) `immutables` against `kube/sharded_map`, end to end: `simulate` with the same seed, the two in turns.

Whole processes are measured, by the kernel's account of them. Both must print the same result.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Final

from bench.progress import say
from bench.rows import Row

ROUNDS: Final = 5
SIZES: Final = ((200, 1_000), (1_000, 2_000))
"""Nodes and pods."""
KINDS: Final = ("immutables", "sharded_map")
_PROGRAM: Final = """\
import sys
if {hidden}:
    sys.modules["immutables"] = None
from prebinder.cli import main
sys.exit(main(sys.argv[1:]))
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """One process: user seconds, megabytes at its peak, and what it printed."""

    seconds: float
    peak: float
    printed: bytes


def run(quick: bool) -> list[Row]:
    """Measure; quick: the smaller size, twice."""
    sizes, rounds = (SIZES[:1], 2) if quick else (SIZES, ROUNDS)
    return [row for nodes, pods in sizes for row in _compared(nodes, pods, rounds)]


def _compared(nodes: int, pods: int, rounds: int) -> list[Row]:
    ended: dict[str, list[Ended]] = {kind: [] for kind in KINDS}
    for number in range(rounds):
        say(f"{nodes} nodes, {pods} pods, round {number + 1} of {rounds}")
        for kind in KINDS:
            ended[kind].append(_simulated(kind, nodes, pods))
    if len({each.printed for each in (*ended["immutables"], *ended["sharded_map"])}) != 1:
        raise RuntimeError("the two kinds of maps gave different results")
    size = f"{nodes} nodes, {pods} pods"
    return [
        row
        for kind in KINDS
        for row in (
            Row.of_rounds(f"{kind}: user seconds", [each.seconds for each in ended[kind]], "s", size),
            Row.of_rounds(f"{kind}: memory at the peak", [each.peak for each in ended[kind]], "MB", size),
        )
    ]


def _simulated(kind: str, nodes: int, pods: int) -> Ended:
    program = _PROGRAM.format(hidden=kind == "sharded_map")
    flags: Sequence[str] = ("simulate", f"--nodes={nodes}", f"--pods={pods}", "--seed=1", "-o", "json")
    with TemporaryFile() as output:
        actions = [(os.POSIX_SPAWN_DUP2, output.fileno(), 1)]
        command = [sys.executable, "-c", program, *flags]
        pid = os.posix_spawn(sys.executable, command, os.environ, file_actions=actions)
        _, status, used = os.wait4(pid, 0)
        if os.waitstatus_to_exitcode(status) not in {0, 3}:  # 3: a pod is not placed
            raise RuntimeError(f"simulate ended with {os.waitstatus_to_exitcode(status)}")
        output.seek(0)
        return Ended(used.ru_utime, used.ru_maxrss * 1024 / 1e6, output.read())
