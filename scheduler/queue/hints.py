"""Which change in the cluster may help which refused pod, plugin by plugin (KEP-4247).

A pod waits for the plugins that refused it: on each node the first one that did. So it is enough to ask those, and a
new node is asked about like a node that refused. The rules may wake a pod in vain, never let it sleep through what
would have helped.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Final

from kube.objects.constraints import DO_NOT_SCHEDULE, NO_CONSTRAINTS
from kube.objects.model import (
    Claim,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Namespace,
    Node,
    Pod,
    StorageClass,
    Volume,
    VolumeAttachment,
)
from kube.pod_topology.topology_spread import constraints_of, selector_of
from kube.rules.disk_conflicts import disks_of
from kube.rules.disruption import DisruptionBudget
from kube.rules.host_ports import host_ports
from scheduler.framework.cluster_event import Change, Kind, Wanted
from scheduler.plugins.hints_neighbours import neighbours_eased, neighbours_may_be_eased, spread_eased
from scheduler.plugins.hints_nodes import (
    disk_released,
    labels_changed,
    more_room,
    now_selected,
    now_tolerated,
    port_freed,
)
from scheduler.plugins.hints_volumes import attachable, claim_released, local_volume_found, volume_found, zone_reached
from scheduler.plugins.node_rules import EnforcedNodeAffinity, NodeAffinity, TaintToleration
from scheduler.plugins.pod_affinity import InterPodAffinity
from scheduler.plugins.reservation import LocalStorage, ReservedVolume, VolumeHealth
from scheduler.plugins.resource_fit import DiskConflict, NodePorts, NodeResourcesFit
from scheduler.plugins.topology_spread import PodTopologySpread
from scheduler.plugins.volume_filters import NodeVolumeLimits, VolumeBinding, VolumeRestrictions, VolumeZone

Helps = Callable[[Pod, Change, Wanted | None], bool]

STORAGE: Final = frozenset(
    plugin.name
    for plugin in (
        VolumeRestrictions,
        NodeVolumeLimits,
        ReservedVolume,
        VolumeHealth,
        VolumeBinding,
        LocalStorage,
        VolumeZone,
    )
)
"""The plugins that look at a pod's claims. Any change of one of those may help against each of them."""

PREEMPTION: Final = "Preemption"
"""Stands among the plugins that refused a pod when disruption budgets kept it from having others evicted."""


@dataclass(frozen=True, slots=True)
class Hint:
    """What may help a pod that one plugin refused.

    `helps(pod, change, wanted)` is asked about objects of these `kinds`, None: about all; `wanted` is None when nobody
    looked it up. `coarse`, if there is one, is asked first: it goes by less and is true wherever `helps` is. The first
    one asked goes by nothing but the pod's `shape(pod, wanted)`, unless the change is about a claim of the pod or a
    volume that it wants: so pods of one shape are asked about together.
    """

    kinds: frozenset[Kind] | None
    shape: Callable[[Pod, Wanted | None], Hashable]
    helps: Helps
    coarse: Helps | None = None

    def concerns(self, kind: Kind) -> bool:
        return self.kinds is None or kind in self.kinds

    def concerns_all(self, pod: Pod, change: Change, wanted: Wanted | None) -> bool:
        """Whether pods of this one's shape may be helped; `helps` has the last word where there is `coarse`."""
        return (self.coarse or self.helps)(pod, change, wanted)


def may_help(pod: Pod, refused_by: frozenset[str], change: Change, wanted: Wanted | None = None) -> bool:
    """Whether a pod that these plugins refused may fit a node now. Refused by none, or by a stranger: it may."""
    if not change.concerns(pod):
        return False
    subject = change.old if change.new is None else change.new
    if isinstance(subject, Claim) and refused_by & STORAGE and subject.key in pod.claim_keys:
        return True
    hints = map(hint_of, refused_by or {""})
    return any(hint.concerns(change.kind) and hint.helps(pod, change, wanted) for hint in hints)


def hint_of(plugin: str) -> Hint:
    """Return what helps against a plugin; anything, if nothing is known of it."""
    return _HINTS.get(plugin, _ANYTHING)


def _all_alike(_: Pod, __: Wanted | None) -> Hashable:
    return ()


def _storage_shape(_: Pod, wanted: Wanted | None) -> Hashable:
    return None if wanted is None else (wanted.classes, wanted.drivers, wanted.whole)


def _spread_shape(pod: Pod, _: Wanted | None) -> Hashable:
    hard = constraints_of(pod, DO_NOT_SCHEDULE)
    return pod.namespace, tuple((one, selector_of(one, pod)) for one in hard)


def _affinity_shape(pod: Pod, _: Wanted | None) -> Hashable:
    said = pod.constraints or NO_CONSTRAINTS
    return pod.namespace, said.affinity, said.anti_affinity


def _anything(_: Pod, __: Change, ___: Wanted | None) -> bool:
    return True


_ANYTHING: Final = Hint(None, _all_alike, _anything)
_EVICTION: Final = Hint(frozenset({DisruptionBudget}), _all_alike, _anything)
_MAKING: Final[frozenset[Kind]] = frozenset({Node, Volume, StorageClass, CSINode, CSIDriver, CSIStorageCapacity})
_ATTACHING: Final[frozenset[Kind]] = frozenset({Node, CSINode, Pod, Claim, Volume, StorageClass, VolumeAttachment})
_NODE: Final[frozenset[Kind]] = frozenset({Node})
_NODE_OR_POD: Final[frozenset[Kind]] = frozenset({Node, Pod})
_VOLUME_FOUND: Final = Hint(_MAKING, _storage_shape, volume_found)

_HINTS: Final[Mapping[str, Hint]] = {
    TaintToleration.name: Hint(_NODE, lambda pod, _: pod.tolerations, now_tolerated),
    NodeAffinity.name: Hint(_NODE, lambda pod, _: (pod.node_selector, pod.node_affinity), now_selected),
    EnforcedNodeAffinity.name: Hint(_NODE, _all_alike, labels_changed),
    DiskConflict.name: Hint(_NODE_OR_POD, lambda pod, _: disks_of(pod), disk_released),
    NodePorts.name: Hint(_NODE_OR_POD, lambda pod, _: host_ports(pod), port_freed),
    NodeResourcesFit.name: Hint(_NODE_OR_POD, lambda pod, _: pod.requests, more_room),
    VolumeRestrictions.name: Hint(_NODE_OR_POD, _storage_shape, claim_released),
    NodeVolumeLimits.name: Hint(_ATTACHING, _storage_shape, attachable),
    ReservedVolume.name: _VOLUME_FOUND,
    VolumeHealth.name: _VOLUME_FOUND,
    VolumeBinding.name: _VOLUME_FOUND,
    LocalStorage.name: Hint(_MAKING, _storage_shape, local_volume_found),
    VolumeZone.name: Hint(frozenset({Node, Volume}), _storage_shape, zone_reached),
    PodTopologySpread.name: Hint(_NODE_OR_POD, _spread_shape, spread_eased),
    PREEMPTION: _EVICTION,
    InterPodAffinity.name: Hint(_NODE_OR_POD | {Namespace}, _affinity_shape, neighbours_eased, neighbours_may_be_eased),
}
"""By the plugin's name."""
