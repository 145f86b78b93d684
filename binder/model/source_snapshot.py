"""A VolumeSnapshot as far as it decides about volumes that are to be filled from it."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceSnapshot:
    """`problem`: why no volume can be filled from it now, in words; empty if one can. `least`: bytes that such a volume
    must have. `node`: the only one where its content is, empty if its driver can use it anywhere.
    """

    problem: str = ""
    least: int = 0
    node: str = ""


SourceSnapshots = Mapping[str, SourceSnapshot]
"""Snapshots by `namespace/name`; one that is not in it cannot be known: no right, or the cluster has no snapshots."""
