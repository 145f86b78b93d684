"""Where a thread spent its time: stacks that were seen and how often, as a table or for other tools. Pure."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

LONGEST_TABLE: Final = 30
_WAITING: Final = ("selectors", "select")
"""Where an event loop that has nothing to do stands."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of Python code; `line` is its first."""

    module: str
    name: str
    file: str
    line: int

    @property
    def title(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def waits(self) -> bool:
        return (self.module, self.name.rpartition(".")[2]) == _WAITING


Stack = tuple[Function, ...]
"""From the outermost function to the one that was running."""


@dataclass(frozen=True, slots=True)
class Samples:
    """What was seen in `seconds`, one look every `interval` seconds or a little more."""

    seconds: float
    interval: float
    stacks: Mapping[Stack, int]

    @property
    def busy(self) -> Mapping[Stack, int]:
        """The stacks in which something was done."""
        return {stack: count for stack, count in self.stacks.items() if stack and not stack[-1].waits}


def table(samples: Samples) -> str:
    """Return the functions with the largest shares: of their own, then together with what they call.

    What everything is called by, such as the event loop itself, is left out there.
    """
    busy, seen = sum(samples.busy.values()), sum(samples.stacks.values())
    own, whole = _counts(samples.busy)
    share = busy / seen if seen else 0.0
    heading = f"{samples.seconds:g} s, {seen} samples, busy in {share:.1%}; shares are of the busy samples"
    lines = [heading, "", *_rows("by their own work", own, own, whole, busy)]
    telling = Counter({one: count for one, count in whole.items() if own[one] or count < busy})
    return "\n".join([*lines, "", *_rows("with all they call", telling, own, whole, busy), ""])


def collapsed(samples: Samples) -> str:
    """Return a line for each stack as flamegraph.pl, inferno and speedscope read them: `a;b;c 17`."""
    lines = (f"{';'.join(f'{one.title}:{one.line}' for one in stack)} {count}" for stack, count in _sorted(samples))
    return "".join(f"{line}\n" for line in lines)


def speedscope(samples: Samples) -> str:
    """Return a file for speedscope.app (its schema: speedscope.app/file-format-schema.json), weights in seconds."""
    stacks = _sorted(samples)
    frames = {
        function: number for number, function in enumerate(dict.fromkeys(one for stack, _ in stacks for one in stack))
    }
    weights = [count * samples.interval for _, count in stacks]
    profile: dict[str, Any] = {
        "type": "sampled",
        "name": "event loop",
        "unit": "seconds",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": [[frames[one] for one in stack] for stack, _ in stacks],
        "weights": weights,
    }
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "shared": {"frames": [{"name": one.title, "file": one.file, "line": one.line} for one in frames]},
        "profiles": [profile],
        "exporter": "pvc-prebinder",
    }
    return json.dumps(document) + "\n"


def _sorted(samples: Samples) -> list[tuple[Stack, int]]:
    return sorted(samples.stacks.items(), key=lambda one: (-one[1], [function.title for function in one[0]]))


def _counts(stacks: Mapping[Stack, int]) -> tuple[Counter[Function], Counter[Function]]:
    """Return how often each function was running itself, and how often it was anywhere in the stack."""
    own: Counter[Function] = Counter()
    whole: Counter[Function] = Counter()
    for stack, count in stacks.items():
        own[stack[-1]] += count
        for function in set(stack):  # once, however often it calls itself
            whole[function] += count
    return own, whole


def _rows(
    title: str, order: Counter[Function], own: Counter[Function], whole: Counter[Function], busy: int
) -> list[str]:
    chosen = sorted(order, key=lambda one: (-order[one], one.title))[:LONGEST_TABLE]
    rows = [f"{own[one] / busy:>6.1%}  {whole[one] / busy:>6.1%}  {one.title}:{one.line}" for one in chosen]
    return [f"functions {title}", f"{'OWN':>6}  {'TOTAL':>6}  FUNCTION", *rows]
