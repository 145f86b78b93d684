"""Facts from files: a dump of `kubectl get ... -o json`, any mix of objects and lists, offline."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import BinaryIO, Final

from why.facts.facts import Facts, Source
from why.reading.dump import read_into
from why.reading.gathering import Gathering
from why.reading.resources import RESOURCES

_DUMPED_TOGETHER: Final = frozenset({Source.CLAIMS, Source.VOLUMES, Source.CLASSES, Source.PODS, Source.ALL_PODS})
"""`kubectl get pv,pvc,sc,node,pod -A`: a dump with cluster-scoped kinds has these too, even if one has no objects.

Nodes are not among them: a cluster has some.
"""

_OF_THE_CLUSTER: Final = frozenset({"PersistentVolume", "Node", "CSINode", "CSIDriver", "VolumeAttachment"})

_ABSENT: Final = "not in the input"


def facts_from(paths: Sequence[str], stdin: BinaryIO, now: datetime, prefix: str) -> tuple[Facts, Sequence[str]]:
    """Return the facts in these files, and lines for the user about what could not be read.

    A kind without any object counts as not read: the file does not show whether there is none. If the file holds
    cluster-scoped objects, the kinds that are dumped with them count as read, and CSIDrivers if it holds CSINodes. If
    it holds Leases, it was written when the last of them was renewed, or something later happened: ages are measured
    from that time, and not from `now`.
    """
    gathering = Gathering(prefix)
    read_into(gathering, paths, stdin)
    read = {source for source, resource in RESOURCES.items() if resource.kind in gathering.kinds}
    if gathering.kinds & _OF_THE_CLUSTER:
        read |= _DUMPED_TOGETHER
    if Source.CSI_NODES in read:
        # Every node has a CSINode; of CSIDrivers a cluster may have none, and that is often the cause.
        read.add(Source.CSI_DRIVERS)
    skipped = {source: _ABSENT for source in RESOURCES if source not in read}
    facts = gathering.facts(min(now, gathering.written_at or now), read, skipped, everywhere=True)
    return replace(facts, events_end=gathering.last_event), gathering.faults
