"""Which volumes we take for a pod on a node, where kube-scheduler would take the smallest, whatever its health.

As VolumeBinding, with four differences: a reserved volume is taken before any other; none is taken that is reserved for
another claim or known to be unhealthy; none that is not accessible from the node according to its driver; and the
claims are decided together, so that an assignment is found if one exists.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from binder.assignment.assignment import assign
from binder.health.node_storage import cut_off, reject_storage
from binder.matching.claim_shape import by_family
from binder.matching.matching import class_of, provisioner_of, provisions, scheduler_rejection
from binder.matching.rejection import Reason, Rejection
from binder.matching.scheduler_match import prebound_volume, volume_taken
from binder.model.view import View
from binder.reservation.contract import ClaimReservation
from kube.objects.model import SELECTED_NODE, Claim, Node, Volume, value_of
from kube.store.snapshot import Snapshot
from scheduler.volumes.volume_binding import (
    NodeProvisioning,
    PodClaims,
    VolumeChoice,
    choose_volumes,
    reject_other_selection,
)

Usable = Callable[[Claim, Volume], bool]
"""Whether our own rules allow a volume for a claim."""


@dataclass(frozen=True, slots=True)
class Family:
    """Claims of a pod that differ only in size."""

    smallest: Claim
    size: int


@dataclass(frozen=True, slots=True)
class Search:
    """The claims of a pod for which volumes are searched, looked up once for all nodes.

    `families` are those of the claims that need an Available volume. `hopeful` are the claims for which there is some
    volume somewhere: one that names the claim, a reserved one, or an Available one, large enough or not. `largest` is
    the largest claim of each class.
    """

    claims: tuple[Claim, ...]
    families: tuple[Family, ...]
    hopeful: tuple[Claim, ...]
    largest: tuple[Claim, ...]
    reserved: Mapping[str, ClaimReservation]


class FreeVolumes:
    """How many Available volumes each family finds on a node, counted once, at most as many as it has claims.

    What fits any claim of a family fits the smallest one.
    """

    def __init__(self, search: Search, labels: Mapping[str, str], storage: View) -> None:
        self._families, self._labels, self._storage = search.families, labels, storage
        self._counts: dict[int, int] = {}

    @property
    def too_few(self) -> bool:
        """Whether there are some, but fewer than a family has claims.

        A quick check for pods with many claims, which cannot fit on most nodes of a cluster with local volumes.
        """
        families = enumerate(self._families)
        return any(0 < self._count(number) < family.size for number, family in families if family.size > 1)

    @property
    def short(self) -> bool:
        """Whether there are fewer than a family has claims, or none: kube-scheduler finds no more there."""
        return any(self._count(number) < family.size for number, family in enumerate(self._families))

    def _count(self, number: int) -> int:
        count = self._counts.get(number)
        if count is None:
            family = self._families[number]
            volumes = self._storage.index.candidates(family.smallest, self._labels)
            count = self._counts[number] = sum(1 for _ in islice(volumes, family.size))
        return count


def health_aware_choice(
    claims: PodClaims, search: Search, free: FreeVolumes, node: Node, storage: View, usable: Usable
) -> VolumeChoice:
    """Return what we take on the node, or why there is nothing to take. `search` is about the claims, `free` about the
    node.
    """
    if claims.bound or claims.orphaned:
        held = replace(claims, delayed=(), wanted=())
        against = choose_volumes(held, node, storage.snapshot, storage.index).rejections
        if against:
            return VolumeChoice(rejections=against)
    if not claims.delayed:
        return VolumeChoice()
    if free.too_few:
        return VolumeChoice(rejections=(_not_jointly((claim.key for claim in search.claims), node),))
    options = _options(search, node, storage, usable) if search.hopeful else {}
    assigned = assign(options) if options else {}
    if assigned is None:
        snapshot = storage.snapshot
        options = {
            key: volumes for key, volumes in options.items() if not provisions(snapshot.claims[key], snapshot.classes)
        }
        assigned = assign(options) if options else {}
    if assigned is None:
        return VolumeChoice(rejections=(_not_jointly(options, node),))
    volumes = tuple((claim, assigned[claim.key]) for claim in claims.delayed if claim.key in assigned)
    choice = _with_provisioning(claims, search, volumes, node, storage)
    unreached = reject_storage(drivers_of(choice, storage.snapshot), storage.snapshot, node.name)
    return choice if unreached is None else VolumeChoice(rejections=(unreached,))


def _not_jointly(keys: Iterable[str], node: Node) -> Rejection:
    wanted = f"different volumes for {', '.join(sorted(keys))}"
    return Rejection(Reason.NO_JOINT_ASSIGNMENT, node.name, wanted, "fewer that fit")


def search_for(claims: PodClaims, reserved: Mapping[str, ClaimReservation], storage: View) -> Search:
    """Look up the claims. `reserved` are the reservations in force, by claim."""
    named, classes = storage.snapshot.volumes_by_claim, storage.snapshot.classes
    searching = tuple(_searching(claims))
    families = by_family(claim for claim in searching if claim.key not in named and not provisions(claim, classes))
    largest: dict[str, Claim] = {}
    for claim in searching:
        known = largest.setdefault(class_of(claim), claim)
        if claim.request > known.request:
            largest[class_of(claim)] = claim
    hopeful = tuple(
        claim for claim in searching if claim.key in named or claim.key in reserved or storage.index.by_topology(claim)
    )
    return Search(
        searching,
        tuple(Family(min(each, key=lambda claim: claim.request), len(each)) for each in families.values()),
        hopeful,
        tuple(largest.values()),
        reserved,
    )


def _searching(claims: PodClaims) -> list[Claim]:
    return [claim for claim in claims.delayed if value_of(claim.annotations, SELECTED_NODE) is None]


def drivers_of(choice: VolumeChoice, snapshot: Snapshot) -> Iterator[str]:
    """Yield the drivers of the volumes that are taken, and of those that are to be provisioned."""
    for _, volume in choice.volumes:
        yield volume.driver
    for claim in choice.provision:
        yield provisioner_of(claim, snapshot.classes)


def _options(search: Search, node: Node, storage: View, usable: Usable) -> dict[str, list[Volume]]:
    """Return the candidates of each claim that has any."""
    labels, cut = dict(node.labels), cut_off(storage.snapshot, node.name)
    options = {claim.key: _options_of(claim, search, labels, cut, storage, usable) for claim in search.hopeful}
    return {key: volumes for key, volumes in options.items() if volumes}


def _options_of(
    claim: Claim,
    search: Search,
    labels: Mapping[str, str],
    cut: Container[str],
    storage: View,
    usable: Usable,
) -> list[Volume]:
    """Return the candidates, smallest first: the one that names the claim, the reserved one, or Available ones."""
    snapshot = storage.snapshot
    named = [snapshot.volumes[name] for name in snapshot.volumes_by_claim.get(claim.key, ())]
    prebound = prebound_volume(claim, labels, named) if named else None
    if prebound is not None:
        volume = volume_taken(prebound, labels, lambda: None)
        return [] if volume is None else [volume]
    reservation = search.reserved.get(claim.key)
    preferred = snapshot.volumes.get(reservation.volume) if reservation is not None else None
    if preferred is not None and scheduler_rejection(claim, preferred, labels) is None and usable(claim, preferred):
        return [preferred]
    reached = (volume for volume in storage.index.candidates(claim, labels) if volume.driver not in cut)
    return list(islice((volume for volume in reached if usable(claim, volume)), len(search.claims)))


def _with_provisioning(
    claims: PodClaims, search: Search, volumes: tuple[tuple[Claim, Volume], ...], node: Node, storage: View
) -> VolumeChoice:
    """Add the claims for which a volume is provisioned, or return why that is not possible."""
    static = {claim.key for claim, _ in volumes}
    provision = tuple(claim for claim in claims.delayed if claim.key not in static)
    if not provision:
        return VolumeChoice(volumes)
    provisioning = NodeProvisioning(node, storage.snapshot)
    if len(search.claims) == len(claims.delayed) and all(map(provisioning.allows, search.largest)):
        return VolumeChoice(volumes, provision, free=provisioning.free(provision))
    for claim in provision:
        rejected = reject_other_selection(claim, node) or provisioning.reject(claim)
        if rejected is not None:
            return VolumeChoice(rejections=(rejected,))
    return VolumeChoice(volumes, provision, free=provisioning.free(provision))
