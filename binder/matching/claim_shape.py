"""What of a claim matters to a match: claims of one shape are interchangeable as far as free volumes go.

Whatever is remembered about claims is kept by their shape, so that it is said here alone what the rules of
`binder.matching.matching` read. A shape hashes once.
"""

from msgspec import Struct

from binder.matching.matching import class_of
from kube.objects.model import Claim, LabelSelector, Volume


class VolumePool(Struct, frozen=True, gc=False, cache_hash=True):
    """What a claim and its volume must have in common to the letter."""

    storage_class: str
    volume_mode: str
    attributes_class: str


class ClaimShape(Struct, frozen=True, gc=False, cache_hash=True):
    """All of a claim that decides which free volumes it may have.

    `pin` is the only volume that may be planned for it, empty when any may.
    """

    pool: VolumePool
    access_modes: tuple[str, ...]
    selector: LabelSelector | None
    request: int
    pin: str = ""


def pool_of(subject: Claim | Volume) -> VolumePool:
    """Return the pool that a volume is in, or that a claim takes its volume from."""
    return VolumePool(class_of(subject), subject.volume_mode, subject.attributes_class)


def shape_of(claim: Claim, pin: str = "") -> ClaimShape:
    """Return the claim's shape."""
    return ClaimShape(pool_of(claim), claim.access_modes, claim.selector, claim.request, pin)


def family_of(claim: Claim, pin: str = "") -> ClaimShape:
    """Return a shape that is equal for claims that differ in nothing but size."""
    return ClaimShape(pool_of(claim), claim.access_modes, claim.selector, 0, pin)
