"""Disks that a pod names in its own spec (deprecated in-tree kinds), as far as pods may not share them as they like.

Source: isVolumeConflict in pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go.
"""

from collections.abc import Iterable
from typing import Final

from kube.decoding import wire_compute
from kube.decoding.interning import shared, text, texts
from kube.objects.constraints import AWS, GCE, ISCSI, RBD, InlineDisk

_DEFAULT_POOL: Final = "rbd"


def inline_disks(volumes: Iterable[wire_compute.PodVolume]) -> tuple[InlineDisk, ...]:
    """Return the disks among a pod's volumes, in their order; claims and all other kinds are left out."""
    return tuple(shared(disk) for volume in volumes if (disk := _disk(volume)) is not None)


def is_inline_disk(volume: wire_compute.PodVolume) -> bool:
    """Whether the volume is of a kind that pods may not share as they like."""
    return _disk(volume) is not None


def _disk(volume: wire_compute.PodVolume) -> InlineDisk | None:
    if volume.gce_persistent_disk is not None:
        gce = volume.gce_persistent_disk
        return InlineDisk(GCE, (text(gce.pd_name),), read_only=bool(gce.read_only))
    if volume.aws_elastic_block_store is not None:
        return InlineDisk(AWS, (text(volume.aws_elastic_block_store.volume_id),))
    if volume.iscsi is not None:
        return InlineDisk(ISCSI, (text(volume.iscsi.iqn),), read_only=bool(volume.iscsi.read_only))
    if volume.rbd is not None:
        rbd = volume.rbd
        identity = (text(rbd.pool) or _DEFAULT_POOL, text(rbd.image))
        return InlineDisk(RBD, identity, texts(rbd.monitors), bool(rbd.read_only))
    return None
