"""What a tool that drives the scheduler is told about one pod: where it went, what was taken back, or why not."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from binder.matching.rejection import Rejection


class Refusal(StrEnum):
    """Why nothing was done."""

    NOT_READY = "NotReady"
    """The cluster has not been read yet, or another replica holds the lease."""
    POD_NOT_FOUND = "PodNotFound"
    """No such pod is known; or the pod of that name has another uid."""
    NOT_OURS = "NotOurs"
    """The pod asks for another scheduler, or has ended or is being deleted."""
    ALREADY_BOUND = "AlreadyBound"
    """The pod has a node. Kubernetes cannot take that back; evict the pod."""
    REJECTED = "Rejected"
    """No node fits, or the one asked for does not: `Refused.rejections` says why."""
    FAILED = "Failed"
    """A node was chosen, but the cluster did not accept it, or a volume did not come; all was rolled back."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The pod is on the node: its Binding succeeded, its volumes are bound.

    `zone` is the node's, empty when it has none. `volumes` are those of the pod's claims, by the claim's name;
    `provisioned` are the names of claims that had theirs made for this.
    """

    node: str
    zone: str = ""
    volumes: Mapping[str, str] = field(default_factory=dict)
    provisioned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Released:
    """Nothing is promised to the pod any more, and it waits again. `node` was promised; empty when none was."""

    node: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was done. `text` is a sentence for the user; `rejections` say why node by node, or of the whole pod."""

    refusal: Refusal
    text: str
    rejections: tuple[Rejection, ...] = ()
