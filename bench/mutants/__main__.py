"""`python -m bench.mutants`: put defects into rules and writers, one at a time, and count those that the unit tests at
the same path find.

Verdicts are kept in bench/results/mutants, so that a run that was interrupted continues; delete the folder after a
change of the product or its tests.
"""

import argparse
import json
import os
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = ROOT / "bench" / "results" / "mutants"
WRITERS: Final = (
    *("binder/writers", "binder/controllers", "csi", "csi/client", "kube/leaderelection", "kube/client"),
    *("scheduler/binding", "scheduler/standalone"),
)
"""Rooms judged beside the pure ones."""
PURE: Final = "Rules neither wait"
PYTEST: Final = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-p", "bench.mutants.session")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit with 1 if fewer are found than --bar says."""
    parser = argparse.ArgumentParser(prog="python -m bench.mutants", description=__doc__)
    parser.add_argument("--rooms", nargs="+", default=_rooms(), help="folders of the product (pure ones, and writers)")
    parser.add_argument("--each", type=int, default=10, help="defects in each room (10)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (1)")
    parser.add_argument("--bar", type=float, default=92.0, help="per cent that have to be found (92)")
    options = parser.parse_args(arguments)
    RESULTS.mkdir(parents=True, exist_ok=True)
    verdicts = [verdict for room in options.rooms for verdict in _verdicts(room, options.each, options.seed)]
    counted = Counter(verdicts)
    judged = len(verdicts) - counted["unclear"]
    share = 100 * (judged - counted["survived"]) / max(1, judged)
    print(f"{judged - counted['survived']} of {judged} found: {share:.0f} %; unclear: {counted['unclear']}")
    return int(share < options.bar)


def _verdicts(room: str, each: int, seed: int) -> list[str]:
    """Return the verdicts on a room's sample, by the tests at the same path."""
    name = room.replace("/", "-")
    kept = RESULTS / f"{name}-{seed}.jsonl"
    what = {
        "files": [str(path.relative_to(ROOT)) for path in sorted((ROOT / room).glob("*.py"))],
        "each": each,
        "seed": seed,
        "record": str(RESULTS / f"{name}.json"),
        "verdicts": str(kept),
    }
    tests = [str(path) for path in sorted((ROOT / "tests" / room).glob("test_*.py"))]
    if not tests:
        return []
    subprocess.run(
        [sys.executable, *PYTEST, *tests], check=False, cwd=ROOT, env={**os.environ, "MUTANTS": json.dumps(what)}
    )
    return [json.loads(line)[1] for line in kept.read_text().splitlines()] if kept.exists() else []


def _rooms() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    pure = next(each["source_modules"] for each in contracts if each["name"].startswith(PURE))
    return [*WRITERS, *(room.replace(".", "/") for room in pure)]


if __name__ == "__main__":
    sys.exit(main())
