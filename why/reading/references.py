"""What a file lacks: a kind to which its objects refer, and of which it holds none, was not dumped."""

from collections.abc import Collection

from binder.matching.matching import class_of, default_class
from kube.objects.model import Claim
from kube.store.snapshot import Snapshot
from why.facts.facts import Source


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
