"""What `replace` tells its user: the proofs, the volumes, each step with its versions, and what stays recoverable."""

import sys
from collections.abc import Iterator
from typing import Final

from binder.health.published_health import published_health
from binder.health.published_sweeps import swept_health
from binder.matching.rejection import Rejection
from binder.replacement.decision import NotReplaced, Plan, Waiting
from binder.replacement.situation import Situation
from binder.replacement.steps import DeleteClaim, EvictPod, Step, Write
from binder.replacement.turn import Swap
from kube.objects.model import Volume
from kube.plain_text import shell
from kube.rules.quantity import format_quantity
from why.rendering.lines import warn, write_line

_MAX_REJECTIONS: Final = 10


class Lines:
    """One line for each step that was taken, on the standard output; what is waited for on the standard error."""

    def done(self, step: Step) -> None:
        write_line(f"done: {step_text(step)}")
        # A pipe would show it when all is over.
        sys.stdout.flush()

    def waiting(self, what: str) -> None:
        warn(f"waiting: {what}")


def plan_lines(situation: Situation, plan: Plan, command: str) -> Iterator[str]:
    """Yield the whole plan; `command` carries it out."""
    turn = plan.turn
    owner = f"StatefulSet {situation.replicas.name}" if situation.replicas is not None else situation.owner
    yield f"Pod {situation.pod_key} of {owner}: {'give back' if turn.give_back else 'replace'} {_volumes(turn.swaps)}"
    yield ""
    for name, proof in plan.proofs:
        yield f"  {'fenced' if name == situation.pod_name else 'lost':8}{name}: {proof.words} ({proof.ground})"
    proven = {name for name, _ in plan.proofs}
    for swap in turn.swaps:
        if plan.proofs and swap.claim not in proven:
            yield f"  {'abandon':8}{swap.claim}: not proven to be lost; given up on your word"
        yield f"  {'old':8}{_volume_text(situation, swap.old)}"
        yield f"  {'new':8}{_volume_text(situation, swap.new) if swap.new else 'provisioned for the next claim'}"
    if plan.node:
        yield f"  {'fits':8}node {plan.node}"
    yield ""
    if plan.ended is not None:
        yield f"The replacement ends, and what was written is taken back: {plan.ended.why}."
        yield ""
    yield "Steps:"
    yield from (f"  {number}. {step_text(step)}" for number, step in enumerate(plan.steps, 1))
    if plan.ended is None:
        yield from _afterwards(situation, plan)
    yield ""
    yield f"Nothing was written. To carry it out: {command}"


def step_text(step: Step) -> str:
    """Return a step with the uid and the version that it rests on."""
    match step:
        case Write():
            place = f"{step.resource.kind} {step.namespace}/{step.name}" if step.namespace else f"{step.resource.kind} "
            name = place if step.namespace else f"{place}{step.name}"
            return f"write {name} (uid {step.uid}, version {step.version}): {step.what}"
        case DeleteClaim():
            claim = step.claim
            return f"delete PersistentVolumeClaim {claim.key} (uid {claim.uid}, version {claim.resource_version})"
        case EvictPod():
            pod, verb = step.pod, "dry-run the eviction of" if step.dry_run else "evict"
            return f"{verb} Pod {pod.key} (uid {pod.uid}, version {pod.resource_version})"


def not_replaced_lines(answer: NotReplaced) -> Iterator[str]:
    """Yield why nothing is done, and what would help."""
    yield f"Not replaced: {answer.why.why}."
    yield from (f"  {_rejection_text(each)}" for each in answer.rejections[:_MAX_REJECTIONS])
    if answer.why.next:
        yield f"Next: {answer.why.next}"


def waiting_lines(situation_namespace: str, waiting: Waiting, command: str) -> Iterator[str]:
    """Yield what others have to do, and how to go on."""
    yield f"Not finished: {waiting.what}."
    if waiting.lower:
        first = shell("pvc-prebinder why pod/{} -n {}", waiting.lower, situation_namespace)
        yield f"{waiting.lower} is not Ready, and comes first: {first}. This replacement does not block its own."
    yield f"Then, or if this was interrupted: {command}"


def _afterwards(situation: Situation, plan: Plan) -> Iterator[str]:
    owner = f"StatefulSet {situation.replicas.name}" if situation.replicas is not None else situation.owner
    if any(isinstance(step, DeleteClaim) for step in plan.steps):
        yield f"Then {owner} has to create claim and pod again, and Kubernetes binds the claim to its new volume."
        if situation.replicas is None:
            yield (
                "  If it does not create the claim, create one of the same name yourself: "
                + shell("kubectl -n {} get pvc {} -o yaml", situation.namespace, plan.turn.swaps[0].claim)
            )
    yield ""
    yield "Recoverable:"
    for swap in plan.turn.swaps:
        volume = situation.snapshot.volumes.get(swap.old)
        if volume is None or volume.reclaim_policy != "Retain":
            yield f"  {swap.old}: nothing"
        else:
            yield f"  {swap.old}: stays Released with its data, for --give-back only, until you delete it"


def _volumes(swaps: tuple[Swap, ...]) -> str:
    return "1 volume" if len(swaps) == 1 else f"{len(swaps)} volumes"


def _volume_text(situation: Situation, name: str) -> str:
    volume = situation.snapshot.volumes.get(name)
    if volume is None:
        return f"{name}: does not exist"
    size = format_quantity(volume.capacity, binary=True)
    return f"{name}: {size}, {volume.reclaim_policy}, {volume.phase}, health {_health_text(situation, volume)}"


def _health_text(situation: Situation, volume: Volume) -> str:
    published = published_health(volume, situation.annotations)
    if published is not None:
        return f"{published.state} ({published.reason}) by {published.source or 'the annotations of the volume'}"
    swept = swept_health(volume, situation.sweeps, situation.annotations, situation.now)
    if swept is None:
        return "not reported"
    return f"{swept.finding.state} ({swept.finding.reason}) by {swept.finding.source}"


def _rejection_text(rejection: Rejection) -> str:
    return f"{rejection.subject}: {rejection.reason}: wanted {rejection.wanted}, found {rejection.offered}"
