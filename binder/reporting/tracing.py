"""What is traced of the controller's work: each attempt for a pod, and in it plan, probe and writes.

`UNTRACED` is the default. OpenTelemetry is at the rim (prebinder.tracing).
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol

from binder.model.decision import Decision, Finish, Provision, Reject, Reserve, Wait
from kube.objects.model import Pod

Facts = Mapping[str, str | int | Sequence[str]]
"""Attributes of a span, by their names in OpenTelemetry."""

NO_FACTS: Final[Facts] = {}


class Span(Protocol):
    """A piece of work that is under way."""

    def note(self, facts: Facts) -> None:
        """Add attributes."""


class Tracing(Protocol):
    """Records pieces of work, how long they took, and the error that ended them."""

    def attempt(self, pod: Pod) -> AbstractContextManager[Span]:
        """An attempt to give the pod its volumes; begins a trace."""

    def step(self, name: str, facts: Facts = NO_FACTS, *, remote: bool = False) -> AbstractContextManager[Span]:
        """A step within the attempt, or the step, that is under way; nothing outside one. `remote`: it is a
        request to another program.
        """


class _Unrecorded:
    def note(self, facts: Facts) -> None: ...


UNRECORDED: Final[Span] = _Unrecorded()


class _Untraced:
    def attempt(self, pod: Pod) -> AbstractContextManager[Span]:  # noqa: ARG002 - the port's
        return nullcontext(UNRECORDED)

    def step(self, name: str, facts: Facts = NO_FACTS, *, remote: bool = False) -> AbstractContextManager[Span]:  # noqa: ARG002
        return nullcontext(UNRECORDED)


UNTRACED: Final[Tracing] = _Untraced()


def facts_of(decision: Decision | None) -> Facts:
    """Return what a trace tells of a decision; None is one that could not be made."""
    kind = {"decision": "none" if decision is None else type(decision).__name__.lower()}
    match decision:
        case Reserve():
            where = {"mode": decision.mode.value, "zone": decision.zone, "node": decision.node}
            return {**kind, **where, "volumes": _names(decision)}
        case Finish():
            return {**kind, "volumes": _names(decision)}
        case Provision():
            return {**kind, "node": decision.node, "volumes": _names(decision)}
        case Wait() | Reject():
            return {**kind, "reason": decision.reason.value}
        case _:
            return kind


def _names(decision: Reserve | Finish | Provision) -> Sequence[str]:
    return [volume.name for volume in decision.volumes]
