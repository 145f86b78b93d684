"""Which volumes we take for a pod on a node, where kube-scheduler would take the smallest, whatever its health.

As VolumeBinding, with four differences: a reserved volume is taken before any other; none is taken that is reserved for
another claim or known to be unhealthy; none that is not accessible from the node according to its driver; and the
claims are decided together, so that an assignment is found if one exists.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from binder.assignment.assignment import assign
from binder.health.node_storage import cut_off, refuse_storage
from binder.matching.claim_shape import ClaimShape, family_of
from binder.matching.matching import provisioner_of, provisions, scheduler_refusal
from binder.matching.rejection import Reason, Rejection
from binder.matching.scheduler_match import prebound_volume, volume_taken
from binder.model.view import View
from binder.reservation.contract import ClaimReservation
from kube.objects.model import SELECTED_NODE, Claim, Node, Volume, value_of
from kube.store.snapshot import Snapshot
from scheduler.volumes.volume_binding import (
    PodClaims,
    VolumeChoice,
    choose_volumes,
    refuse_other_selection,
    refuse_provisioning,
)

Usable = Callable[[Claim, Volume], bool]
"""Whether our own rules allow a volume for a claim."""


@dataclass(frozen=True, slots=True)
class Family:
    """Claims of a pod that differ only in size."""

    smallest: Claim
    size: int


def health_aware_choice(
    claims: PodClaims,
    families: Iterable[Family],
    reserved: Mapping[str, ClaimReservation],
    node: Node,
    storage: View,
    usable: Usable,
) -> VolumeChoice:
    """Return what we take on the node, or why there is nothing to take. `families` are those of the claims."""
    if claims.bound or claims.orphaned:
        held = replace(claims, delayed=(), wanted=())
        against = choose_volumes(held, node, storage.snapshot, storage.index).rejections
        if against:
            return VolumeChoice(rejections=against)
    if not claims.delayed:
        return VolumeChoice()
    searching = _searching(claims)
    if _too_few(families, node, storage):
        names = ", ".join(sorted(claim.key for claim in searching))
        return VolumeChoice(rejections=(_not_jointly(names, node),))
    options = {claim.key: _options(claim, len(searching), node, reserved, storage, usable) for claim in searching}
    satisfiable = {key: volumes for key, volumes in options.items() if volumes}
    assigned = assign(satisfiable) if satisfiable else {}
    if assigned is None:
        satisfiable = {
            key: volumes
            for key, volumes in satisfiable.items()
            if not provisions(storage.snapshot.claims[key], storage.snapshot.classes)
        }
        assigned = assign(satisfiable) if satisfiable else {}
    if assigned is None:
        return VolumeChoice(rejections=(_not_jointly(", ".join(sorted(satisfiable)), node),))
    volumes = tuple((claim, assigned[claim.key]) for claim in claims.delayed if claim.key in assigned)
    choice = _with_provisioning(claims, volumes, node, storage)
    unreached = refuse_storage(drivers_of(choice, storage.snapshot), storage.snapshot, node.name)
    return choice if unreached is None else VolumeChoice(rejections=(unreached,))


def _not_jointly(names: str, node: Node) -> Rejection:
    return Rejection(Reason.NO_JOINT_ASSIGNMENT, node.name, f"different volumes for {names}", "fewer that fit")


def families_of(claims: PodClaims, storage: View) -> tuple[Family, ...]:
    """Return the claims that need an Available volume, grouped so that those of a group differ only in size."""
    families: dict[ClaimShape, list[Claim]] = {}
    for claim in _searching(claims):
        if claim.key not in storage.snapshot.volumes_by_claim and not provisions(claim, storage.snapshot.classes):
            families.setdefault(family_of(claim), []).append(claim)
    return tuple(Family(min(each, key=lambda claim: claim.request), len(each)) for each in families.values())


def is_short_of_volumes(families: Iterable[Family], node: Node, storage: View) -> bool:
    """Whether the node has too few Available volumes for one of the families: kube-scheduler finds no more there."""
    return any(_free(family, node, storage) < family.size for family in families)


def _too_few(families: Iterable[Family], node: Node, storage: View) -> bool:
    """Whether the node has some Available volumes, but fewer than a family has claims.

    A quick check for pods with many claims, which cannot fit on most nodes of a cluster with local volumes.
    """
    return any(0 < _free(family, node, storage) < family.size for family in families if family.size > 1)


def _free(family: Family, node: Node, storage: View) -> int:
    """Count the Available volumes for the family, at most as many as it has claims: what fits any fits the smallest."""
    volumes = storage.index.candidates(family.smallest, dict(node.labels))
    return sum(1 for _ in islice(volumes, family.size))


def _searching(claims: PodClaims) -> list[Claim]:
    return [claim for claim in claims.delayed if value_of(claim.annotations, SELECTED_NODE) is None]


def drivers_of(choice: VolumeChoice, snapshot: Snapshot) -> Iterator[str]:
    """Yield the drivers of the volumes that are taken, and of those that are to be provisioned."""
    for _, volume in choice.volumes:
        yield volume.driver
    for claim in choice.provision:
        yield provisioner_of(claim, snapshot.classes)


def _options(
    claim: Claim,
    most: int,
    node: Node,
    reserved: Mapping[str, ClaimReservation],
    storage: View,
    usable: Usable,
) -> list[Volume]:
    """Return the candidates, smallest first: the one that names the claim, the reserved one, or Available ones."""
    snapshot, labels = storage.snapshot, dict(node.labels)
    named = [snapshot.volumes[name] for name in snapshot.volumes_by_claim.get(claim.key, ())]
    prebound = prebound_volume(claim, labels, named) if named else None
    if prebound is not None:
        volume = volume_taken(prebound, labels, lambda: None)
        return [] if volume is None else [volume]
    preferred = snapshot.volumes.get(reserved[claim.key].volume) if claim.key in reserved else None
    if preferred is not None and scheduler_refusal(claim, preferred, labels) is None and usable(claim, preferred):
        return [preferred]
    cut = cut_off(snapshot, node.name)
    reached = (volume for volume in storage.index.candidates(claim, labels) if volume.driver not in cut)
    return list(islice((volume for volume in reached if usable(claim, volume)), most))


def _with_provisioning(
    claims: PodClaims, volumes: tuple[tuple[Claim, Volume], ...], node: Node, storage: View
) -> VolumeChoice:
    """Add the claims for which a volume is provisioned, or return why that is not possible."""
    static = {claim.key for claim, _ in volumes}
    provision = tuple(claim for claim in claims.delayed if claim.key not in static)
    for claim in provision:
        refused = refuse_other_selection(claim, node) or refuse_provisioning(claim, node, storage.snapshot)
        if refused is not None:
            return VolumeChoice(rejections=(refused,))
    return VolumeChoice(volumes, provision)
