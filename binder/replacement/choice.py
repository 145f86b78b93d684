"""Which healthy volumes take the place of those to be replaced: by the joint assignment that plans every pod.

The pod is planned as it will be created next: without a node, its other claims bound as they are, those to be replaced
without a volume. So the new volumes and the volumes that stay are accessible from one node that fits the pod.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from msgspec.structs import replace

from binder.assignment.volume_policy import reject_health, reject_use
from binder.matching.controller_match import is_certain_by_name
from binder.matching.index import VolumeIndex, is_free
from binder.matching.matching import class_of
from binder.matching.rejection import Reason, Rejection
from binder.model.decision import Reject, Reserve, Wait
from binder.model.view import PlanSettings, View
from binder.planning.plan import plan
from binder.replacement.situation import Situation
from kube.objects.model import (
    BIND_COMPLETED,
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    Claim,
    Record,
    StorageClass,
    Volume,
)
from kube.rules.selectors import node_matches
from kube.store.store import snapshot_of

C = TypeVar("C", Claim, Volume)

_NEXT: Final = "-next"
"""After the name of a claim, the uid of the one to come, which has none yet."""
_CLASSLESS: Final = "-"
"""A class of claims and volumes without one; no object can have this name."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The new volume of each claim, by the claim's name; empty for one that is provisioned. `node`: where they all are
    accessible and the pod fits; empty if everything is provisioned.
    """

    volumes: dict[str, str]
    node: str = ""


@dataclass(frozen=True, slots=True)
class NoChoice:
    """No node has healthy volumes for all of them, and why."""

    rejections: tuple[Rejection, ...]


def choose(
    situation: Situation, names: Collection[str], fixed: Mapping[str, str] | None = None, only: Sequence[Volume] = ()
) -> Choice | NoChoice:
    """Return volumes for the claims of these names, as they are created next.

    `fixed`: claim -> volume of those that are on their way and have their volume. `only`: no volumes but these, which
    count as free.
    """
    coming = [claim for claim in situation.next_claims if claim.name in names]
    free = [as_free(volume) for volume in only]
    if not only:
        free = [volume for volume in situation.snapshot.volumes.values() if _is_offered(situation, volume, coming)]
    view = _view(situation, coming, free, fixed or {})
    (decision,) = plan(view, (view.snapshot.pods[situation.pod_key],), situation.now)
    volumes = dict.fromkeys(names, "")
    match decision:
        case Reserve():
            volumes |= {placement.claim.name: placement.volume.name for placement in decision.placements}
            return Choice(volumes, decision.node)
        case Wait(reason=Reason.DYNAMIC_CLASS):
            return Choice(volumes)
        case Reject():
            return NoChoice(decision.rejections)
        case Wait():
            wanted = "claims for which volumes can be chosen now"
            return NoChoice((Rejection(decision.reason, situation.pod_key, wanted, str(decision.reason)),))
        case _:  # The bind of another claim of the pod has begun.
            return NoChoice(())


def is_healthy(situation: Situation, volume: Volume) -> bool:
    """Whether nothing says that the volume is unhealthy, and some node reaches it."""
    healthy = reject_health(_plain_view(situation), volume, situation.now) is None
    nodes = situation.snapshot.nodes.values()
    return healthy and any(node_matches(volume.node_affinity, dict(node.labels)) for node in nodes)


def is_usable(situation: Situation, volume: Volume) -> bool:
    """Whether a volume that was chosen may still be reserved: free, not kept, healthy and within reach."""
    allowed = reject_use(_plain_view(situation), volume, situation.now) is None
    return is_free(volume) and allowed and is_healthy(situation, volume)


def as_free(volume: Volume) -> Volume:
    """Return a volume as it is when nothing names or keeps it."""
    return replace(volume, phase="Available", claim=None, annotations=())


def _is_offered(situation: Situation, volume: Volume, claims: Iterable[Claim]) -> bool:
    """Whether Kubernetes would give the volume to the claim for which it is reserved by name."""
    if not is_free(volume) or situation.annotations.pin_keys(volume):
        return False
    of_class = (claim for claim in claims if class_of(claim) == class_of(volume))
    return all(is_certain_by_name(claim, volume, situation.snapshot.classes) for claim in of_class)


def _view(situation: Situation, coming: Iterable[Claim], free: Sequence[Volume], fixed: Mapping[str, str]) -> View:
    """Return the cluster in which the pod waits for a node, and these of its claims for volumes."""
    now = situation.snapshot
    # The claims of its generic ephemeral volumes come with it, where its other volumes are.
    used = tuple(each for each in situation.template.claims if not each.ephemeral)
    pod = replace(
        situation.template,
        claims=used,
        node_name="",
        phase="Pending",
        scheduling_gates=(),
        deleting=False,
        nominated_node="",
    )
    claims = {**now.claims, **{claim.key: _to_come(claim) for claim in coming}}
    bound = {claim.key: fixed[claim.name] for claim in situation.next_claims if claim.name in fixed}
    claims |= {claim.key: _bound(claim, fixed[claim.name]) for claim in situation.next_claims if claim.key in bound}
    free = list(map(_classed, free))
    volumes = {**now.volumes, **{volume.name: volume for volume in free}}
    classes = {_CLASSLESS: StorageClass(_CLASSLESS, _CLASSLESS, 0, NO_PROVISIONER), **now.classes}
    classes |= {
        name: StorageClass(name, name, 0, NO_PROVISIONER) for name in map(class_of, free) if name not in classes
    }
    records: list[Record] = [*now.nodes.values(), *now.csi_nodes.values(), *now.csi_drivers.values()]
    records += [*now.capacities.values(), *now.attachments.values(), *volumes.values(), *claims.values()]
    records += [*({**now.pods, pod.key: pod}).values(), *map(_deciding_late, classes.values())]
    return View(snapshot_of(records, situation.annotations.prefix), VolumeIndex.of(free), settings=_settings(situation))


def _to_come(claim: Claim) -> Claim:
    return _classed(replace(claim, uid=f"{claim.name}{_NEXT}", volume_name="", phase="Pending", annotations=()))


def _bound(claim: Claim, volume: str) -> Claim:
    """Return the claim as bound to the volume that is reserved for it."""
    done = ((BIND_COMPLETED, "yes"),)
    return replace(claim, uid=f"{claim.name}{_NEXT}", volume_name=volume, phase="Bound", annotations=done)


def _classed(record: C) -> C:
    """Return the record with a class: volumes for claims without one are chosen late as well."""
    return record if class_of(record) else replace(record, storage_class=_CLASSLESS)


def _deciding_late(storage_class: StorageClass) -> StorageClass:
    """Return the class with the volumes of its claims chosen for the pod as a whole, whatever our mode for it is."""
    return replace(storage_class, binding_mode=WAIT_FOR_FIRST_CONSUMER, annotations=())


def _plain_view(situation: Situation) -> View:
    return View(situation.snapshot, VolumeIndex(), settings=_settings(situation))


def _settings(situation: Situation) -> PlanSettings:
    return PlanSettings(annotations=situation.annotations)
