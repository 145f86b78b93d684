"""How far a replacement is, claim by claim, and the steps that are left of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from binder.replacement.choice import is_healthy, is_usable
from binder.replacement.situation import Situation
from binder.replacement.steps import (
    DeleteClaim,
    EvictPod,
    Step,
    end_turn,
    finish_new,
    keep_old,
    present_steps,
    release_new,
    reserve_new,
    take_turn,
    unmark_old,
)
from binder.replacement.turn import Swap, Turn
from kube.objects.model import Claim, Volume


@dataclass(frozen=True, slots=True)
class Progress:
    """One claim of a turn. `claim` is the one of its name now, `old` and `new` are the two volumes, None if missing.

    `is_kept`: the old volume is marked. `is_reserved`: the new one names the claim, and no bind has begun.
    `needs_another`: the new volume cannot be had any more.
    """

    swap: Swap
    claim: Claim | None
    old: Volume | None
    new: Volume | None
    is_kept: bool
    is_reserved: bool
    needs_another: bool

    @property
    def is_old_claim(self) -> bool:
        """Whether the claim is still the one that is replaced."""
        return self.claim is not None and self.claim.uid == self.swap.claim_uid

    @property
    def is_intact(self) -> bool:
        """Whether the claim is the old one, and nothing is deleted yet."""
        return self.is_old_claim and self.claim is not None and not self.claim.deleting

    @property
    def is_bound(self) -> bool:
        """Whether the claim that took its place has a volume."""
        return self.claim is not None and not self.is_old_claim and self.claim.bind_finished

    @property
    def is_unbound(self) -> bool:
        """Whether no claim of the name is bound, or about to be, to anything but the old volume."""
        return self.claim is None or self.is_old_claim or not self.claim.volume_name


def progress_of(situation: Situation, turn: Turn) -> tuple[Progress, ...]:
    """Return how far each claim of the turn is."""
    return tuple(_progress(situation, turn, swap) for swap in turn.swaps)


def _progress(situation: Situation, turn: Turn, swap: Swap) -> Progress:
    claim, volumes = situation.claim(swap.claim), situation.snapshot.volumes
    key, old, new = f"{situation.namespace}/{swap.claim}", volumes.get(swap.old), volumes.get(swap.new)
    kept, replacing = situation.kept_on(old), situation.replacement_on(new)
    names = new is not None and new.claim is not None and new.claim.key == key
    begun = names and new is not None and new.claim is not None and bool(new.claim.uid)
    reserved = names and replacing is not None and replacing.claim == key and not begun and new is not None
    is_kept = kept is not None and kept.claim == key and kept.claim_uid == swap.claim_uid
    progress = Progress(swap, claim, old, new, is_kept, reserved and new is not None and new.phase != "Bound", False)
    if not swap.new or progress.is_bound or not progress.is_unbound:
        return progress
    fits = new is not None and _can_be_had(situation, turn, new, progress, begun=begun and replacing is not None)
    return progress if fits else Progress(swap, claim, old, new, is_kept, progress.is_reserved, needs_another=True)


def _can_be_had(situation: Situation, turn: Turn, new: Volume, progress: Progress, *, begun: bool) -> bool:
    if progress.is_reserved or begun:
        return (begun and not _is_given_back(situation, new, turn)) or is_healthy(situation, new)
    if turn.give_back:
        return _is_given_back(situation, new, turn) and is_healthy(situation, new)
    return is_usable(situation, new)


def _is_given_back(situation: Situation, new: Volume, turn: Turn) -> bool:
    return turn.give_back and situation.kept_on(new) is not None


def before_deletion(situation: Situation, turn: Turn, progress: Sequence[Progress]) -> tuple[Step, ...]:
    """Return everything up to the eviction, in order: marks, reservations, deletions, the pod."""
    keeps = [keep_old(situation, each.old, each.swap) for each in progress if each.old is not None and not each.is_kept]
    reserves = list(_reservations(situation, progress))
    deletions = [DeleteClaim(each.claim) for each in progress if each.is_intact and each.claim is not None]
    pod = situation.pod
    evict = EvictPod(pod) if pod is not None and not pod.deleting else None
    attempt = EvictPod(pod, dry_run=True) if pod is not None and evict is not None else None
    # A uid is never dropped while a claim of that name has another volume and is to keep it.
    first, then = ([], reserves) if turn.give_back else (reserves, [])
    return present_steps([*keeps, *first, attempt, *deletions, *then, evict])


def after_deletion(situation: Situation, turn: Turn, progress: Sequence[Progress]) -> tuple[Step, ...]:
    """Return what is left once the old claims go: reservations that are missing, the eviction, the end of marks."""
    steps: list[Step | None] = [*_reservations(situation, progress)]
    pod = situation.pod
    going = any(each.is_old_claim for each in progress)
    if pod is not None and not pod.deleting and (going or pod.uid == turn.pod_uid):
        steps.append(EvictPod(pod))
    for each in progress:
        if not each.is_bound or each.claim is None or each.new is None:
            continue
        if each.claim.volume_name == each.new.name and situation.annotations.pin_keys(each.new):
            steps.append(finish_new(each.new, situation.annotations))
        elif each.claim.volume_name != each.new.name and each.is_reserved:
            steps.append(release_new(situation, each.new))
    return present_steps(steps)


def unwinding(situation: Situation, turn: Turn, progress: Sequence[Progress]) -> tuple[Step, ...]:
    """Return what takes back everything of the claims that are not deleted; their volumes stay theirs."""
    steps: list[Step | None] = []
    for each in progress:
        if each.is_intact:
            steps.append(release_new(situation, each.new) if each.is_reserved and each.new is not None else None)
            steps.append(unmark_old(situation, each.old) if each.is_kept and each.old is not None else None)
    left = tuple(each.swap for each in progress if not each.is_intact)
    rest = Turn(turn.pod, left, turn.pod_uid, turn.give_back)
    steps.append(take_turn(situation, rest) if left else end_turn(situation))
    return present_steps(steps)


def what_is_missing(situation: Situation, turn: Turn, progress: Sequence[Progress]) -> str:
    """Return what others have to do before the replacement can end."""
    pod, replicas = situation.pod, situation.replicas
    if pod is not None and pod.deleting:
        where = f" on node {pod.node_name}" if pod.node_name else ""
        return f"pod {pod.name} is Terminating{where}: its kubelet has to confirm that it has ended"
    going = next((each.swap.claim for each in progress if each.is_old_claim), "")
    if going:
        return f"claim {going} is being deleted: kube-controller-manager removes it when no pod uses it"
    absent = next((each.swap.claim for each in progress if each.claim is None), "")
    if absent and replicas is not None:
        order = ", after all pods of lower ordinals are Ready" if replicas.ordered and situation.ordinal else ""
        return f"StatefulSet {replicas.name} has to create claim {absent}{order}"
    if absent:
        return f"claim {absent} has to be created again, by {situation.owner or 'its owner'}; its volume is reserved"
    names = ", ".join(each.swap.claim for each in progress if not each.is_bound)
    return (
        f"Kubernetes has to bind {names}: pvc-prebinder why pod/{turn.pod} -n {situation.namespace} says what it needs"
    )


def _reservations(situation: Situation, progress: Sequence[Progress]) -> Iterator[Step]:
    for each in progress:
        missing = each.swap.new and not each.is_reserved and each.is_unbound and not each.needs_another
        begun = each.new is not None and each.new.claim is not None and situation.replacement_on(each.new) is not None
        if missing and each.new is not None and not begun:
            yield reserve_new(situation, each.new, each.swap)
