"""Whether `why` is right about an incident: its code, the cause in its words, and advice that helps.

`python -m tests.why.incidents.judgement` prints the rates by round: the incidents of round 1 are those by which rules
and texts were written; those of later rounds were put before `why` after their truth had been written down.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tests.why.documents import why
from tests.why.incidents.incident import Incident, incidents
from why.report.report import Item

PARTS: Final = ("code", "cause", "advice")


@dataclass(frozen=True)
class Judgement:
    """What is wrong in an answer, by part: the words that it lacks. Nothing is, if it is empty."""

    code: tuple[str, ...] = ()
    cause: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    @property
    def wrong(self) -> tuple[str, ...]:
        return tuple(part for part in PARTS if getattr(self, part))


def words_of(item: Item) -> str:
    """Return all that the answer says about the cause."""
    return " ".join((item.message, *(each.found for each in item.evidence)))


def advice_of(item: Item) -> str:
    """Return all that the answer says to do."""
    return " ".join((*item.next, *item.advice))


def judged(incident: Incident) -> Judgement:
    """Compare the answer with the truth. A cause that `why` cannot know is not named, and so counts as wrong."""
    item = why(incident.target, *incident.documents)
    says, helps = words_of(item), advice_of(item)
    code = () if item.code == incident.code and item.problem else (f"{incident.code}, not {item.code}",)
    cause = tuple(part for part in incident.words if part not in says)
    if incident.unknown:
        cause = (incident.unknown,)
    return Judgement(code, cause, tuple(part for part in incident.advice if part not in helps))


def rates(of: Iterable[tuple[str, ...]]) -> dict[str, float]:
    """Return the share of answers in which each part is right, by what is wrong in each answer."""
    every = list(of)
    return {part: sum(part not in wrong for wrong in every) / len(every) for part in PARTS}


def _line(title: str, of: list[tuple[str, ...]]) -> str:
    shares = ", ".join(f"{part} {share:.1%}" for part, share in rates(of).items())
    return f"{title}: {len(of)} incidents, {shares}, all three {sum(not wrong for wrong in of) / len(of):.1%}"


def report() -> Iterator[str]:
    """Yield a line for each round at its first try, one for each round now, and one for all."""
    every = [(incident, judged(incident).wrong) for incident in incidents()]
    for number in sorted({incident.round for incident, _ in every}):
        of_round = [(incident, wrong) for incident, wrong in every if incident.round == number]
        if number > 1:
            yield _line(f"round {number}, first try", [tuple(incident.missed) for incident, _ in of_round])
        yield _line(f"round {number}, now", [wrong for _, wrong in of_round])
    yield _line("all, now", [wrong for _, wrong in every])
    yield from (f"  {incident.name}: {', '.join(wrong)} wrong" for incident, wrong in every if wrong)


if __name__ == "__main__":
    sys.stdout.write("\n".join((*report(), "")))
