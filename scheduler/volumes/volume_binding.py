"""What kube-scheduler does with the claims of a pod: in general, and on a node.

Source: PreFilter and Filter in pkg/scheduler/framework/plugins/volumebinding (volume_binding.go, binder.go). Where
upstream leaves equal volumes or claims to the order of a Go map, the first by name is used here. Volumes of in-tree
plugins that a node hands to a CSI driver are not translated first.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from binder.matching.claim_shape import ClaimShape, family_of
from binder.matching.claim_state import claim_state, state_rejection, unusable_state
from binder.matching.evidence import affinity_text, quantity_text
from binder.matching.index import VolumeIndex
from binder.matching.matching import class_of, selector_too_large
from binder.matching.node_fit import reject_allowed_topologies
from binder.matching.rejection import Reason, Rejection
from binder.matching.scheduler_match import prebound_volume, volume_taken
from kube.objects.model import (
    SELECTED_NODE,
    Claim,
    CSIStorageCapacity,
    Node,
    Pod,
    StorageClass,
    Volume,
    value_of,
)
from kube.rules.quantity import NANO, whole_units
from kube.rules.selectors import node_matches
from kube.store.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class PodClaims:
    """The claims of a schedulable pod, in the pod's order.

    `bound` have a volume, `orphaned` are bound to one that does not exist, `delayed` get one that is chosen with the
    node. `wanted` are the delayed ones as often as the pod names them: upstream looks for a volume each time.
    """

    bound: tuple[tuple[Claim, Volume], ...] = ()
    orphaned: tuple[Claim, ...] = ()
    delayed: tuple[Claim, ...] = ()
    wanted: tuple[Claim, ...] = ()


@dataclass(frozen=True, slots=True)
class VolumeChoice:
    """VolumeBinding's decision for a node: the static volumes it takes, the claims for which a volume is provisioned.

    `rejections` are its reasons against the node, in its order and for each claim; the other two are empty then. `free`
    is how many bytes the drivers report as free for the node, by class of the claims to provision, where they do.
    """

    volumes: tuple[tuple[Claim, Volume], ...] = ()
    provision: tuple[Claim, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    free: tuple[tuple[str, int], ...] = field(default=(), compare=False)


_NOTHING_TO_DO: Final = VolumeChoice()


def claims_of(pod: Pod, snapshot: Snapshot) -> PodClaims | Rejection:
    """Return the pod's claims, or why no node is evaluated for it at all."""
    claims: list[Claim] = []
    for named in pod.claims:
        key = f"{pod.namespace}/{named.name}"
        claim = snapshot.claims.get(key)
        unusable = unusable_state(claim, pod.uid if named.ephemeral else "")
        if unusable is not None and (rejected := state_rejection(key, claim, unusable)) is not None:
            return rejected
        if claim is not None:
            claims.append(claim)
    delayed = [claim for claim in claims if not claim.fully_bound]
    for claim in delayed:
        state = claim_state(claim, snapshot.classes)
        rejected = state_rejection(claim.key, claim, state) or selector_too_large(claim)
        if rejected is not None:
            return rejected
    return _sorted_out(pod, claims, delayed, snapshot)


def choose_volumes(claims: PodClaims, node: Node, snapshot: Snapshot, index: VolumeIndex) -> VolumeChoice:
    """Return VolumeBinding's decision for the pod on this node. `index` holds the Available volumes of the snapshot."""
    against = _reject_bound(claims, node)
    if not claims.wanted:
        return _NOTHING_TO_DO if against is None else VolumeChoice(rejections=(against,))
    choice = _choose(claims.wanted, node, snapshot, index)
    return choice if against is None else VolumeChoice(rejections=(against, *choice.rejections))


def static_volume(
    claim: Claim, node_labels: Mapping[str, str], snapshot: Snapshot, index: VolumeIndex, taken: Container[str] = ()
) -> Volume | None:
    """Return the volume taken for a claim on a node with these labels, None if there is none.

    `taken` are names of volumes that went to other claims of the pod.
    """
    named = [snapshot.volumes[name] for name in snapshot.volumes_by_claim.get(claim.key, ())]
    prebound = prebound_volume(claim, node_labels, named, taken) if named else None
    return volume_taken(prebound, node_labels, lambda: index.smallest(claim, node_labels, taken))


def _sorted_out(
    pod: Pod, claims: Iterable[Claim], wanted: Iterable[Claim], snapshot: Snapshot
) -> PodClaims | Rejection:
    persistent = {named.name for named in pod.claims if not named.ephemeral}
    bound, orphaned = [], []
    for claim in dict.fromkeys(claim for claim in claims if claim.fully_bound):
        volume = snapshot.volumes.get(claim.volume_name)
        if volume is not None:
            bound.append((claim, volume))
        elif claim.name in persistent:  # VolumeZone reads the volume before any node is evaluated.
            return Rejection(Reason.VOLUME_MISSING, claim.key, f"volume {claim.volume_name}", "no such volume")
        else:
            orphaned.append(claim)
    delayed = tuple(dict.fromkeys(wanted))
    return PodClaims(tuple(bound), tuple(orphaned), delayed, tuple(wanted))


def _reject_bound(claims: PodClaims, node: Node) -> Rejection | None:
    """Return which of the pod's bound volumes excludes the node (checkBoundClaims)."""
    labels = dict(node.labels)
    for _, volume in claims.bound:
        if not node_matches(volume.node_affinity, labels):
            wanted = f"a node from which volume {volume.name} is accessible"
            where = affinity_text(volume.node_affinity) if volume.node_affinity else "anywhere"
            offered = f"the volume is accessible where {where}"
            return Rejection(Reason.VOLUME_UNREACHABLE, node.name, wanted, offered)
    for claim in claims.orphaned:
        return Rejection(Reason.VOLUME_MISSING, node.name, f"volume {claim.volume_name}", "no such volume")
    return None


def _choose(wanted: Iterable[Claim], node: Node, snapshot: Snapshot, index: VolumeIndex) -> VolumeChoice:
    labels = dict(node.labels)
    provision: list[Claim] = []
    volumes: list[tuple[Claim, Volume]] = []
    for claim in wanted:
        elsewhere = reject_other_selection(claim, node)
        if elsewhere is not None:
            return VolumeChoice(rejections=(elsewhere,))
        if value_of(claim.annotations, SELECTED_NODE) is not None:
            provision.append(claim)
    searching = [claim for claim in wanted if value_of(claim.annotations, SELECTED_NODE) is None]
    taken: set[str] = set()
    exhausted: set[ClaimShape] = set()
    for claim in sorted(searching, key=lambda claim: (claim.request, claim.key)):
        unnamed = claim.key not in snapshot.volumes_by_claim
        # What does not fit a claim does not fit a larger one.
        known = unnamed and bool(exhausted) and family_of(claim) in exhausted
        volume = None if known else static_volume(claim, labels, snapshot, index, taken)
        if volume is not None:
            volumes.append((claim, volume))
            taken.add(volume.name)
            continue
        provision.append(claim)
        if unnamed:
            exhausted.add(family_of(claim))
    rejections = map(NodeProvisioning(node, snapshot).reject, provision)
    rejected = tuple(rejection for rejection in rejections if rejection is not None)
    return VolumeChoice(rejections=rejected) if rejected else VolumeChoice(tuple(volumes), tuple(provision))


def reject_other_selection(claim: Claim, node: Node) -> Rejection | None:
    """Return the rejection of a node that is not the one selected for provisioning the claim's volume, or None."""
    selected = value_of(claim.annotations, SELECTED_NODE)
    if selected is None or selected == node.name:
        return None
    chosen = f"node {selected}, selected for provisioning the volume of {claim.key}"
    return Rejection(Reason.PROVISIONING_ELSEWHERE, node.name, chosen, node.name)


def reject_provisioning(claim: Claim, node: Node, snapshot: Snapshot) -> Rejection | None:
    """Return why no volume accessible from this node can be provisioned (checkVolumeProvisions), or None."""
    return NodeProvisioning(node, snapshot).reject(claim)


class NodeProvisioning:
    """What can be provisioned for a node, looked up once for each class: a pod may have a hundred claims."""

    def __init__(self, node: Node, snapshot: Snapshot) -> None:
        self._node, self._snapshot = node, snapshot
        self._reported: dict[str, Sequence[CSIStorageCapacity]] = {}
        self._limits: dict[str, float] = {}

    def allows(self, claim: Claim) -> bool:
        """Whether a volume accessible from the node can be provisioned for the claim."""
        return _bytes(claim) <= self._limit(class_of(claim))

    def free(self, claims: Iterable[Claim]) -> tuple[tuple[str, int], ...]:
        """Return how many bytes are free for the node, by class of the claims, as far as reported.

        Of several reports the largest counts; upstream takes any that suffices (hasEnoughCapacity).
        """
        names = dict.fromkeys(map(class_of, claims))
        reports = ((name, self._free(self._snapshot.classes[name])) for name in names)
        return tuple((name, free) for name, free in reports if free is not None)

    def _free(self, storage_class: StorageClass) -> int | None:
        driver = self._snapshot.csi_drivers.get(storage_class.provisioner)
        if driver is None or not driver.storage_capacity:
            return None
        free = [report.capacity for report in self._reports(storage_class.name) if report.capacity is not None]
        return whole_units(max(free)) if free else None

    def _reports(self, class_name: str) -> Sequence[CSIStorageCapacity]:
        reports = self._reported.get(class_name)
        if reports is None:
            of_node = self._snapshot.capacities_by_class.of_node
            reports = self._reported[class_name] = tuple(of_node(class_name, dict(self._node.labels)))
        return reports

    def reject(self, claim: Claim) -> Rejection | None:
        """Return why not (checkVolumeProvisions), None if it can."""
        if self.allows(claim):
            return None
        name, storage_class = self._node.name, self._snapshot.classes[class_of(claim)]
        request = quantity_text(claim.request)
        if not storage_class.provisions:
            wanted = f"a volume of class {storage_class.name} with {request} for {claim.key}"
            offered = "no Available volume accessible from this node, and none can be provisioned"
            return Rejection(Reason.NO_VOLUME_FITS, name, wanted, offered)
        excluded = reject_allowed_topologies(storage_class, self._node)
        if excluded is not None:
            return excluded
        wanted = f"{request} of class {storage_class.name} for {claim.key}"
        most = self._limit(storage_class.name)
        largest = "no CSIStorageCapacity for this node" if most < 0 else f"at most {quantity_text(int(most) * NANO)}"
        return Rejection(Reason.INSUFFICIENT_STORAGE, name, wanted, largest)

    def _limit(self, class_name: str) -> float:
        """Return how large a volume may be, in bytes: -1 if no capacity is reported, -inf if none can be provisioned at
        all.
        """
        limit = self._limits.get(class_name)
        if limit is None:
            limit = self._limits[class_name] = self._look_up(self._snapshot.classes[class_name])
        return limit

    def _look_up(self, storage_class: StorageClass) -> float:
        if not storage_class.provisions:
            return -inf
        allowed = storage_class.allowed_topologies
        if allowed is not None and not node_matches(allowed, self._node.labels):
            return -inf
        driver = self._snapshot.csi_drivers.get(storage_class.provisioner)
        if driver is None or not driver.storage_capacity:
            return inf
        return _most(self._reports(storage_class.name))


def _bytes(claim: Claim) -> int:
    """Return the request in whole bytes, rounded up, as quantities are compared; -1 if nothing is requested."""
    return whole_units(claim.request) or -1


def _most(reports: Iterable[CSIStorageCapacity]) -> int:
    """Return the largest volume, in bytes, that can be provisioned by these reports; -1 if they state nothing."""
    return max((whole_units(most) for report in reports if (most := report.largest_volume) is not None), default=-1)
