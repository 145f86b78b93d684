"""What a user requests, what of the pod it is about, and what prevents it before anything is written."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from binder.health.published_health import published_health
from binder.replacement.choice import is_healthy
from binder.replacement.proofs import Ground, Missing, Proof, fenced, lost, only_nodes, other_users
from binder.replacement.situation import Replicas, Situation
from binder.replacement.turn import Turn
from csi.health.verdict import HealthState
from kube.objects.model import Claim, Volume

_HOPELESS = frozenset({HealthState.INACCESSIBLE, HealthState.DATA_LOSS})


@dataclass(frozen=True, slots=True)
class ReplaceRequest:
    """The word of the user: `abandon` gives up what is not proven to be lost, `give_back` returns to the volumes that
    the pod had before.
    """

    abandon: bool = False
    give_back: bool = False


@dataclass(frozen=True, slots=True)
class Subjects:
    """The claims whose volumes are replaced, and with `give_back` the volumes that they get."""

    names: tuple[str, ...]
    kept: tuple[Volume, ...] = ()


def subjects(situation: Situation, request: ReplaceRequest) -> Subjects | Missing:
    """Return what the request is about, or why there is nothing."""
    if not situation.claim_keys:
        if situation.template.claims:
            why = "its volumes are generic ephemeral ones: they belong to the pod"
            return Missing(why, f"nothing to replace: delete the pod, and {_owner(situation)} creates both again")
        return Missing("the pod uses no claim")
    if situation.replicas is None and not situation.owner:
        return Missing("nothing creates the pod again: it has no controller", "delete pod and claim yourself")
    if request.give_back:
        return _given_back(situation)
    claims = [claim for claim in situation.claims if claim.volume_name]
    lost_claims = [claim for claim in claims if isinstance(lost(situation, claim), Proof)]
    if request.abandon:
        lost_claims = [claim for claim in claims if claim in lost_claims or _is_out_of_reach(situation, claim)]
    if lost_claims:
        return Subjects(tuple(claim.name for claim in lost_claims))
    missing = [proof for claim in claims if isinstance(proof := lost(situation, claim), Missing)]
    why = "; ".join(proof.why for proof in missing) or "none of its claims has a volume yet"
    out_of_reach = any(_is_out_of_reach(situation, claim) for claim in claims)
    hint = "--abandon gives up the volumes that are out of reach" if out_of_reach else ""
    return Missing(f"no volume of the pod is proven to be lost: {why}", next((m.next for m in missing if m.next), hint))


def proven(
    situation: Situation, request: ReplaceRequest, names: Sequence[str]
) -> tuple[tuple[str, Proof], ...] | Missing:
    """Return the proofs for giving up the present volumes of these claims, or which one is missing."""
    claims = [claim for claim in situation.claims if claim.name in names]
    losses = {claim.name: lost(situation, claim) for claim in claims}
    fence = fenced(situation, losses.values())
    user = other_users(situation, names)
    if user is not None:
        return user
    if isinstance(fence, Missing):
        return fence
    for claim in claims:
        loss, volume = losses[claim.name], situation.volume_of(claim)
        if isinstance(loss, Missing) and not request.abandon:
            return Missing(f"{loss.why}: what is on it is not proven to be lost", loss.next or _ABANDON)
        if volume is not None and volume.reclaim_policy != "Retain" and not _is_gone(loss):
            return Missing(
                f"the reclaim policy of {volume.name} is {volume.reclaim_policy}: without its claim it would be "
                "deleted, with its data",
                f"keep it first: kubectl patch pv {volume.name} -p "
                '\'{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}\'',
            )
    proofs = ((name, loss) for name, loss in losses.items() if isinstance(loss, Proof))
    return ((situation.pod_name, fence), *proofs)


_ABANDON = "--abandon gives it up on your word; the volume is kept"


def reasons_against(situation: Situation, about: Subjects) -> Missing | None:
    """Return what has to come first: another replica's turn, a lower ordinal, a volume that names the claim already."""
    set_ = situation.replicas
    if set_ is not None:
        if set_.turn is not None and set_.turn.pod != situation.pod_name:
            busy = _busy(situation, set_, set_.turn)
            if busy is not None:
                return busy
        lower = _lower_broken(situation, set_) if set_.ordered else ""
        if lower:
            why = f"{lower} has lost its volume too, and the set creates its pods in order (OrderedReady)"
            return Missing(why, f"first: pvc-prebinder replace pod/{lower} -n {situation.namespace}")
    for name in about.names:
        for volume in situation.naming(f"{situation.namespace}/{name}"):
            return Missing(f"volume {volume.name} names claim {name} already", f"see kubectl describe pv {volume.name}")
    return None


def _busy(situation: Situation, replicas: Replicas, turn: Turn) -> Missing | None:
    """Return that another replica has its turn; None if it is over, or waits for this one only."""
    again = f"go on with it: pvc-prebinder replace pod/{turn.pod} -n {situation.namespace} --yes"
    for swap in turn.swaps:
        claim = situation.claim(swap.claim)
        if claim is not None and claim.uid == swap.claim_uid:
            return Missing(
                f"the volumes of {turn.pod} are being replaced, and one replica has its turn at a time", again
            )
    ordinal = replicas.ordinal_of(turn.pod)
    waits = replicas.ordered and situation.ordinal < ordinal
    exists = replicas.first <= ordinal < replicas.first + replicas.count
    if waits or not exists or f"{situation.namespace}/{turn.pod}" in situation.ready_pods:
        return None
    return Missing(f"{turn.pod} got other volumes and is not Ready yet; one replica has its turn at a time", again)


def _lower_broken(situation: Situation, replicas: Replicas) -> str:
    """Return the lowest replica before this one that has lost a volume, empty if there is none."""
    for ordinal in range(replicas.first, situation.ordinal):
        keys = [replicas.claim_key(template, ordinal) for template in replicas.templates]
        claims = [situation.snapshot.claims[key] for key in keys if key in situation.snapshot.claims]
        if any(claim.volume_name and isinstance(lost(situation, claim), Proof) for claim in claims):
            return replicas.pod_name(ordinal)
    return ""


def _given_back(situation: Situation) -> Subjects | Missing:
    names: list[str] = []
    kept: list[Volume] = []
    for claim in situation.claims:
        own = [volume for volume in _kept_for(situation, claim) if volume.name != claim.volume_name]
        if len(own) > 1:
            several = ", ".join(volume.name for volume in own)
            key = situation.annotations.was_for
            return Missing(
                f"several volumes are kept for claim {claim.name}: {several}",
                f"leave one: kubectl annotate pv NAME {key}- for each of the others",
            )
        for volume in own:
            if not is_healthy(situation, volume):
                return Missing(f"volume {volume.name}, kept for claim {claim.name}, is unhealthy or out of reach")
            names.append(claim.name)
            kept.append(volume)
    if not names:
        return Missing("no volume is kept for a claim of this pod")
    return Subjects(tuple(names), tuple(kept))


def _kept_for(situation: Situation, claim: Claim) -> Iterable[Volume]:
    """Yield the Released volumes that keep data of earlier claims of this name, in this very namespace."""
    for name in sorted(situation.snapshot.volumes_by_claim.get(claim.key, ())):
        volume = situation.snapshot.volumes[name]
        kept = situation.kept_on(volume)
        if kept is not None and kept.claim == claim.key and volume.phase == "Released" and not volume.deleting:
            yield volume


def _is_out_of_reach(situation: Situation, claim: Claim) -> bool:
    """Whether a volume that is not proven to be lost may be given up on a user's word."""
    volume = situation.volume_of(claim)
    if volume is None:
        return False
    health = published_health(volume, situation.annotations)
    out = not (only_nodes(volume) & situation.ready_nodes) if only_nodes(volume) else False
    return out or (health is not None and health.state in _HOPELESS)


def _is_gone(loss: Proof | Missing) -> bool:
    return isinstance(loss, Proof) and loss.ground in {Ground.NOT_FOUND, Ground.VOLUME_GONE}


def _owner(situation: Situation) -> str:
    return f"StatefulSet/{situation.replicas.name}" if situation.replicas else situation.owner or "its owner"
