"""All built-in plugins, by name, and the default profile."""

from collections.abc import Mapping
from typing import Final

from scheduler.framework.plugin import Plugin
from scheduler.framework.profile import Profile, ProfileData
from scheduler.framework.registry import Registry, build
from scheduler.plugins.inter_pod_affinity import InterPodAffinity
from scheduler.plugins.neighbour_scores import PreferredPodAffinity, SoftTopologySpread
from scheduler.plugins.node_rules import EnforcedNodeAffinity, NodeAffinity, TaintToleration
from scheduler.plugins.preferences import PreferNoSchedule, PreferredNodeAffinity
from scheduler.plugins.queue_sort import PrioritySort
from scheduler.plugins.reservation import LocalStorage, ReservedVolume, VolumeHealth
from scheduler.plugins.resource_fit import DiskConflict, NodePorts, NodeResourcesFit
from scheduler.plugins.resource_scores import Balanced, BinPack, LeastAllocated
from scheduler.plugins.storage_scores import AttachedVolumes, BestFit, FreeStorage, ReservedZone, ZoneVolumes
from scheduler.plugins.topology_spread import PodTopologySpread
from scheduler.plugins.volume_filters import NodeVolumeLimits, VolumeBinding, VolumeRestrictions, VolumeZone

PLUGINS: Final[tuple[type[Plugin], ...]] = (
    PrioritySort,
    TaintToleration,
    EnforcedNodeAffinity,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    DiskConflict,
    VolumeRestrictions,
    NodeVolumeLimits,
    ReservedVolume,
    VolumeHealth,
    VolumeBinding,
    LocalStorage,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    ReservedZone,
    BestFit,
    FreeStorage,
    ZoneVolumes,
    AttachedVolumes,
    PreferNoSchedule,
    PreferredNodeAffinity,
    SoftTopologySpread,
    PreferredPodAffinity,
    LeastAllocated,
    BinPack,
    Balanced,
)
"""Filters in the order to run: kube-scheduler's, with ours before the one that would only report "no volume"."""

REGISTRY: Final = Registry.of(PLUGINS)

DEFAULT_WEIGHTS: Final[Mapping[str, int]] = {
    ReservedZone.name: 10,
    BestFit.name: 2,
    FreeStorage.name: 1,
    ZoneVolumes.name: 1,
    AttachedVolumes.name: 3,
    PreferNoSchedule.name: 3,
    PreferredNodeAffinity.name: 2,
    SoftTopologySpread.name: 2,
    PreferredPodAffinity.name: 2,
    LeastAllocated.name: 1,
    Balanced.name: 1,
}
"""Those of kube-scheduler where it has the score too. A reservation outweighs all others unless they all agree."""


def default_data(scheduler_name: str) -> ProfileData:
    return ProfileData(
        scheduler_name=scheduler_name,
        queue_sort=PrioritySort.name,
        pre_filters=tuple(REGISTRY.pre_filters),
        filters=tuple(REGISTRY.filters),
        scores=DEFAULT_WEIGHTS,
    )


def default_profile(scheduler_name: str) -> Profile:
    return build(default_data(scheduler_name), REGISTRY)
