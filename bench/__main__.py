"""`python -m bench`: run the measurements, print a table, and write the results to bench/results/."""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from os import getloadavg
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from rich.table import Table

from bench.chart.pairs import publish
from bench.control_plane import pairs_bench, provision_bench, quiet_bench, scaling_bench, scarce_bench, why_bench
from bench.health import reaction_bench, sweep_bench
from bench.hostile import drivers_bench, hostile_bench
from bench.in_memory import cache_bench, match_bench, scarce_plan
from bench.machine import Machine, this_machine
from bench.other_work import OtherWork
from bench.progress import say
from bench.rows import Row, medians
from bench.scheduling import extended_bench, extender_bench, scheduler_bench
from devcluster.build.modules import chosen_kubernetes

RESULTS: Final = Path(__file__).with_name("results")

ROUNDS: Final = 3
"""Rounds of a part, unless --repeat says otherwise."""


@dataclass(frozen=True, slots=True)
class Part:
    """A question and what measures it. `repeats`: it runs its own rounds, in turns."""

    title: str
    run: Callable[[bool], list[Row]]
    repeats: bool = False


PARTS: Final[Mapping[str, Part]] = {
    "a": Part("match one claim among many volumes", match_bench.run),
    "b": Part("read and hold a large cluster", cache_bench.run),
    "c": Part("pairs of claim and pod created at once", pairs_bench.run),
    "d": Part("pods that compete for scarce volumes", scarce_bench.run),
    "e": Part("requests on a quiet cluster", quiet_bench.run),
    "f": Part("probe all volumes of a driver", sweep_bench.run),
    "g": Part("10,000 volumes whose health is watched", reaction_bench.run),
    "h": Part("answer kube-scheduler about 5,000 nodes", extender_bench.run),
    "i": Part("kube-scheduler with the extender and without", extended_bench.run, repeats=True),
    "j": Part("our scheduler beside kube-scheduler", scheduler_bench.run, repeats=True),
    "k": Part("what one user can create to slow others down", hostile_bench.run, repeats=True),
    "l": Part("plan the pods of part d in memory", scarce_plan.run),
    "m": Part("why -A in a large cluster", why_bench.run),
    "n": Part("pairs a second over the number of pairs", scaling_bench.run),
    "o": Part("what one CSI driver can do to the others", drivers_bench.run, repeats=True),
    "p": Part("pods whose volumes are to be made in scarce pools", provision_bench.run, repeats=True),
}


def main() -> None:
    """Run the requested measurements, all by default; some hours on 2 cores."""
    arguments = _arguments()
    machine, started, results = this_machine(), datetime.now(UTC), {}
    for letter in arguments.only or PARTS:
        part = PARTS[letter]
        say(f"({letter}) {part.title}")
        if letter in "cn" and (arguments.pairs or arguments.mode or arguments.limits or arguments.gated):
            part = replace(part, run=partial(_measure_chosen, _chosen_cases(letter, arguments)))
        results[letter] = _measure(letter, part, arguments)
        _print(f"({letter}) {part.title}", results[letter])
    _print_machine(machine)
    path = _write(machine, started, results)
    print(f"Written to {path}")
    if arguments.chart:
        print(f"Drawn: {publish(path)}")


def _measure(letter: str, part: Part, arguments: argparse.Namespace) -> list[Row]:
    """Run the rounds of a part; rows that know nothing of other work get that of their round."""
    count = arguments.repeat or (1 if part.repeats or arguments.quick else ROUNDS)
    rounds = []
    for number in range(count):
        say(f"({letter}) round {number + 1} of {count}, load {getloadavg()[0]:.1f}")
        others = OtherWork()
        rows = part.run(arguments.quick)
        beside = others.cores()
        rounds.append([replace(row, beside=row.beside or beside) for row in rows])
    return medians(rounds)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=list(PARTS), metavar="PART", help=f"of {' '.join(PARTS)}; default all"
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that it works; not a measurement")
    parser.add_argument("--pairs", nargs="+", type=int, metavar="N", help="parts c and n with so many pairs")
    parser.add_argument(
        "--mode",
        nargs="+",
        choices=["in-tree", "annotate", "prebind", "complete"],
        metavar="MODE",
        help="parts c and n with these only: in-tree annotate prebind complete",
    )
    parser.add_argument(
        "--limits",
        choices=["default", "lifted"],
        help="parts c and n with these limits of controller manager and scheduler only",
    )
    parser.add_argument("--gated", action="store_true", help="parts c and n without pods that ours does not gate")
    parser.add_argument(
        "--repeat",
        type=int,
        metavar="N",
        help="N rounds of each part, so that each case alternates with what it is compared with; prints the median"
        f" and the range. Default: {ROUNDS}, but 1 with --quick and for parts that repeat their cases themselves",
    )
    parser.add_argument(
        "--chart", action="store_true", help="draw the chart of docs/performance.md from the results of part n"
    )
    return parser.parse_args()


def _measure_chosen(cases: list[pairs_bench.Case], _: bool) -> list[Row]:
    return pairs_bench.measure(cases)


def _chosen_cases(letter: str, arguments: argparse.Namespace) -> list[pairs_bench.Case]:
    sizes = arguments.pairs or [pairs_bench.PAIRS]
    every = (
        scaling_bench.cases(sizes) if letter == "n" else [case for size in sizes for case in pairs_bench.cases(size)]
    )
    return [
        case
        for case in every
        if (not arguments.mode or (case.mode or "in-tree") in arguments.mode)
        and (not arguments.limits or case.lifted is (arguments.limits == "lifted"))
        and (not arguments.gated or case.gated or not case.mode)
    ]


def _print(title: str, rows: list[Row]) -> None:
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading in ("what", "measured", "range", "goal", "met", "detail"):
        table.add_column(heading, justify="right" if heading == "measured" else "left", overflow="fold")
    for row in rows:
        met = "" if row.met is None else "yes" if row.met else "NO"
        table.add_row(row.name, f"{row.value:,.4g} {row.unit}", _range(row), _goal(row), met, _detail(row))
    # Not truncated to 80 columns without a terminal.
    console = Console() if sys.stdout.isatty() else Console(width=160)
    console.print(table)


def _range(row: Row) -> str:
    return f"{row.lowest:,.4g} to {row.highest:,.4g} in {len(row.rounds)} rounds" if row.rounds else ""


def _detail(row: Row) -> str:
    beside = f"beside other work on {row.beside:.1f} cores" if row.disturbed else ""
    return "; ".join(filter(None, (beside, row.detail)))


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
    content = {"started": started, "kubernetes": chosen_kubernetes(), "machine": machine, "parts": parts}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(content)))
    return path


if __name__ == "__main__":
    main()
