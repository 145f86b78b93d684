"""What two pods on one node cannot both use: a host port, and a disk that pods name in their own spec.

A port can be used once per node, protocol and address; 0.0.0.0 conflicts with every address.

Sources: plugins/nodeports/node_ports.go and HostPortInfo in pkg/scheduler/framework; isVolumeConflict in
plugins/volumerestrictions/volume_restrictions.go.
"""

from collections.abc import Iterable
from typing import Final

from kube.objects.constraints import HostPort, InlineDisk
from kube.objects.model import Pod

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
