"""In which zone a replica's volumes are: each prefix of a set's ordinals is spread as evenly as its nodes allow."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from binder.matching.node_fit import reject_node
from kube.objects.labels import NodeSelector
from kube.objects.model import Node, Pod, Volume
from kube.objects.node_pool import POOL_LABEL
from kube.objects.stateful_set import StatefulSet
from kube.rules.selectors import node_matches
from kube.rules.topology import is_narrower_than_zone, volume_zone, zone_of
from kube.store.snapshot import Snapshot

AUTOSCALED: Final = (POOL_LABEL, "karpenter.sh/provisioner-name")
"""Labels of nodes that Karpenter may remove. Those of other autoscalers look like any other node."""


class Zones:
    """The zones of a cluster's nodes and volumes. "" stands for nodes without a zone label."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = tuple(nodes.values())
        self._known: dict[NodeSelector, tuple[Node, ...]] = {}

    def of_pod(self, pod: Pod) -> tuple[str, ...]:
        """Return the zones with a node that fits the pod, whatever room that has."""
        return tuple(sorted({zone_of(node.labels) for node in self._nodes if reject_node(pod, node) is None}))

    def of_volume(self, volume: Volume) -> str:
        """Return the volume's zone, or that of the nodes from which it is accessible; empty if there are several."""
        zones = {zone_of(node.labels) for node in self._reaching(volume)}
        return volume_zone(volume) or (zones.pop() if len(zones) == 1 else "")

    def reaches(self, volume: Volume, zone: str) -> bool:
        """Whether the volume is accessible from a node of the zone."""
        if volume.node_affinity is None or volume_zone(volume) == zone:
            return True
        return any(zone_of(node.labels) == zone for node in self._reaching(volume))

    def may_vanish(self, volume: Volume) -> bool:
        """Whether the volume is on nodes that an autoscaler may remove, so that holding it would hold nothing."""
        if not is_narrower_than_zone(volume.node_affinity):
            return False
        return all(any(key in AUTOSCALED for key, _ in node.labels) for node in self._reaching(volume))

    def _reaching(self, volume: Volume) -> tuple[Node, ...]:
        affinity = volume.node_affinity
        if affinity is None:
            return self._nodes
        if affinity not in self._known:
            self._known[affinity] = tuple(node for node in self._nodes if node_matches(affinity, dict(node.labels)))
        return self._known[affinity]


def zone_of_replica(owner: StatefulSet, ordinal: int, snapshot: Snapshot, zones: Zones) -> str:
    """Return where a replica is, or will be because of its volumes; empty if that is open."""
    pod = snapshot.pods.get(f"{owner.namespace}/{owner.name}-{ordinal}")
    node = snapshot.nodes.get(pod.node_name) if pod is not None else None
    if node is not None:
        return zone_of(node.labels)
    for coming in owner.claims_of(ordinal):
        claim = snapshot.claims.get(coming.key)
        names = snapshot.volumes_by_claim.get(coming.key, ())
        for name in (claim.volume_name, *names) if claim is not None else names:
            volume = snapshot.volumes.get(name)
            if volume is not None and (zone := zones.of_volume(volume)):
                return zone
    return ""


def most_wanted_first(zones: Iterable[str], before: Iterable[str]) -> list[str]:
    """Return the zones, those with the fewest of the replicas before first, then by name."""
    counted = Counter(before)
    return sorted(zones, key=lambda zone: (counted[zone], zone))
