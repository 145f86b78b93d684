"""`python -m bench`: run the measurements, print a table, and write the results to bench/results/."""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from os import getloadavg
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from rich.table import Table

from bench.control_plane import pairs_bench, quiet_bench, scarce_bench, why_bench
from bench.health import reaction_bench, sweep_bench
from bench.hostile import hostile_bench
from bench.in_memory import cache_bench, match_bench, scarce_plan
from bench.machine import Machine, this_machine
from bench.progress import say
from bench.rows import Row, medians
from bench.scheduling import extended_bench, extender_bench, scheduler_bench

RESULTS: Final = Path(__file__).with_name("results")

PARTS: Final[Mapping[str, tuple[str, Callable[[bool], list[Row]]]]] = {
    "a": ("match one claim among many volumes", match_bench.run),
    "b": ("read and hold a large cluster", cache_bench.run),
    "c": ("pairs of claim and pod created at once", pairs_bench.run),
    "d": ("pods that compete for scarce volumes", scarce_bench.run),
    "e": ("requests on a quiet cluster", quiet_bench.run),
    "f": ("probe all volumes of a driver", sweep_bench.run),
    "g": ("10,000 volumes whose health is watched", reaction_bench.run),
    "h": ("answer kube-scheduler about 5,000 nodes", extender_bench.run),
    "i": ("kube-scheduler with the extender and without", extended_bench.run),
    "j": ("our scheduler beside kube-scheduler", scheduler_bench.run),
    "k": ("what one user can create to slow others down", hostile_bench.run),
    "l": ("plan the pods of part d in memory", scarce_plan.run),
    "m": ("why -A in a large cluster", why_bench.run),
}


def main() -> None:
    """Run the requested measurements, all by default; about an hour and a half on 2 cores."""
    arguments = _arguments()
    machine, started, results = this_machine(), datetime.now(UTC), {}
    for letter in arguments.only or PARTS:
        title, run = PARTS[letter]
        say(f"({letter}) {title}")
        if letter == "c" and (arguments.pairs or arguments.mode):
            run = partial(_measure_chosen, arguments)
        rounds = []
        for number in range(arguments.repeat):
            say(f"({letter}) round {number + 1} of {arguments.repeat}, load {getloadavg()[0]:.1f}")
            rounds.append(run(arguments.quick))
        results[letter] = medians(rounds)
        _print(f"({letter}) {title}", results[letter])
    _print_machine(machine)
    print(f"Written to {_write(machine, started, results)}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=list(PARTS), metavar="PART", help="of a b c d e f g h i j k l m; default all"
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that it works; not a measurement")
    parser.add_argument("--pairs", type=int, metavar="N", help="part c with this many pairs")
    parser.add_argument(
        "--mode",
        nargs="+",
        choices=["in-tree", "annotate", "prebind", "complete"],
        metavar="MODE",
        help="part c with these only: in-tree annotate prebind complete",
    )
    parser.add_argument(
        "--repeat",
        type=int,
        default=1,
        metavar="N",
        help="N rounds of each part, so that each case alternates with what it is compared with; prints the median"
        " and the range",
    )
    return parser.parse_args()


def _measure_chosen(arguments: argparse.Namespace, _: bool) -> list[Row]:
    return pairs_bench.measure(_chosen_cases(arguments))


def _chosen_cases(arguments: argparse.Namespace) -> list[pairs_bench.Case]:
    every = pairs_bench.cases(arguments.pairs or pairs_bench.PAIRS)
    return [case for case in every if not arguments.mode or (case.mode or "in-tree") in arguments.mode]


def _print(title: str, rows: list[Row]) -> None:
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading in ("what", "measured", "goal", "met", "detail"):
        table.add_column(heading, justify="right" if heading == "measured" else "left", overflow="fold")
    for row in rows:
        met = "" if row.met is None else "yes" if row.met else "NO"
        table.add_row(row.name, f"{row.value:,.4g} {row.unit}", _goal(row), met, row.detail)
    # Not truncated to 80 columns without a terminal.
    console = Console() if sys.stdout.isatty() else Console(width=160)
    console.print(table)


def _goal(row: Row) -> str:
    if row.at_most is not None:
        return f"at most {row.at_most:g}"
    return "" if row.at_least is None else f"at least {row.at_least:g}"


def _print_machine(machine: Machine) -> None:
    print(
        f"{machine.cores} cores of {machine.processor}, {machine.memory_gb:g} GB, Linux {machine.kernel}, "
        f"Python {machine.python}, load {machine.load:g} before"
    )


def _write(machine: Machine, started: datetime, results: Mapping[str, list[Row]]) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{started:%Y%m%dT%H%M%SZ}.json"
    parts = {letter: [asdict(row) | {"met": row.met} for row in rows] for letter, rows in results.items()}
    content = {"started": started, "machine": machine, "parts": parts}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(content)))
    return path


if __name__ == "__main__":
    main()
