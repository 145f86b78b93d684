"""What of a claim matters to a match: claims of one shape are interchangeable as far as Available volumes are
concerned.

Caches about claims use their shape, so this is the only place that lists what the rules of `binder.matching.matching`
read. A shape computes its hash once.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from binder.matching.matching import class_of
from kube.objects.labels import LabelSelector, NodeSelector, Pairs
from kube.objects.model import Claim, Toleration, Volume


class VolumePool(Struct, frozen=True, gc=False, cache_hash=True):
    """What a claim and its volume must have in common exactly."""

    storage_class: str
    volume_mode: str
    attributes_class: str


class UserNeeds(Struct, frozen=True, gc=False, cache_hash=True):
    """What another pod that uses a claim asks of its node. `affinities`: of the volumes that it has already."""

    node_selector: Pairs
    node_affinity: NodeSelector | None
    tolerations: tuple[Toleration, ...]
    affinities: tuple[NodeSelector | None, ...] = ()


class ClaimShape(Struct, frozen=True, gc=False, cache_hash=True):
    """Everything of a claim that determines which Available volumes it may have.

    `pin` is the only volume that may be planned for it, empty if any may. `users`: the volume must leave each of these
    other pods a node.
    """

    pool: VolumePool
    access_modes: tuple[str, ...]
    selector: LabelSelector | None
    request: int
    pin: str = ""
    users: tuple[UserNeeds, ...] = ()


def pool_of(subject: Claim | Volume) -> VolumePool:
    """Return the pool that a volume is in, or from which a claim takes its volume."""
    return VolumePool(class_of(subject), subject.volume_mode, subject.attributes_class)


def shape_of(claim: Claim, pin: str = "", users: tuple[UserNeeds, ...] = ()) -> ClaimShape:
    return ClaimShape(pool_of(claim), claim.access_modes, claim.selector, claim.request, pin, users)


def family_of(claim: Claim, pin: str = "") -> ClaimShape:
    """Return a shape that is equal for claims that differ only in size."""
    return ClaimShape(pool_of(claim), claim.access_modes, claim.selector, 0, pin)


def by_family(claims: Iterable[Claim]) -> Mapping[ClaimShape, Sequence[Claim]]:
    """Return the claims grouped so that those of a group differ only in size: what fits one fits each smaller one."""
    families: dict[ClaimShape, list[Claim]] = {}
    for claim in claims:
        families.setdefault(family_of(claim), []).append(claim)
    return families
