"""`python -m soak`: soak with a seed and print the result; the exit code is 1 if any rule was violated."""

import argparse
import asyncio
import sys
import time
from pathlib import Path
from random import SystemRandom
from shutil import rmtree
from typing import Final

from soak.judge.driver import judge_driver, read_record
from soak.judge.history import read_file
from soak.judge.replay import replay
from soak.judge.writes import Authors, Parties, read
from soak.report import announcement, report, shown
from soak.run import judge_end, soak
from soak.schedule import schedule
from soak.stage.driver import DRIVER_RECORD

RESULTS: Final = Path(__file__).with_name("results")


def main() -> int:
    """Run one soak."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="duration of the faults in minutes, default 10")
    parser.add_argument("--seed", type=int, help="random seed; default a random one, which is printed")
    parser.add_argument(
        "--sets", action="store_true", help="also a StatefulSet whose volumes are held, lost and replaced"
    )
    parser.add_argument(
        "--pools", action="store_true", help="also pods whose volumes external-provisioner makes; builds it at first"
    )
    parser.add_argument("--print-schedule", action="store_true", help="print the schedule and exit")
    parser.add_argument("--judge", type=Path, metavar="DIR", help="judge the record of an earlier run and exit")
    arguments = parser.parse_args()
    if arguments.judge is not None:
        return _judge_again(arguments.judge)
    seed = SystemRandom().randrange(1_000_000) if arguments.seed is None else arguments.seed
    plan = schedule(seed, arguments.minutes * 60, sets=arguments.sets, pools=arguments.pools)
    if arguments.print_schedule:
        for operation in sorted((*plan.operations, *plan.troubles), key=lambda each: each.at):
            print(operation)
        return 0
    directory = RESULTS / str(seed)
    rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    start = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - start:5.0f} s  {text}", flush=True)

    print("\n".join(announcement(plan, directory)), flush=True)
    say("starting etcd, the API server, the controller manager, kube-scheduler, nodes, volumes, and our processes")
    outcome = asyncio.run(soak(plan, directory, say))
    text = "\n".join(report(outcome))
    (directory / "report.txt").write_text(text + "\n", encoding="utf-8")
    print(text, flush=True)
    return 1 if outcome.violations else 0


def _judge_again(directory: Path) -> int:
    """Apply the rules to a record; the logs, and that all was quiet at the end, are not checked again."""
    with (directory / "audit.log").open(encoding="utf-8", errors="replace") as lines:
        authors = Authors(read(lines, Parties()))
    changes = read_file(directory / "history.jsonl")
    judged = replay(changes, authors)
    with (directory / DRIVER_RECORD).open(encoding="utf-8") as lines:
        violations = [*judged.violations, *judge_driver(changes, authors, read_record(lines))]
    violations += judge_end(judged.cluster, changes[-1].at)
    print("\n".join(shown(violations, changes, authors)))
    print(f"{judged.states} states, {judged.own_writes} writes of ours, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
