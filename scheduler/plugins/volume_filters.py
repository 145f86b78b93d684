"""Filters for a pod's volumes: those of kube-scheduler.

Sources: plugins/volumebinding, plugins/volumezone/volume_zone.go, plugins/nodevolumelimits/csi.go and
plugins/volumerestrictions/volume_restrictions.go. The rules stand in scheduler.volumes.volume_binding, volume_zone and
attach_limits; here they become plugins.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from immutables import Map

from binder.matching.rejection import Reason, Rejection
from kube.objects.model import READ_WRITE_ONCE_POD, Claim
from scheduler.framework.plugin import NodeRule
from scheduler.state.attach_limits import attach_refusal, attachments_of, has_plenty
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeState
from scheduler.volumes.volume_zone import zone_refusal, zoned_volumes
from scheduler.volumes.volumes import PodInfo


class VolumeBinding:
    """The node must reach the volumes the pod has, and there must be volumes for the rest, or a way to make them.

    As a PreFilter it refuses pods whose claims are missing, lost, or bound by others and not bound yet, and leaves only
    nodes that reach the volumes the pod has.
    """

    name: Final = "VolumeBinding"

    def confine(self, info: PodInfo, cluster: ClusterView) -> int | Rejection | None:
        if info.rejection is not None or not (info.claims.bound or info.claims.orphaned):
            return info.rejection
        return _reaching_all(info, cluster)

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        if not info.pod.claims:
            return None

        def why(state: NodeState) -> Rejection | None:
            rejections = info.choice(state).own.rejections
            return about(state, rejections[0]) if rejections else None

        if not info.claims.delayed:
            return NodeRule(why, among=_reaching_all(info, cluster))

        def fitting(nodes: Sequence[NodeState]) -> Sequence[NodeState]:
            return [state for state in nodes if not info.choice(state).own.rejections]

        return NodeRule(why, fitting, by_choice=True)


class VolumeZone:
    """A volume that is bound already has to be in the node's zone and region, by their labels."""

    name: Final = "VolumeZone"

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        volumes = tuple(zoned_volumes(info.pod, cluster.storage.snapshot)) if info.pod.claims else ()
        return NodeRule(lambda state: zone_refusal(volumes, state.node)) if volumes else None


class NodeVolumeLimits:
    """The node's drivers must be able to attach that many more volumes."""

    name: Final = "NodeVolumeLimits"

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        wanted = attachments_of(info.pod, cluster.storage.snapshot) if info.pod.claims else frozenset()
        if not wanted:
            return None

        def fitting(nodes: Sequence[NodeState]) -> Sequence[NodeState]:
            return [
                state
                for state in nodes
                if has_plenty(wanted, state.attach) or attach_refusal(state.name, wanted, state.attach) is None
            ]

        # Claims that are not bound and that nobody uses are attached nowhere: how many for each driver tells all.
        is_new = not info.claims.bound and not any(key in cluster.claim_users for key in info.pod.claim_keys)
        question = tuple(sorted(driver for driver, _ in wanted)) if is_new else None
        return NodeRule(lambda state: attach_refusal(state.name, wanted, state.attach), fitting, question=question)


class VolumeRestrictions:
    """A ReadWriteOncePod claim that another pod uses keeps its pod from every node (KEP-2485)."""

    name: Final = "VolumeRestrictions"

    def rule(self, info: PodInfo, cluster: ClusterView) -> NodeRule | None:
        claims = (*(claim for claim, _ in info.claims.bound), *info.claims.delayed)
        exclusive = [claim for claim in claims if READ_WRITE_ONCE_POD in claim.access_modes]
        used = next((found for claim in exclusive if (found := _used_by(claim, info, cluster)) is not None), None)
        if used is None:
            return None
        claim, user = used
        wanted = f"claim {claim.key} for itself ({READ_WRITE_ONCE_POD})"
        return NodeRule(
            lambda state: Rejection(Reason.VOLUME_IN_USE, state.name, wanted, f"in use by pod {user}"), among=0
        )


def about(state: NodeState, rejection: Rejection) -> Rejection:
    """Return a rejection worked out for one node in the name of another that is like it."""
    return rejection if rejection.subject == state.name else replace(rejection, subject=state.name)


def _reaching_all(info: PodInfo, cluster: ClusterView) -> int:
    """Return the nodes that reach every volume the pod has."""
    reached = 0 if info.claims.orphaned else cluster.index.everything
    for _, volume in info.claims.bound:
        reached &= cluster.index.reaching(volume.node_affinity)
    return reached


def _used_by(claim: Claim, info: PodInfo, cluster: ClusterView) -> tuple[Claim, str] | None:
    """Return another pod, placed or assumed to be, that uses the claim."""
    users = cluster.claim_users.get(claim.key, Map())
    user = next((key for key in sorted(users) if key != info.pod.key), None)
    return None if user is None else (claim, user)
