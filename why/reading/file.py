"""Facts from files: a dump of `kubectl get ... -o json`, any mix of objects and lists, offline."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import BinaryIO, Final

from why.causes.claims.unread_class import absent_classes
from why.facts.facts import Facts, Source
from why.reading.dump import read_into
from why.reading.gathering import Gathering
from why.reading.references import referred
from why.reading.resources import RESOURCES

_MAY_BE_EMPTY: Final = frozenset({Source.CLAIMS, Source.VOLUMES, Source.CLASSES, Source.CSI_DRIVERS})
"""A cluster may have none of these. It has nodes, and pods: a dump without them is a part of it."""

_OF_THE_CLUSTER: Final = frozenset({"PersistentVolume", "Node", "CSINode", "CSIDriver", "VolumeAttachment"})

_ABSENT: Final = "not in the input"


def facts_from(paths: Sequence[str], stdin: BinaryIO, now: datetime, prefix: str) -> tuple[Facts, Sequence[str]]:
    """Return the facts in these files, and lines for the user about what could not be read.

    A kind without any object counts as not read: the file does not show whether there is none. Volumes, claims and
    classes count as read if the file holds cluster-scoped objects and nothing in it refers to one, and so do CSIDrivers
    if it holds CSINodes on which none is registered. If it holds Leases, it was written when the last of them was
    renewed, or something later happened: ages are measured from that time, and not from `now`.
    """
    gathering = Gathering(prefix)
    read_into(gathering, paths, stdin)
    facts = gathering.facts(min(now, gathering.written_at or now), (), {}, everywhere=True)
    read = {source for source, resource in RESOURCES.items() if resource.kind in gathering.kinds}
    absent = _MAY_BE_EMPTY - referred(facts.snapshot, absent_classes(facts))
    if gathering.kinds & _OF_THE_CLUSTER:
        read |= absent - {Source.CSI_DRIVERS}
    if Source.CSI_NODES in read:
        # Every node has a CSINode; of CSIDrivers a cluster may have none, and that is often the cause.
        read |= absent & {Source.CSI_DRIVERS}
    skipped = {source: _ABSENT for source in RESOURCES if source not in read}
    return replace(facts, read=frozenset(read), skipped=skipped, events_end=gathering.last_event), gathering.faults
