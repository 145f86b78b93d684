"""What a dry run says: one line for each pod that would get volumes, and for the others how many, why, and one example.

It takes the place of the Events about reservations, which in a dry run would claim what did not happen.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from binder.matching.rejection import Reason
from binder.model.decision import Finish, Lost, Mode, Reject, Reserve
from binder.reporting.announce import Announcer
from binder.reporting.rejection_note import next_step
from kube.client.event_recorder import EventSink
from kube.clock import Clock
from kube.objects.model import Claim, Pod

FIRST_PASS_SECONDS: Final = 30.0
"""After which the first pass counts as complete although kube-scheduler has not said what it does with some pods."""
_POLL_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Pass:
    """How far a pass is: what each pod waits for, and the keys of those on which nothing is decided yet."""

    waiting: Mapping[str, Reason]
    undecided: Sequence[str]


class DryRunReport(Announcer):
    """Writes lines by `write` and publishes no Event; a line is repeated only after it has changed."""

    def __init__(self, sink: EventSink, clock: Clock, write: Callable[[str], None]) -> None:
        super().__init__(sink, clock)
        self._time, self._write = clock, write
        self._lines: dict[str, str] = {}
        self._notes: dict[str, Reject] = {}
        self._first_pass = True

    def reserved(self, decision: Reserve | Finish) -> None:
        self._notes.pop(decision.pod.key, None)
        self._say(decision.pod, would_reserve(decision))

    def rejected(self, decision: Reject, _claims: tuple[Claim, ...]) -> None:
        self._notes[decision.pod.key] = decision
        if self._first_pass:
            # The summary counts it: afterwards only a change is reported.
            self._lines[decision.pod.key] = would_not(decision)
        else:
            self._say(decision.pod, would_not(decision))

    def lost(self, decision: Reserve | Finish, lost: Lost) -> None:
        """Say nothing: the pod is planned again, and that is reported."""

    def write_rejected(self, pod: Pod, why: str) -> None:
        self._say(pod, f"{pod.key}: the API server would reject a write: {why}")

    def gate_kept(self, pod: Pod, gate: str) -> None:
        """Say nothing: in a dry run no right is used."""

    def forget(self, pod_key: str) -> None:
        if not self._first_pass:
            self._lines.pop(pod_key, None)
            self._notes.pop(pod_key, None)

    async def first_pass(self, now: Callable[[], Pass | None]) -> bool:
        """Wait until the first pass is complete, and write its summary; return whether every pod would get its volumes.

        `now` returns how far it is, None before it has begun or while pods are being reconciled.
        """
        deadline = self._time.monotonic() + FIRST_PASS_SECONDS
        while (state := now()) is None or (state.undecided and self._time.monotonic() < deadline):
            await self._time.sleep(_POLL_SECONDS)
        self._first_pass = False
        left = {key: reason for key, reason in state.waiting.items() if key not in self._lines}
        served = len(self._lines.keys() - self._notes.keys())
        for line in summary(served, list(self._notes.values()), state.undecided, left):
            self._write(line)
        return not self._notes and not state.undecided

    def _say(self, pod: Pod, line: str) -> None:
        if self._lines.get(pod.key) != line:
            self._lines[pod.key] = line
            self._write(line)


def would_reserve(decision: Reserve | Finish) -> str:
    """Return a line such as: would bind shop/db-0 in zone-b: data → b-data, log → b-log."""
    verb = "would finish the bind of"
    if isinstance(decision, Reserve):
        verb = "would reserve for" if decision.mode is Mode.ANNOTATE else "would bind"
    where = f" in {decision.zone}" if isinstance(decision, Reserve) and decision.zone else ""
    pairs = ", ".join(f"{placed.claim.name} → {placed.volume.name}" for placed in decision.placements)
    limits = (
        f" (only a hint: {', '.join(decision.limits)})" if isinstance(decision, Reserve) and decision.limits else ""
    )
    return f"{verb} {decision.pod.key}{where}: {pairs}{limits}"


def would_not(decision: Reject) -> str:
    """Return a line with the reason and the next step."""
    return f"no volumes for {decision.pod.key}: {_reason(decision)}"


def summary(served: int, rejected: Sequence[Reject], undecided: Sequence[str], left: Mapping[str, Reason]) -> list[str]:
    """Return the lines after the first pass: the counts, and each cause with an example, the most frequent first.

    `left`: the pods that are left to Kubernetes, or wait for something else than volumes.
    """
    lines = [f"{_pods(served)} would get volumes, {len(rejected)} would not."]
    for reason, number in Counter(decision.reason for decision in rejected).most_common():
        example = min((each for each in rejected if each.reason is reason), key=lambda each: each.pod.key)
        lines.append(f"  {number} {reason}, such as {example.pod.key}. {next_step(example)}".rstrip())
    if undecided:
        more = f" and {len(undecided) - 1} more" if len(undecided) > 1 else ""
        lines.append(f"  {len(undecided)} not decided yet, since kube-scheduler may place them: {undecided[0]}{more}")
    others = [(key, reason) for key, reason in sorted(left.items()) if key not in undecided]
    for reason, number in Counter(reason for _, reason in others).most_common():
        lines.append(
            f"  {_pods(number)} left alone: {reason}, such as {next(key for key, why in others if why is reason)}"
        )
    if rejected:
        pod = min(decision.pod.key for decision in rejected)
        namespace, _, name = pod.partition("/")
        lines.append(f"For all evidence: pvc-prebinder why pod/{name} -n {namespace}")
    lines.append("Nothing was written.")
    return lines


def _reason(decision: Reject) -> str:
    step = next_step(decision)
    return f"{decision.reason}: {step}" if step else str(decision.reason)


def _pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"
