"""Facts from a dump: files, directories and archives with any mix of objects and lists, offline.

A dump is often a part of one. What it lacks must never become a cause: a kind to which its objects refer, and of which
it has none, was not dumped.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import BinaryIO, Final, TypeVar

from binder.matching.matching import class_of, default_class
from kube.decoding.decode_parts import OWN_PREFIX
from kube.objects.model import Claim, Record
from kube.store.snapshot import Snapshot
from why.causes.claims.unread_class import absent_classes
from why.errors import WhyError
from why.facts.facts import ABSENT, Facts, Source
from why.reading.dump_header import DumpHeader, joined
from why.reading.files import parts
from why.reading.gathering import Gathering
from why.reading.objects import EXPECTED, ObjectSink, pass_objects
from why.reading.resources import RESOURCES

_MAY_BE_EMPTY: Final = frozenset({Source.CLAIMS, Source.VOLUMES, Source.CLASSES, Source.CSI_DRIVERS})
"""A cluster may have none of these. It has nodes, and pods: a dump without them is a part of it."""

_OF_THE_CLUSTER: Final = frozenset({"PersistentVolume", "Node", "CSINode", "CSIDriver", "VolumeAttachment"})

R = TypeVar("R", bound=Record)

_DAMAGED: Final = "damaged in the input"


@dataclass(frozen=True, slots=True)
class Dump:
    """What a dump holds. `records` are the objects of `facts`, by kind and then by key, in the order of the input.

    `faults` and `duplicates` are lines for the user, `ignored` counts the objects of kinds that are not needed.
    """

    facts: Facts
    records: Mapping[str, Mapping[str, Record]]
    faults: Sequence[str] = ()
    duplicates: Sequence[str] = ()
    ignored: Mapping[str, int] = field(default_factory=dict)

    def of(self, record: type[R]) -> Mapping[str, R]:
        """Return the objects of one kind, in the order of the input."""
        kinds = self.records.values()
        return {key: each for kind in kinds for key, each in kind.items() if isinstance(each, record)}


def read_dump(paths: Sequence[str], stdin: BinaryIO, now: datetime, prefix: str = OWN_PREFIX) -> Dump:
    """Read all objects of these files, directories and archives; `-` is the standard input.

    A kind without any object counts as not read: the dump does not show whether there is none. Volumes, claims and
    classes count as read if it holds cluster-scoped objects and nothing in it refers to one, and so do CSIDrivers if it
    holds CSINodes on which none is registered. If it holds Leases, it was written when the last of them was renewed, or
    something later happened: ages are measured from that time, and not from `now`.

    Raises WhyError for a file that cannot be read, or in which nothing is JSON or YAML, and if all are empty.
    """
    gathering = Gathering(prefix)
    read_into(gathering, paths, stdin)
    facts = facts_of_dump(gathering, now)
    return Dump(facts, gathering.records, gathering.faults, gathering.duplicates, gathering.ignored)


def read_into(sink: ObjectSink, paths: Sequence[str], stdin: BinaryIO) -> None:
    """Pass all objects of these files to the sink. Raises WhyError as `read_dump` does."""
    count = 0
    for path in paths:
        for part in parts(path, stdin):
            try:
                count += pass_objects(part.contents, part.name, sink)
            except WhyError as error:
                if part.named:
                    raise
                sink.faults.append(str(error))
    if not count:
        names = " and ".join("standard input" if path == "-" else path for path in paths)
        raise WhyError(f"nothing is in {names}. {EXPECTED}")


def facts_of_dump(gathering: Gathering, now: datetime, complete: Collection[Source] = ()) -> Facts:
    """Return what was gathered as the facts of a dump, which may lack anything but what is `complete`.

    What `why dump` wrote says itself what it has.
    """
    if gathering.headers:
        return _without_damaged(_facts_by_header(gathering, joined(gathering.headers), now), gathering)
    facts = gathering.facts(min(now, gathering.written_at or now), (), {}, everywhere=True)
    read = {source for source, resource in RESOURCES.items() if resource.kind in gathering.kinds} | set(complete)
    absent = _MAY_BE_EMPTY - referred(facts.snapshot, absent_classes(facts))
    if gathering.kinds & _OF_THE_CLUSTER:
        read |= absent - {Source.CSI_DRIVERS}
    if Source.CSI_NODES in read:
        # Every node has a CSINode; of CSIDrivers a cluster may have none, and that is often the cause.
        read |= absent & {Source.CSI_DRIVERS}
    skipped = {source: ABSENT for source in RESOURCES if source not in read}
    facts = replace(facts, read=frozenset(read), skipped=skipped, events_end=gathering.last_event)
    return _without_damaged(facts, gathering)


def _without_damaged(facts: Facts, gathering: Gathering) -> Facts:
    """Return the facts with each kind as not read of which an object could not be read: it would count as missing."""
    damaged = {source for source, resource in RESOURCES.items() if resource.kind in gathering.damaged}
    skipped = {source: _DAMAGED for source in RESOURCES if source in damaged}
    return replace(facts, read=facts.read - damaged, skipped={**facts.skipped, **skipped})


def _facts_by_header(gathering: Gathering, header: DumpHeader, now: datetime) -> Facts:
    because = {each.resource: each.because for each in header.skipped}
    read = frozenset(source for source in RESOURCES if source in header.read)
    skipped = {source: because.get(source, ABSENT) for source in RESOURCES if source not in read}
    at = min(now, header.at)
    namespace = header.namespace
    facts = gathering.facts(at, read, skipped, everywhere=not namespace, namespace=namespace)
    return replace(facts, events_end=at)


def referred(snapshot: Snapshot, absent_classes: Collection[str]) -> frozenset[Source]:
    """Return the kinds to which some object refers, as to one that exists.

    An unbound claim refers to its class, or else to the default one, unless that is among `absent_classes`, which are
    known not to exist; and to volumes, unless its class provisions one.
    """
    claims, volumes = snapshot.claims.values(), snapshot.volumes.values()
    unbound = [claim for claim in claims if not claim.volume_name]
    names = {class_of(claim) for claim in unbound if claim.storage_class is not None}
    refer = {
        Source.CLAIMS: any(pod.claims for pod in snapshot.pods.values())
        or any(volume.phase == "Bound" and volume.claim is not None for volume in volumes),
        Source.VOLUMES: any(claim.volume_name or not _provisions(snapshot, claim) for claim in claims)
        or any(attachment.volume_name for attachment in snapshot.attachments.values()),
        Source.CLASSES: bool(names - {"", *absent_classes}) or any(claim.storage_class is None for claim in unbound),
        Source.CSI_DRIVERS: any(node.drivers for node in snapshot.csi_nodes.values()),
    }
    return frozenset(source for source, is_referred in refer.items() if is_referred)


def _provisions(snapshot: Snapshot, claim: Claim) -> bool:
    """Whether the claim's class may provision a volume. One that was not read may."""
    default = default_class(snapshot.classes.values()) if claim.storage_class is None else None
    named = snapshot.classes.get(class_of(claim)) if default is None else default
    return named.provisions if named is not None else bool(class_of(claim))
