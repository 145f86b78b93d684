"""Why two pods cannot be on one node: a host port, a disk that pods name in their own spec, or anti-affinity by node.

A port can be used once per node, protocol and address; 0.0.0.0 conflicts with every address.

Sources: plugins/nodeports/node_ports.go and HostPortInfo in pkg/scheduler/framework; isVolumeConflict in
plugins/volumerestrictions/volume_restrictions.go; plugins/interpodaffinity/filtering.go.
"""

from collections.abc import Iterable
from typing import Final

from kube.objects.constraints import HostPort, InlineDisk
from kube.objects.model import Pod
from kube.persistent_map import Map
from kube.pod_topology.placed_pods import means
from kube.pod_topology.pod_groups import group_of
from kube.rules.topology import HOSTNAME_LABEL

_ALL_ADDRESSES: Final = "0.0.0.0"


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """Return the host ports that the pod uses."""
    return pod.constraints.ports if pod.constraints is not None else ()


def conflicting_port(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> HostPort | None:
    """Return the first port in use that conflicts with a wanted one, or None."""
    for used in taken:
        for port in wanted:
            same = (port.port, port.protocol) == (used.port, used.protocol)
            if same and (port.ip == used.ip or _ALL_ADDRESSES in (port.ip, used.ip)):
                return used
    return None


def disks_of(pod: Pod) -> tuple[InlineDisk, ...]:
    """Return the disks that the pod names in its spec."""
    return pod.constraints.disks if pod.constraints is not None else ()


def disk_in_use(wanted: Iterable[InlineDisk], there: Iterable[Pod]) -> tuple[InlineDisk, Pod] | None:
    """Return a wanted disk that a pod on the node uses, and that pod; None if there is no conflict."""
    pods = [(pod, disks) for pod in there if (disks := disks_of(pod))]
    for disk in wanted:
        for pod, disks in pods:
            if any(map(disk.excludes, disks)):
                return disk, pod
    return None


def keep_apart(pod: Pod, other: Pod) -> bool:
    """Whether required anti-affinity by hostname of one of them selects the other."""
    return _excludes(pod, other) or _excludes(other, pod)


def _excludes(pod: Pod, other: Pod) -> bool:
    terms = pod.constraints.anti_affinity if pod.constraints is not None else ()
    by_node = [term for term in terms if term.topology_key == HOSTNAME_LABEL]
    return bool(by_node) and any(means(term, pod.namespace, group_of(other), Map()) for term in by_node)
