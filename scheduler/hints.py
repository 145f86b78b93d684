"""Which change in the cluster may help which refused pod, plugin by plugin (KEP-4247).

A pod waits for the plugins that refused it: on each node the first one that did. So it is enough to ask those, and a
new node is asked about like a node that refused. The rules may wake a pod in vain, never let it sleep through what
would have helped.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Final

from kube.model import (
    Claim,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Node,
    Pod,
    StorageClass,
    Volume,
    VolumeAttachment,
)
from scheduler.change import Change, Kind, Wanted
from scheduler.hints_neighbours import neighbours_eased, spread_eased
from scheduler.hints_nodes import more_room, now_ready, now_selected, now_tolerated, port_freed
from scheduler.hints_volumes import attachable, claim_released, local_volume_found, volume_found, zone_reached
from scheduler.node_rules import NodeAffinity, NodeReady, TaintToleration
from scheduler.node_state import host_ports
from scheduler.pod_affinity import InterPodAffinity
from scheduler.reservation_filters import LocalStorage, ReservedVolume, VolumeHealth
from scheduler.resource_fit import NodePorts, NodeResourcesFit
from scheduler.topology_spread import PodTopologySpread
from scheduler.volume_filters import NodeVolumeLimits, VolumeBinding, VolumeRestrictions, VolumeZone


@dataclass(frozen=True, slots=True)
class Hint:
    """What may help a pod that one plugin refused.

    `helps(pod, change, wanted)` is asked about objects of these `kinds`, None: about all; `wanted` is None when
    nobody looked it up. It goes by nothing of the pod but its `shape(pod, wanted)`: pods of one shape are asked about
    together.
    """

    kinds: frozenset[Kind] | None
    shape: Callable[[Pod, Wanted | None], Hashable]
    helps: Callable[[Pod, Change, Wanted | None], bool]

    def concerns(self, kind: Kind) -> bool:
        return self.kinds is None or kind in self.kinds


def may_help(pod: Pod, refused_by: frozenset[str], change: Change, wanted: Wanted | None = None) -> bool:
    """Whether a pod that these plugins refused may fit a node now. Refused by none, or by a stranger: it may."""
    if isinstance(change.old, Claim) or isinstance(change.new, Claim):
        subject = change.old if change.new is None else change.new
        if isinstance(subject, Claim) and subject.key in pod.claim_keys:
            return True
    hints = map(hint_of, refused_by or {""})
    return any(hint.concerns(change.kind) and hint.helps(pod, change, wanted) for hint in hints)


def hint_of(plugin: str) -> Hint:
    """Return what helps against a plugin; anything, if nothing is known of it."""
    return _HINTS.get(plugin, _ANYTHING)


def _volumes_shape(pod: Pod, wanted: Wanted | None) -> Hashable:
    return wanted, pod.claim_keys


def _neighbours_shape(pod: Pod, _: Wanted | None) -> Hashable:
    return pod.namespace, pod.labels, pod.constraints


def _all_alike(_: Pod, __: Wanted | None) -> Hashable:
    return ()


def _anything(_: Pod, __: Change, ___: Wanted | None) -> bool:
    return True


_ANYTHING: Final = Hint(None, _all_alike, _anything)
_STORAGE: Final[frozenset[Kind]] = frozenset({Node, Volume, StorageClass, CSINode, CSIDriver, CSIStorageCapacity})
_ATTACHING: Final[frozenset[Kind]] = frozenset({Node, CSINode, Pod, Claim, Volume, StorageClass, VolumeAttachment})
_NODE: Final[frozenset[Kind]] = frozenset({Node})
_NODE_OR_POD: Final[frozenset[Kind]] = frozenset({Node, Pod})
_VOLUME_FOUND: Final = Hint(_STORAGE, _volumes_shape, volume_found)

_HINTS: Final[Mapping[str, Hint]] = {
    NodeReady.name: Hint(_NODE, _all_alike, now_ready),
    TaintToleration.name: Hint(_NODE, lambda pod, _: pod.tolerations, now_tolerated),
    NodeAffinity.name: Hint(_NODE, lambda pod, _: (pod.node_selector, pod.node_affinity), now_selected),
    NodePorts.name: Hint(_NODE_OR_POD, lambda pod, _: host_ports(pod), port_freed),
    NodeResourcesFit.name: Hint(_NODE_OR_POD, lambda pod, _: pod.requests, more_room),
    VolumeRestrictions.name: Hint(_NODE_OR_POD, lambda pod, _: pod.claim_keys, claim_released),
    NodeVolumeLimits.name: Hint(_ATTACHING, _volumes_shape, attachable),
    ReservedVolume.name: _VOLUME_FOUND,
    VolumeHealth.name: _VOLUME_FOUND,
    VolumeBinding.name: _VOLUME_FOUND,
    LocalStorage.name: Hint(_STORAGE, _volumes_shape, local_volume_found),
    VolumeZone.name: Hint(frozenset({Node, Volume}), _volumes_shape, zone_reached),
    PodTopologySpread.name: Hint(_NODE_OR_POD, _neighbours_shape, spread_eased),
    InterPodAffinity.name: Hint(_NODE_OR_POD, _neighbours_shape, neighbours_eased),
}
"""By the plugin's name."""
