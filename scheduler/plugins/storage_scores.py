"""Scores for a pod's volumes: where they are promised, where more of their kind are, where they are attached, and where
the least of a volume is wasted.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from binder.reservation.contract import ClaimReservation
from kube.objects.model import Volume
from kube.rules.topology import is_on_one_node
from scheduler.framework.plugin import HIGHEST, Score, ScoreChoice
from scheduler.plugins.preferences import normalised
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo
from scheduler.volumes.volume_binding import VolumeChoice
from scheduler.volumes.volumes import PodInfo

_ENOUGH: Final = 100
"""From so many free volumes on, zones are alike."""


class ReservedZone(Score):
    """First the zone of the pod's reservations, and the very nodes for local volumes; the mean over its claims."""

    name = "ReservedZone"

    def scores(self, info: PodInfo, _: ClusterView, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        reservations = tuple(info.reserved.values())
        if not reservations:
            return None
        claims = len(info.claims.delayed)
        return [HIGHEST * sum(_is_at(one, state) for one in reservations) // claims for state in nodes]


class ZoneVolumes(Score):
    """First the zone in which most free volumes fit the pod's claims: the next pod of its kind finds one there too.

    Local volumes are no matter of zones: the smallest that fits, wherever it is, tells whether they are.
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
    """First where the pod's bound volumes are attached already: it starts without waiting for a detach."""

    name = "AttachedVolumes"

    def scores(self, info: PodInfo, _: ClusterView, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        wanted = [(volume.driver, volume.handle) for _, volume in info.claims.bound if volume.driver and volume.handle]
        if not wanted:
            return None
        attached = [sum(one in state.attach.used or one in state.attach.left for one in wanted) for state in nodes]
        return [HIGHEST * count // len(wanted) for count in attached]


class BestFit(ScoreChoice):
    """First where the volumes taken are filled best by what is requested (kubernetes#83323): the mean over the claims.

    kube-scheduler takes the smallest volume on a node, and chooses the node blindly. A claim that has a volume made
    for it counts nothing: static volumes come first.
    """

    name = "BestFit"

    def scores(self, info: PodInfo, _: ClusterView, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        if not info.claims.delayed:
            return None
        return [self.of_choice(info, info.choice(state).own) for state in nodes]

    def of_choice(self, info: PodInfo, choice: VolumeChoice) -> int:
        filled = sum(_share(claim.request, volume) for claim, volume in choice.volumes)
        return filled // len(info.claims.delayed)


def _is_at(reservation: ClaimReservation, state: NodeInfo) -> bool:
    if reservation.nodes:
        return state.name in reservation.nodes
    return bool(reservation.zone) and reservation.zone == state.zone


def _by_zone(nodes: Sequence[NodeInfo], count: Callable[[NodeInfo], int]) -> list[int]:
    """Ask once for each zone; nodes without one are asked one by one."""
    known: dict[str, int] = {}
    found = []
    for state in nodes:
        place = state.zone or f"node {state.name}"
        if place not in known:
            known[place] = count(state)
        found.append(known[place])
    return found


def _share(request: int, volume: Volume) -> int:
    return min(HIGHEST, HIGHEST * request // volume.capacity) if volume.capacity else 0
