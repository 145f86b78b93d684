"""What a check is, and what it returns.

A check is a pure function of the facts and one claim, pod or volume. It returns a Finding if, and only if, its cause is
what keeps that object waiting, else None. To add one:

1. Write it in the module of its family, with a docstring that cites its upstream source. It begins with
   `facts.need(Source.X, ...)` for everything it depends on; what may not be read then blocks the check automatically,
   and what would only refine the answer is tested by `facts.has(Source.X)`.
2. Add it to its place in `precedence`: before every check whose finding would only be its symptom.
3. Give it a code: a member of `binder.matching.rejection.Reason`, and a page in docs/causes.
4. Add the case to the table in tests/why/causes, alone and hidden under another.
"""

from collections.abc import Callable
from dataclasses import dataclass

from binder.matching.rejection import Reason
from kube.objects.model import Claim, Pod, Volume
from why.facts.facts import Facts
from why.report.report import Evidence, Link


@dataclass(frozen=True, slots=True)
class Step:
    """A command that can be run as it is, and its effect or cost."""

    command: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause. `message` is one sentence; `links` lead from the object that was checked to the root cause."""

    code: Reason
    message: str
    links: tuple[Link, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    next: tuple[Step, ...] = ()
    problem: bool = True


ClaimCheck = Callable[[Facts, Claim], Finding | None]
PodCheck = Callable[[Facts, Pod], Finding | None]
VolumeCheck = Callable[[Facts, Volume], Finding | None]
