"""The state of a claim that a pod names: one table, in the order of kube-scheduler's checks, with one text each.

Source: podHasPVCs and GetPodVolumeClaims in pkg/scheduler/framework/plugins/volumebinding (volume_binding.go,
binder.go); VolumeIsForPod in k8s.io/component-helpers storage/ephemeral/ephemeral.go.
"""

from collections.abc import Mapping
from enum import Enum, auto

from binder.matching.matching import binding_mode, class_of
from binder.matching.rejection import Reason, Rejection
from kube.objects.model import SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER, Claim, StorageClass, value_of


class ClaimState(Enum):
    """What is true of a claim, the first that applies.

    With the first four no pod can use it. From MODE_MISSING to IMMEDIATE only the PV controller can bind it; after
    those its volume is chosen together with the pod's node.
    """

    MISSING = auto()
    LOST = auto()
    DELETING = auto()
    NOT_OWNED = auto()
    """It was not created for this pod's ephemeral volume."""
    BOUND = auto()
    """It names its volume, and a binder has confirmed that."""
    MODE_MISSING = auto()
    """Its class has no binding mode, which is an error that is retried."""
    NAMED = auto()
    """It requests one volume by name, and nothing has confirmed it yet."""
    CLASS_MISSING = auto()
    IMMEDIATE = auto()
    HALF_BOUND = auto()
    """A bind is confirmed, and its volume's name was removed since."""
    SELECTED = auto()
    """A node is selected for it: its volume is being provisioned."""
    OPEN = auto()


def claim_state(claim: Claim | None, classes: Mapping[str, StorageClass], owner: str = "") -> ClaimState:
    """Return the state. `owner` is the uid of the pod that has to own the claim, empty for any but ephemeral ones."""
    unusable = unusable_state(claim, owner)
    if claim is None or unusable is not None:
        return unusable or ClaimState.MISSING
    if claim.fully_bound:
        return ClaimState.BOUND
    mode = binding_mode(claim, classes)
    if mode is None:
        return ClaimState.MODE_MISSING
    if claim.volume_name:
        return ClaimState.NAMED
    if mode != WAIT_FOR_FIRST_CONSUMER:
        name = class_of(claim)
        return ClaimState.CLASS_MISSING if name and name not in classes else ClaimState.IMMEDIATE
    if claim.bind_completed:
        return ClaimState.HALF_BOUND
    return ClaimState.OPEN if value_of(claim.annotations, SELECTED_NODE) is None else ClaimState.SELECTED


def unusable_state(claim: Claim | None, owner: str = "") -> ClaimState | None:
    """Return why no pod can use the claim, or the pod with this uid cannot; None if it can. Needs no class."""
    if claim is None:
        return ClaimState.MISSING
    if claim.phase == "Lost":
        return ClaimState.LOST
    if claim.deleting:
        return ClaimState.DELETING
    return ClaimState.NOT_OWNED if owner and claim.owner != owner else None


def state_rejection(key: str, claim: Claim | None, state: ClaimState) -> Rejection | None:
    """Return why a scheduler evaluates no node for a pod with the claim of this key; None if it does."""
    if claim is None:
        return Rejection(Reason.CLAIM_NOT_FOUND, key, "an existing claim", "none")
    name = class_of(claim)
    unbound = f"unbound, class {name}" if name else "unbound, without a class"
    match state:
        case ClaimState.LOST:
            volume = claim.volume_name or "(none)"
            return Rejection(Reason.CLAIM_LOST, key, f"the volume it was bound to, {volume}", "phase Lost")
        case ClaimState.DELETING:
            return Rejection(Reason.CLAIM_DELETING, key, "a claim not being deleted", "being deleted")
        case ClaimState.NOT_OWNED:
            offered = f"owner {claim.owner}" if claim.owner else "no owner"
            wanted = "a claim created for this pod's ephemeral volume"
            return Rejection(Reason.CLAIM_NOT_OWNED, key, wanted, offered)
        case ClaimState.MODE_MISSING:
            return Rejection(Reason.BINDING_MODE_MISSING, key, f"a volumeBindingMode of class {name}", "none")
        case ClaimState.NAMED:
            offered = f"requests volume {claim.volume_name}, not bound yet"
        case ClaimState.CLASS_MISSING:
            offered = f"{unbound} does not exist"
        case ClaimState.IMMEDIATE:
            offered = f"{unbound} binds immediately" if name else unbound
        case _:
            return None
    return Rejection(Reason.IMMEDIATE_CLAIM, key, "a bound claim", offered)
