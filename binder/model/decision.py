"""The decisions of a pass, as frozen values, and the result of executing them."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from binder.matching.rejection import Reason, Rejection
from kube.objects.model import Claim, Node, Pod, Volume


class Mode(StrEnum):
    """How far to go for claims of a class: hints, the volume's side of the bind, the whole bind, or nothing.

    PROVISION is for classes that provision: the node is selected for which their volumes are made.
    """

    ANNOTATE = "annotate"
    PREBIND = "prebind"
    COMPLETE = "complete"
    PROVISION = "provision"
    OFF = "off"


COMMITTING: Final = frozenset({Mode.PREBIND, Mode.COMPLETE})
"""Modes in which a volume names its claim before Kubernetes binds the two."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A claim and the volume chosen for it, both as the decision saw them."""

    claim: Claim
    volume: Volume


@dataclass(frozen=True, slots=True)
class Reserve:
    """Reserve these volumes for all unbound claims of the pod, together.

    `zone` is the zone of the topology chosen, empty if the nodes carry no zone label. `node` is a node that fits the
    pod and from which all its volumes are accessible. `local_nodes` names the only nodes from which a local volume is
    accessible, for the reserved-nodes annotation; empty if the volumes are zonal or accessible everywhere. `limits`:
    why the mode is annotate although the classes have another one (binder.planning.commitment). `new_node`: the node
    does not exist yet, and one like this is expected from an autoscaler. `beside`: where no other node would do, the
    pods that wait for one and have room there as well, by key, with this pod itself; else empty. `bound`: claims of the
    pod whose volumes exist and decide where the others have to be.
    """

    pod: Pod
    mode: Mode
    zone: str
    node: str
    local_nodes: tuple[str, ...]
    placements: tuple[Placement, ...]
    limits: tuple[str, ...] = ()
    new_node: Node | None = None
    beside: frozenset[str] = frozenset()
    bound: tuple[Claim, ...] = ()

    @property
    def volumes(self) -> tuple[Volume, ...]:
        return tuple(placement.volume for placement in self.placements)


@dataclass(frozen=True, slots=True)
class Finish:
    """Finish binds that were begun: each volume names its claim already. None of them was chosen by us now."""

    pod: Pod
    placements: tuple[Placement, ...]

    @property
    def volumes(self) -> tuple[Volume, ...]:
        return tuple(placement.volume for placement in self.placements)


@dataclass(frozen=True, slots=True)
class Provision:
    """Select this node for the volumes that are still to be made for the pod, in this order of its claims.

    `placements`: existing volumes chosen for its other claims, to be set aside before that. `beside` and
    `bound` as for `Reserve`.
    """

    pod: Pod
    node: str
    claims: tuple[Claim, ...]
    placements: tuple[Placement, ...] = ()
    beside: frozenset[str] = frozenset()
    bound: tuple[Claim, ...] = ()

    @property
    def volumes(self) -> tuple[Volume, ...]:
        return tuple(placement.volume for placement in self.placements)


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do now. Retry at `until`; None means that an event will wake the pod.

    `node`: where the room of a pod is booked that only our gate holds back; `beside` as for `Reserve`.
    """

    pod: Pod
    reason: Reason
    until: datetime | None = None
    node: str = ""
    beside: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Reject:
    """No assignment exists now, and these are the reasons, the most informative first.

    `begun`: they are about volumes that name the pod's claims already. `behind_gated`: they are about room for pods
    that kube-scheduler does not see yet, because our gate waits for their binds.
    """

    pod: Pod
    reason: Reason
    rejections: tuple[Rejection, ...]
    begun: bool = False
    behind_gated: bool = False


Decision = Reserve | Finish | Provision | Wait | Reject


@dataclass(frozen=True, slots=True)
class Applied:
    """All volumes are held, in mode complete bound. `volumes` are those as last written, in the decision's order."""

    volumes: tuple[Volume, ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """Another writer was faster, or the volume became unhealthy. Writes for the pod are rolled back if that is safe."""

    placement: Placement
    why: str
    reason: Reason = Reason.CLAIMED_BY_OTHER


@dataclass(frozen=True, slots=True)
class Outdated:
    """The basis of the decision has changed: decide again. What was written is rolled back as for a loss."""

    why: str


Outcome = Applied | Lost | Outdated
"""The result of executing a decision."""
