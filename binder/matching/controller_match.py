"""Which volume the PV controller binds to a claim: no node is known, and the fewest access modes win.

Source: `syncUnboundClaim`, `syncBoundClaim` and `assignDefaultStorageClass` in
pkg/controller/volume/persistentvolume/pv_controller.go, `findByClaim` in index.go beside it. Each claim is matched as
if it were the only one: no rule determines which of two claims the controller processes first.
"""

from collections.abc import Iterable, Mapping
from functools import partial

from msgspec.structs import replace

from binder.matching.match import Match, for_every_volume
from binder.matching.matching import (
    IMMEDIATE,
    binding_mode,
    class_of,
    controller_rejection,
    default_class,
    indexed_modes,
    is_mine,
    provisions,
    requested_rejection,
    selector_problem,
    selector_rejection,
)
from binder.matching.rejection import Reason
from kube.objects.model import (
    WAIT_FOR_FIRST_CONSUMER,
    Claim,
    StorageClass,
    Volume,
)


def match_as_controller(claim: Claim, classes: Mapping[str, StorageClass], volumes: Mapping[str, Volume]) -> Match:
    """Return what the PV controller does with the claim.

    A claim without a class field is first tried against volumes without class. Only if none fits does the controller
    write the default class into it and start over, and then the result is the one for that class.
    """
    if claim.bind_completed:
        return match_bound(claim, classes, volumes)
    if claim.volume_name:
        return match_requested(claim, classes, volumes)
    match = _match_by_rules(claim, classes, volumes)
    default = default_class(classes.values()) if claim.storage_class is None else None
    if match.volume is None and default is not None:
        return _match_by_rules(replace(claim, storage_class=default.name), classes, volumes)
    return match


def committed_volume(claim: Claim, classes: Mapping[str, StorageClass], named: Iterable[Volume]) -> Volume | None:
    """Return which of the volumes whose claimRef names the claim is bound to it; None if none of them will be."""
    mine = {volume.name: volume for volume in named if is_mine(claim, volume)}
    return _match_by_rules(claim, classes, mine).volume if mine else None


def is_certain_by_name(claim: Claim, volume: Volume, classes: Mapping[str, StorageClass]) -> bool:
    """Whether the claim, created while the volume names it, gets that volume and no free one.

    For a claim that it binds at once the controller tries volumes with exactly the claim's access modes before those
    with more modes, whether or not these name the claim (allPossibleMatchingAccessModes and findByClaim in index.go).
    """
    return binding_mode(claim, classes) != IMMEDIATE or set(claim.access_modes) == set(volume.access_modes)


def match_bound(claim: Claim, classes: Mapping[str, StorageClass], volumes: Mapping[str, Volume]) -> Match:
    """Return the volume of a claim whose bind was completed: none, if the volume is gone or belongs to another
    claim.
    """
    volume = volumes.get(claim.volume_name)
    if volume is not None and volume.claim is not None and volume.claim.uid != claim.uid:
        volume = None
    lost = Reason.CLAIM_LOST if volume is None else None
    return Match(claim, binding_mode(claim, classes), volume, lost, for_every_volume(None))


def match_requested(claim: Claim, classes: Mapping[str, StorageClass], volumes: Mapping[str, Volume]) -> Match:
    """Return whether the volume that the claim's spec.volumeName requests is bound to it."""
    requested = volumes.get(claim.volume_name)
    rejection = Reason.REQUESTED_VOLUME_MISSING if requested is None else requested_rejection(claim, requested)
    chosen = requested if rejection is None else None
    reason = rejection if rejection in (None, Reason.REQUESTED_VOLUME_MISSING) else Reason.REQUESTED_VOLUME_MISMATCH
    return Match(
        claim, binding_mode(claim, classes), chosen, reason, partial(_not_requested, claim.volume_name, rejection)
    )


def no_volume_reason(claim: Claim, classes: Mapping[str, StorageClass]) -> Reason:
    """Return the consequence of no volume fitting: one is provisioned, or nothing happens."""
    if (unusable := selector_rejection(claim)) is not None:
        return unusable
    if class_of(claim) and class_of(claim) not in classes:
        return Reason.CLASS_NOT_FOUND
    return Reason.DYNAMIC_CLASS if provisions(claim, classes) else Reason.NO_VOLUME_FITS


def _match_by_rules(claim: Claim, classes: Mapping[str, StorageClass], volumes: Mapping[str, Volume]) -> Match:
    mode = binding_mode(claim, classes)
    if mode is None:
        return Match(claim, None, None, Reason.BINDING_MODE_MISSING, for_every_volume(Reason.BINDING_MODE_MISSING))
    delayed = mode == WAIT_FOR_FIRST_CONSUMER
    fitting = (volume for volume in volumes.values() if controller_rejection(claim, volume, delayed=delayed) is None)
    chosen = min(fitting, key=_preference, default=None)
    waits = delayed and selector_problem(claim) is None
    reason = None
    if chosen is None:
        reason = Reason.WAIT_FOR_FIRST_CONSUMER if waits else no_volume_reason(claim, classes)
    known_mode = None if reason is Reason.CLASS_NOT_FOUND else mode
    return Match(claim, known_mode, chosen, reason, partial(_not_chosen, claim, delayed, chosen))


def _preference(volume: Volume) -> tuple[int, bool, int, str]:
    """Order volumes that fit: fewest access modes, then one that names the claim, then the smallest, then by name."""
    free = volume.claim is None
    return (len(indexed_modes(volume.access_modes)), free, volume.capacity if free else 0, volume.name)


def _not_chosen(claim: Claim, delayed: bool, chosen: Volume | None, volume: Volume) -> Reason | None:
    reason = controller_rejection(claim, volume, delayed=delayed)
    if reason is not None or chosen is None:
        return reason
    modes, _, capacity, _ = _preference(volume)
    chosen_modes, chosen_free, chosen_capacity, _ = _preference(chosen)
    if modes > chosen_modes:
        return Reason.MORE_ACCESS_MODES_THAN_CHOSEN
    if not chosen_free:
        return Reason.OTHER_VOLUME_PREBOUND
    return Reason.LARGER_THAN_CHOSEN if capacity > chosen_capacity else Reason.TIED_WITH_CHOSEN


def _not_requested(requested: str, rejection: Reason | None, volume: Volume) -> Reason | None:
    return rejection if volume.name == requested else Reason.OTHER_VOLUME_REQUESTED
