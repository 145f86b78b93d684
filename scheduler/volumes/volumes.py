"""A pod with its claims looked up, and which volumes it takes on a node."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from typing import Final

from binder.assignment.volume_policy import reject_use
from binder.matching.matching import class_of
from binder.matching.rejection import Rejection
from binder.model.view import View
from binder.provisioning.sums import reject_sum
from binder.reservation.contract import ClaimReservation
from kube.objects.labels import NodeSelector
from kube.objects.model import SELECTED_NODE, Claim, Node, Pod, Volume, value_of
from kube.rules.selectors import NAME_FIELD, label_keys
from kube.rules.topology import ZONE_LABELS, LabelKeys, kind_of_node
from scheduler.state.node_info import NodeInfo
from scheduler.volumes.health_aware_choice import FreeVolumes, health_aware_choice, search_for
from scheduler.volumes.volume_binding import PodClaims, VolumeChoice, choose_volumes, claims_of


class NodeVolumes:
    """What a pod's unbound claims get on a node.

    `own` is what we take: the reserved volumes first, and none that is reserved for another claim, known to be
    unhealthy or not accessible from the node. What is to be provisioned fits together into what is left of the storage,
    beside the volumes on their way; kube-scheduler compares each claim alone with the driver's report.
    """

    def __init__(
        self,
        own: VolumeChoice,
        ask_upstream: Callable[[], VolumeChoice],
        ask_unbound: Callable[[], VolumeChoice] = VolumeChoice,
    ) -> None:
        self.own = own
        self._ask_upstream = ask_upstream
        self._ask_unbound = ask_unbound

    @property
    def rejections(self) -> tuple[Rejection, ...]:
        """The reasons against the node: about the volumes that the pod has, and about those that it needs.

        FindPodVolumes of plugins/volumebinding/binder.go reports both.
        """
        return self.own.rejections + self._ask_unbound().rejections if self.own.rejections else ()

    @cached_property
    def upstream(self) -> VolumeChoice:
        """Return kube-scheduler's VolumeBinding decision. Computed lazily: it is rarely needed.

        If there are too few volumes for either, its rejections have our texts.
        """
        return self._ask_upstream()


@dataclass(frozen=True, slots=True)
class PodInfo:
    """A pod to be scheduled, and what every storage plugin has to know about it.

    `rejection` is the reason for which the pod fits no node at all (missing or lost claim, unbound Immediate claim,
    ...), and then `claims` is empty. `reserved` are the claims' reservations that have not expired, by claim key.
    `choice(node)` is the choice on a node; it is computed once for equal nodes: those that have equal values of the
    labels `keys` and are cut off from the same storage.
    """

    pod: Pod
    claims: PodClaims
    rejection: Rejection | None
    reserved: Mapping[str, ClaimReservation]
    choice: Callable[[NodeInfo], NodeVolumes]
    keys: LabelKeys = ()


_NO_CLAIMS: Final = PodClaims()


def pod_info(pod: Pod, storage: View, now: datetime) -> PodInfo:
    """Look up a pod's claims."""
    if not pod.claims:
        return PodInfo(pod, _NO_CLAIMS, None, {}, _chooses_nothing)
    claims = claims_of(pod, storage.snapshot)
    if isinstance(claims, Rejection):
        return PodInfo(pod, _NO_CLAIMS, claims, {}, _chooses_nothing)
    annotations = storage.settings.annotations
    reservations = {claim.key: annotations.held_for(claim, storage.snapshot) for claim in claims.delayed}
    reserved = {
        key: reservation
        for key, reservation in reservations.items()
        if reservation is not None and reservation.in_force(now)
    }
    keys = _deciding_labels(claims, storage)
    return PodInfo(pod, claims, None, reserved, _choices(claims, reserved, storage, now, keys), keys)


def _chooses_nothing(_: NodeInfo) -> NodeVolumes:
    return NodeVolumes(VolumeChoice(), VolumeChoice)


def _choices(
    claims: PodClaims, reserved: Mapping[str, ClaimReservation], storage: View, now: datetime, keys: LabelKeys
) -> Callable[[NodeInfo], NodeVolumes]:
    """Return the choice by node, cached by the labels on which it depends."""
    known: dict[tuple[object, ...], NodeVolumes] = {}
    by_name: dict[str, NodeVolumes] = {}
    search = search_for(claims, reserved, storage)
    unbound = replace(claims, bound=(), orphaned=())

    def usable(claim: Claim, volume: Volume) -> bool:
        return reject_use(storage, volume, now, claim) is None

    def own_choice(needed: PodClaims, free: FreeVolumes, node: Node) -> VolumeChoice:
        chosen = health_aware_choice(needed, search, free, node, storage, usable)
        too_much = reject_sum(chosen.provision, node, storage.snapshot, storage.pools, now, certain=False)
        return chosen if too_much is None else VolumeChoice(rejections=(too_much,))

    def upstream(node: Node, own: VolumeChoice, free: FreeVolumes) -> VolumeChoice:
        if own.rejections and free.short:
            return own
        return choose_volumes(claims, node, storage.snapshot, storage.index)

    def choice(node: NodeInfo) -> NodeVolumes:
        # Half a dozen plugins need it for each node.
        volumes = by_name.get(node.node.name)
        if volumes is not None:
            return volumes
        alike = (node.cut_off, kind_of_node(node.labels, keys, node.name))
        volumes = known.get(alike)
        if volumes is None:
            free = FreeVolumes(search, node.labels, storage)
            own = own_choice(claims, free, node.node)
            missing = partial(own_choice, unbound, free, node.node)
            volumes = known[alike] = NodeVolumes(own, partial(upstream, node.node, own, free), missing)
        by_name[node.node.name] = volumes
        return volumes

    return choice


def _deciding_labels(claims: PodClaims, storage: View) -> LabelKeys:
    """Return the labels of nodes on which the choice depends, and `metadata.name` if it depends on the node itself."""
    snapshot = storage.snapshot
    keys = set(ZONE_LABELS)
    affinities: list[NodeSelector | None] = [volume.node_affinity for _, volume in claims.bound]
    for claim in claims.delayed:
        if value_of(claim.annotations, SELECTED_NODE) is not None:
            keys.add(NAME_FIELD)
        named = snapshot.volumes_by_claim.get(claim.key, ())
        affinities += [snapshot.volumes[name].node_affinity for name in named]
        keys |= storage.index.deciding_labels(claim)
        storage_class = snapshot.classes.get(class_of(claim))
        if storage_class is not None:
            affinities.append(storage_class.allowed_topologies)
            keys.update(snapshot.capacities_by_class.deciding_labels(storage_class.name))
    for affinity in affinities:
        keys.update(label_keys(affinity))
    return tuple(sorted(keys))
