"""Scores for a pod's volumes: where they are reserved, where more of their kind are, where they are attached, and where
the least capacity is wasted or most is free.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from binder.matching.matching import class_of, provisions
from binder.reservation.contract import ClaimReservation
from kube.objects.model import Volume
from kube.rules.quantity import whole_units
from kube.rules.topology import is_on_one_node
from scheduler.framework.plugin import MAX_NODE_SCORE, Score, ScoreChoice
from scheduler.plugins.preferences import normalised
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo
from scheduler.volumes.volume_binding import VolumeChoice
from scheduler.volumes.volumes import PodInfo

_ENOUGH: Final = 100
"""From this many Available volumes on, zones count as equal."""


class ReservedZone(Score):
    """Prefers the zone of the pod's reservations, and for local volumes their nodes; the mean over its claims."""

    name = "ReservedZone"

    def scores(self, info: PodInfo, _: ClusterView, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        reservations = tuple(info.reserved.values())
        if not reservations:
            return None
        claims = len(info.claims.delayed)
        return [
            MAX_NODE_SCORE * sum(_is_at(reservation, state) for reservation in reservations) // claims
            for state in nodes
        ]


class ZoneVolumes(Score):
    """Prefers the zone in which most Available volumes fit the pod's claims: the next pod of its kind finds one there
    too.

    Local volumes are not counted by zone: the smallest that fits, wherever it is, shows whether they are local.
    """

    name = "ZoneVolumes"

    def scores(self, info: PodInfo, cluster: ClusterView, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        claims, index = info.claims.delayed, cluster.storage.index
        if not claims or any(
            is_on_one_node(volume) for claim in claims for volume in islice(index.candidates(claim), 1)
        ):
            return None

        def count(state: NodeInfo) -> int:
            return sum(len(list(islice(index.candidates(claim, state.labels), _ENOUGH))) for claim in claims)

        return normalised(_by_zone(nodes, count))


class AttachedVolumes(Score):
    """Prefers the node to which the pod's bound volumes are attached already: the pod starts without waiting for a
    detach.
    """

    name = "AttachedVolumes"

    def scores(self, info: PodInfo, _: ClusterView, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        wanted = [(volume.driver, volume.handle) for _, volume in info.claims.bound if volume.driver and volume.handle]
        if not wanted:
            return None
        attached = [sum(name in state.attach.used or name in state.attach.left for name in wanted) for state in nodes]
        return [MAX_NODE_SCORE * count // len(wanted) for count in attached]


class BestFit(ScoreChoice):
    """Prefers the node whose volumes are filled best by the requests (kubernetes#83323): the mean over the claims.

    kube-scheduler takes the smallest volume on a node, but prefers nodes whose smallest volumes are large
    (StorageCapacityScoring, with the default `shape`). A claim for which a volume is provisioned scores nothing: static
    volumes are preferred.
    """

    name = "BestFit"

    def scores(self, info: PodInfo, _: ClusterView, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        if not info.claims.delayed:
            return None
        return [self.of_choice(info, info.choice(state).own) for state in nodes]

    def of_choice(self, info: PodInfo, choice: VolumeChoice) -> int:
        filled = sum(_share(claim.request, volume) for claim, volume in choice.volumes)
        return filled // len(info.claims.delayed)


class FreeStorage(ScoreChoice):
    """Prefers the node for which drivers report most free capacity, where volumes are provisioned: the mean over the
    classes of what stays free, in percent.

    Source: Score in plugins/volumebinding/volume_binding.go and scorer.go, with the default `shape`. Upstream scores
    only nodes where all volumes are provisioned; here a node where all of them exist scores most, as it takes nothing.
    """

    name = "FreeStorage"

    def scores(self, info: PodInfo, cluster: ClusterView, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        classes = cluster.storage.snapshot.classes
        if not any(provisions(claim, classes) for claim in info.claims.delayed):
            return None
        return [self.of_choice(info, info.choice(state).own) for state in nodes]

    def of_choice(self, _: PodInfo, choice: VolumeChoice) -> int:
        if not choice.provision:
            return MAX_NODE_SCORE
        shares = [
            _left(sum(whole_units(claim.request) for claim in choice.provision if class_of(claim) == name), free)
            for name, free in choice.free
        ]
        # Rounded half up, as math.Round does.
        return (2 * sum(shares) + len(shares)) // (2 * len(shares)) if shares else 0


def _left(requested: int, free: int) -> int:
    return MAX_NODE_SCORE - MAX_NODE_SCORE * requested // free if 0 < free >= requested else 0


def _is_at(reservation: ClaimReservation, state: NodeInfo) -> bool:
    if reservation.nodes:
        return state.name in reservation.nodes
    return bool(reservation.zone) and reservation.zone == state.zone


def _by_zone(nodes: Sequence[NodeInfo], count: Callable[[NodeInfo], int]) -> list[int]:
    """Evaluate once per zone; nodes without one are evaluated individually."""
    known: dict[str, int] = {}
    results = []
    for state in nodes:
        place = state.zone or f"node {state.name}"
        if place not in known:
            known[place] = count(state)
        results.append(known[place])
    return results


def _share(request: int, volume: Volume) -> int:
    return min(MAX_NODE_SCORE, MAX_NODE_SCORE * request // volume.capacity) if volume.capacity else 0
