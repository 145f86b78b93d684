"""Disks that pods name in their own spec: pods that may not share a disk are not placed on the same node.

Source: isVolumeConflict in plugins/volumerestrictions/volume_restrictions.go.
"""

from collections.abc import Iterable

from kube.objects.constraints import InlineDisk
from kube.objects.model import Pod


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
