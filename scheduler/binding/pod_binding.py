"""The result of a manual binding for the tool that requested it: the node, what was released, or why nothing was
done.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from binder.matching.rejection import Rejection


class RejectionReason(StrEnum):
    """Why nothing was done."""

    NOT_READY = "NotReady"
    """The cluster has not been read yet, or another replica holds the lease."""
    POD_NOT_FOUND = "PodNotFound"
    """No such pod is known; or the pod of that name has another uid."""
    NOT_OURS = "NotOurs"
    """The pod names another scheduler, or has ended or is being deleted."""
    ALREADY_BOUND = "AlreadyBound"
    """The pod has a node. Kubernetes cannot undo that; evict the pod."""
    REJECTED = "Rejected"
    """No node fits, or the requested one does not: `Rejected.rejections` has the reasons."""
    FAILED = "Failed"
    """A node was chosen, but the cluster did not accept it, or a volume was not bound; everything was rolled back."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The pod is on the node: its Binding succeeded, its volumes are bound.

    `zone` is the node's, empty if it has none. `volumes` are those of the pod's claims, by the claim's name;
    `provisioned` are the names of claims whose volume was provisioned for this.
    """

    node: str
    zone: str = ""
    volumes: Mapping[str, str] = field(default_factory=dict)
    provisioned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Released:
    """Nothing is reserved for the pod any more, and it waits again. `node` was reserved; empty if none was."""

    node: str = ""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Nothing was done. `text` is a sentence for the user; `rejections` are the reasons, per node or for the pod as a
    whole.
    """

    reason: RejectionReason
    text: str
    rejections: tuple[Rejection, ...] = ()
