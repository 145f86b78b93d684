"""The rules by which Kubernetes gives a volume to a claim: one claim, one volume, each rule in upstream's order.

Source: `FindMatchingVolume`, `IsVolumeBoundToClaim`, `IsDelayBindingMode` in k8s.io/component-helpers/storage/volume,
and pkg/controller/volume/persistentvolume/index.go. `binder.matching.controller_match` and
`binder.matching.scheduler_match` combine the rules as the two callers do. Where upstream leaves a tie to the order of a
Go map, the first name wins here.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Final

from binder.matching.rejection import Reason, Rejection
from kube.objects.memory import remembered
from kube.objects.model import WAIT_FOR_FIRST_CONSUMER, Claim, StorageClass, Volume
from kube.rules.quantity import whole_units
from kube.rules.selectors import MAX_SELECTOR_BYTES, matches_labels, node_matches, problem_of

IMMEDIATE: Final = "Immediate"

_INDEXED_MODES: Final = frozenset({"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"})
"""The only access modes in the controller's index. It ignores any other."""


def class_of(subject: Claim | Volume) -> str:
    """Return the class as matching sees it: no class and the empty class are the same."""
    return subject.storage_class or ""


def default_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """Return the default class: of several the newest, then the first by name (pkg/volume/util/storageclass.go)."""
    by_name = sorted(
        (storage_class for storage_class in classes if storage_class.is_default),
        key=lambda storage_class: storage_class.name,
    )
    return max(
        by_name,
        key=lambda storage_class: storage_class.created.timestamp() if storage_class.created else float("-inf"),
        default=None,
    )


def binding_mode(claim: Claim, classes: Mapping[str, StorageClass]) -> str | None:
    """Return when the claim is bound. Without a class object it is Immediate.

    None means that the class object has no binding mode, which Kubernetes treats as an error and retries.
    """
    storage_class = classes.get(class_of(claim)) if class_of(claim) else None
    if storage_class is None:
        return IMMEDIATE
    if storage_class.binding_mode is None:
        return None
    return WAIT_FOR_FIRST_CONSUMER if storage_class.binding_mode == WAIT_FOR_FIRST_CONSUMER else IMMEDIATE


def provisioner_of(claim: Claim, classes: Mapping[str, StorageClass]) -> str:
    """Return the provisioner of the claim's class; empty if there is no such class."""
    storage_class = classes.get(class_of(claim))
    return storage_class.provisioner if storage_class is not None else ""


def provisions(claim: Claim, classes: Mapping[str, StorageClass]) -> bool:
    """Whether a volume would be provisioned for the claim if none fits."""
    storage_class = classes.get(class_of(claim))
    return storage_class is not None and storage_class.provisions


def is_mine(claim: Claim, volume: Volume) -> bool:
    """Whether the volume's claimRef names this claim. A reference without uid names any claim of that name."""
    reference = volume.claim
    return (
        reference is not None
        and reference.name == claim.name
        and reference.namespace == claim.namespace
        and reference.uid in ("", claim.uid)
    )


@remembered(64 * 2**10)
def indexed_modes(access_modes: tuple[str, ...]) -> frozenset[str]:
    """Return the set of modes under which the controller indexes a volume; fewer of them are tried first."""
    return _INDEXED_MODES.intersection(access_modes)


def scheduler_rejection(
    claim: Claim,
    volume: Volume,
    node_labels: Mapping[str, str] | None = None,
    taken: Container[str] = (),
) -> Reason | None:
    """Return the first rule that the volume fails for a node, None if it passes all.

    Without `node_labels` node affinity is not evaluated. `taken` names the volumes chosen for other claims of the pod.
    """
    if class_of(claim) != class_of(volume):
        return Reason.CLASS_MISMATCH
    if volume.name in taken:
        return Reason.TAKEN_BY_OTHER_CLAIM_OF_POD
    if unfit := _unfit(claim, volume):
        return unfit
    reachable = node_labels is None or node_matches(volume.node_affinity, node_labels)
    if volume.claim is not None:
        return None if reachable else Reason.NODE_AFFINITY_MISMATCH
    if volume.phase != "Available":
        return Reason.NOT_AVAILABLE
    if not selects(claim, volume):
        return Reason.SELECTOR_MISMATCH
    if not reachable:
        return Reason.NODE_AFFINITY_MISMATCH
    if not has_access_modes(claim, volume):
        return Reason.ACCESS_MODES_MISMATCH
    return None


def controller_rejection(claim: Claim, volume: Volume, *, delayed: bool) -> Reason | None:
    """Return the first rule that the volume fails without a node, None if it passes all.

    `delayed` is whether the class waits for a pod: Available volumes are then left to the scheduler.
    """
    if not indexed_modes(volume.access_modes).issuperset(claim.access_modes):
        return Reason.ACCESS_MODES_MISMATCH
    if unfit := _unfit(claim, volume):
        return unfit
    if volume.claim is not None:
        return None
    if delayed:
        return Reason.DELAYED_BINDING
    if volume.phase != "Available":
        return Reason.NOT_AVAILABLE
    if not selects(claim, volume):
        return Reason.SELECTOR_MISMATCH
    if class_of(claim) != class_of(volume):
        return Reason.CLASS_MISMATCH
    return None


def requested_rejection(claim: Claim, volume: Volume) -> Reason | None:
    """Return why a volume that the claim requests by name cannot be bound to it, None if it can.

    A volume that already belongs to this claim is bound without any check. Phase, selector and affinity are never
    checked here (`checkVolumeSatisfyClaim` in pv_controller.go). Sizes are whole bytes, rounded up.
    """
    if volume.claim is not None:
        return None if is_mine(claim, volume) else Reason.CLAIMED_BY_OTHER
    if volume.deleting:
        return Reason.VOLUME_DELETING
    if whole_units(volume.capacity) < whole_units(claim.request):
        return Reason.TOO_SMALL
    if class_of(claim) != class_of(volume):
        return Reason.CLASS_MISMATCH
    if claim.attributes_class != volume.attributes_class:
        return Reason.ATTRIBUTES_CLASS_MISMATCH
    if claim.volume_mode != volume.volume_mode:
        return Reason.VOLUME_MODE_MISMATCH
    if not has_access_modes(claim, volume):
        return Reason.ACCESS_MODES_MISMATCH
    return None


def has_access_modes(claim: Claim, volume: Volume) -> bool:
    """Whether the volume lists every mode that the claim requests. Modes are names: none implies another."""
    return all(mode in volume.access_modes for mode in claim.access_modes)


def selects(claim: Claim, volume: Volume) -> bool:
    """Whether the claim's selector, if it has one, matches the volume's labels."""
    return claim.selector is None or matches_labels(claim.selector, dict(volume.labels))


def _unfit(claim: Claim, volume: Volume) -> Reason | None:
    """Return the first failure among the rules that a volume already naming the claim has to pass too."""
    if volume.claim is not None and not is_mine(claim, volume):
        return Reason.CLAIMED_BY_OTHER
    if volume.capacity < claim.request:
        return Reason.TOO_SMALL
    if volume.volume_mode != claim.volume_mode:
        return Reason.VOLUME_MODE_MISMATCH
    if volume.attributes_class != claim.attributes_class:
        return Reason.ATTRIBUTES_CLASS_MISMATCH
    if volume.deleting:
        return Reason.VOLUME_DELETING
    return selector_rejection(claim)


def selector_problem(claim: Claim) -> str | None:
    """Return why the claim's selector cannot be parsed. Such a claim gets no volume, not even one that names it."""
    return None if claim.selector is None else problem_of(claim.selector)


def selector_rejection(claim: Claim) -> Reason | None:
    """Return why the claim gets no volume whatever their labels are: its selector cannot be parsed, or was too large to
    be read.
    """
    if selector_too_large(claim) is not None:
        return Reason.SELECTOR_TOO_LARGE
    return None if selector_problem(claim) is None else Reason.SELECTOR_MISMATCH


def selector_too_large(claim: Claim) -> Rejection | None:
    """Return the rejection of a claim whose selector was too large to be read, None for any other.

    Kubernetes would evaluate it. Which volume it takes is not known here, so no pod with such a claim is served.
    """
    size = claim.selector.dropped_bytes if claim.selector is not None else 0
    wanted = f"a selector of at most {MAX_SELECTOR_BYTES:,} bytes"
    return Rejection(Reason.SELECTOR_TOO_LARGE, claim.key, wanted, f"{size:,} bytes") if size else None
