"""`python -m bench.mutants`: put defects into rules and writers, one at a time, and count those that the unit tests at
the same path find.

Verdicts are kept in bench/results/mutants, so that a run that was interrupted continues; --again judges survivors once
more, after new tests. Delete the folder after a change of the product.
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

from bench.mutants.session import sample

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
    parser.add_argument("--again", action="store_true", help="judge survivors once more: there are new tests")
    parser.add_argument("--bar", type=float, default=92.0, help="per cent that have to be found (92)")
    options = parser.parse_args(arguments)
    RESULTS.mkdir(parents=True, exist_ok=True)
    counted = Counter[str]()
    for room in options.rooms:
        verdicts = Counter(_verdicts(room, options.each, options.seed, again=options.again))
        print(f"{room}: {_number_found(verdicts)} of {_number_judged(verdicts)} found", flush=True)
        counted += verdicts
    share = 100 * _number_found(counted) / max(1, _number_judged(counted))
    print(f"{_number_found(counted)} of {_number_judged(counted)} found: {share:.0f} %; unclear: {counted['unclear']}")
    return int(share < options.bar)


def _number_judged(verdicts: Counter[str]) -> int:
    return verdicts.total() - verdicts["unclear"]


def _number_found(verdicts: Counter[str]) -> int:
    return _number_judged(verdicts) - verdicts["survived"]


def _verdicts(room: str, each: int, seed: int, *, again: bool) -> list[str]:
    """Return the verdicts on a room's sample, by the tests at the same path."""
    name = room.replace("/", "-")
    kept, record = RESULTS / f"{name}-{seed}.jsonl", RESULTS / f"{name}.json"
    files = [str(path.relative_to(ROOT)) for path in sorted((ROOT / room).glob("*.py"))]
    if again and kept.exists():
        record.unlink(missing_ok=True)
        stay = [line for line in kept.read_text().splitlines() if json.loads(line)[1] in {"found", "hangs", "crashes"}]
        kept.write_text("".join(f"{line}\n" for line in stay))
    what = {"files": files, "each": each, "seed": seed, "record": str(record), "verdicts": str(kept)}
    tests = [str(path) for path in sorted((ROOT / "tests" / room).glob("test_*.py"))]
    if not tests:
        return []
    ended = subprocess.run(
        [sys.executable, *PYTEST, *tests], check=False, cwd=ROOT, env={**os.environ, "MUTANTS": json.dumps(what)}
    )
    if ended.returncode < 0:
        sys.exit(f"{room}: signal {-ended.returncode} ended it before all were judged: run it again to continue")
    known = dict(json.loads(line) for line in kept.read_text().splitlines()) if kept.exists() else {}
    return [known[key] for key, _ in sample(files, each, seed) if key in known]


def _rooms() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    pure = next(each["source_modules"] for each in contracts if each["name"].startswith(PURE))
    return [*WRITERS, *(room.replace(".", "/") for room in pure)]


if __name__ == "__main__":
    sys.exit(main())
