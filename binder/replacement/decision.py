"""What to do next about a pod's lost volumes, from what the API shows now: a plan, a wait, an end, or why not.

The steps of a plan are in their order, and each one leaves a state from which this function goes on:
turn -> old volumes marked -> new ones reserved -> claims deleted -> pod evicted -> (the owner creates both again, and
Kubernetes binds) -> marks and turn removed. Up to the first deletion a missing proof takes everything back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from binder.matching.rejection import Rejection
from binder.replacement.choice import Choice, NoChoice, choose
from binder.replacement.progress import (
    Progress,
    after_deletion,
    before_deletion,
    progress_of,
    unwinding,
    what_is_missing,
)
from binder.replacement.proofs import Missing, Proof, lost
from binder.replacement.request import ReplaceRequest, proven, reasons_against, subjects
from binder.replacement.situation import Situation
from binder.replacement.steps import EvictPod, Step, end_turn, present_steps, release_new, take_turn
from binder.replacement.turn import Swap, Turn


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps to take, in this order. `proofs` are about what they name: the pod, or a claim. `node`: where it all fits,
    if it was just chosen. `ended`: why a replacement is taken back instead. `result`: what was reached when these are
    done.
    """

    turn: Turn
    steps: tuple[Step, ...]
    proofs: tuple[tuple[str, Proof], ...] = ()
    node: str = ""
    ended: Missing | None = None
    result: str = ""


@dataclass(frozen=True, slots=True)
class NotReplaced:
    """Nothing is done, and why; `rejections` are those of the volumes and nodes that were considered."""

    why: Missing
    rejections: tuple[Rejection, ...] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """Others have to act first; nothing is left to write until then. `lower`: a pod of a lower ordinal that is not
    Ready, and without which an ordered StatefulSet does not go on.
    """

    turn: Turn
    what: str
    lower: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    """The pod has its volumes. `what` says which."""

    what: str


Decision = Plan | NotReplaced | Waiting | Finished


def decide(situation: Situation, request: ReplaceRequest) -> Decision:
    """Return what to do next. Nothing is remembered: called again after each step, it goes on from there."""
    recorded = situation.recorded_turn
    if recorded is not None and recorded.pod == situation.pod_name:
        return _going_on(situation, request, recorded, is_recorded=True)
    begun = situation.begun()
    if begun:
        give_back = any(situation.kept_on(situation.snapshot.volumes.get(swap.new)) is not None for swap in begun)
        return _going_on(situation, request, Turn(situation.pod_name, begun, "", give_back), is_recorded=False)
    return _beginning(situation, request)


def _beginning(situation: Situation, request: ReplaceRequest) -> Decision:
    about = subjects(situation, request)
    if isinstance(about, Missing):
        done = "" if request.abandon or request.give_back or not situation.is_ready else _replaced_before(situation)
        return Finished(done) if done else NotReplaced(about)
    against = reasons_against(situation, about)
    if against is not None:
        return NotReplaced(against)
    proofs = proven(situation, request, about.names)
    if isinstance(proofs, Missing):
        return NotReplaced(proofs)
    choice = choose(situation, about.names, only=about.kept)
    if isinstance(choice, NoChoice):
        return NotReplaced(_NO_VOLUME, choice.rejections)
    turn = _turn(situation, about.names, choice, give_back=request.give_back)
    steps = (take_turn(situation, turn), *before_deletion(situation, turn, progress_of(situation, turn)))
    return Plan(turn, present_steps(steps), proofs, choice.node)


_NO_VOLUME = Missing("no node has healthy Available volumes for all of these claims, and room for the pod")


def _turn(situation: Situation, names: Sequence[str], choice: Choice, *, give_back: bool) -> Turn:
    claims = [claim for claim in map(situation.claim, names) if claim is not None]
    swaps = tuple(Swap(claim.name, claim.uid, claim.volume_name, choice.volumes[claim.name]) for claim in claims)
    return Turn(situation.pod_name, swaps, situation.pod.uid if situation.pod is not None else "", give_back)


def _going_on(situation: Situation, request: ReplaceRequest, turn: Turn, *, is_recorded: bool) -> Decision:
    progress = progress_of(situation, turn)
    intact = [each for each in progress if each.is_intact]
    if intact:
        return _before(situation, request, turn, progress, intact)
    steps = after_deletion(situation, turn, progress)
    if steps:
        ends = not is_recorded and all(each.is_bound for each in progress)
        return Plan(turn, steps, result=_result(situation, turn) if ends else "")
    stuck = [each for each in progress if each.needs_another]
    if stuck:
        return _chosen_again(situation, turn, progress, stuck, ())
    if not all(each.is_bound for each in progress):
        return Waiting(turn, what_is_missing(situation, turn, progress), _lower_not_ready(situation))
    return _bound(situation, request, turn, is_recorded=is_recorded)


def _before(
    situation: Situation, request: ReplaceRequest, turn: Turn, progress: Sequence[Progress], intact: Sequence[Progress]
) -> Decision:
    """Return the way up to the deletion, or back if a proof is gone: nothing is lost by that."""
    if request.give_back is not turn.give_back:
        flag = "with" if turn.give_back else "without"
        return NotReplaced(Missing("a replacement in the other direction is under way", f"run it {flag} --give-back"))
    proofs = proven(situation, request, [each.swap.claim for each in intact])
    if isinstance(proofs, Missing):
        return Plan(turn, unwinding(situation, turn, progress), ended=proofs)
    if any(each.needs_another for each in intact):
        return _chosen_again(situation, turn, progress, intact, proofs)
    return Plan(turn, before_deletion(situation, turn, progress), proofs)


def _chosen_again(
    situation: Situation,
    turn: Turn,
    progress: Sequence[Progress],
    open_ones: Sequence[Progress],
    proofs: tuple[tuple[str, Proof], ...],
) -> Decision:
    """Return the way to other volumes, because one that was chosen is taken, unhealthy or out of reach by now."""
    releases = [release_new(situation, each.new) for each in open_ones if each.is_reserved and each.new is not None]
    if releases:
        return Plan(turn, tuple(releases), proofs)
    names = [each.swap.claim for each in open_ones]
    fixed = {each.swap.claim: each.swap.new for each in progress if each not in open_ones and each.swap.new}
    choice = NoChoice(()) if turn.give_back else choose(situation, names, fixed)
    intact = any(each.is_intact for each in progress)
    if isinstance(choice, NoChoice):
        if intact:
            return Plan(turn, unwinding(situation, turn, progress), ended=_NO_VOLUME)
        return Waiting(turn, _NO_VOLUME.why)
    swaps = tuple(
        Swap(swap.claim, swap.claim_uid, swap.old, choice.volumes.get(swap.claim, swap.new)) for swap in turn.swaps
    )
    changed = Turn(turn.pod, swaps, turn.pod_uid, turn.give_back)
    holder = situation.recorded_turn
    if holder is not None and holder.pod != turn.pod:
        return Waiting(turn, f"{holder.pod} has its turn; another volume is chosen after that")
    return Plan(changed, present_steps([take_turn(situation, changed)]), proofs, choice.node)


def _bound(situation: Situation, request: ReplaceRequest, turn: Turn, *, is_recorded: bool) -> Decision:
    """Return what is left when the claims have their volumes: the turn lasts until the pod works."""
    end = end_turn(situation) if is_recorded else None
    if situation.is_ready:
        if end is not None:
            return Plan(turn, (end,), result=_result(situation, turn))
        return Finished(_result(situation, turn))
    if any(isinstance(lost(situation, claim), Proof) for claim in situation.claims):
        return _beginning(situation, request)
    return Waiting(turn, f"pod {situation.pod_name} has its volumes, and is not Ready yet")


def _lower_not_ready(situation: Situation) -> str:
    """Return the first pod without which the set does not create this one, empty if it is this one's turn."""
    replicas = situation.replicas
    if replicas is None or not replicas.ordered or situation.pod is not None:
        return ""
    lower = map(replicas.pod_name, range(replicas.first, situation.ordinal))
    return next((name for name in lower if f"{situation.namespace}/{name}" not in situation.ready_pods), "")


def _result(situation: Situation, turn: Turn) -> str:
    claims = ((swap, situation.claim(swap.claim)) for swap in turn.swaps)
    return ", ".join(f"{swap.claim} has {claim.volume_name}" for swap, claim in claims if claim is not None)


def _replaced_before(situation: Situation) -> str:
    """Return which claims have a volume in place of one that is kept; empty if none: nothing was replaced."""
    kept = {mark.claim for volume in situation.snapshot.volumes.values() if (mark := situation.kept_on(volume))}
    return ", ".join(f"{claim.name} has {claim.volume_name}" for claim in situation.claims if claim.key in kept)


def is_dry(step: Step) -> bool:
    """Whether the step changes nothing: the next one follows at once."""
    return isinstance(step, EvictPod) and step.dry_run
