"""What a pass decided, as frozen values, and how carrying it out ended."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from binder.matching.rejection import Reason, Rejection
from kube.objects.model import Claim, Pod, Volume


class Mode(StrEnum):
    """How far we go for claims of a class: hints, the volume's side of the bind, the whole bind, or nothing."""

    ANNOTATE = "annotate"
    PREBIND = "prebind"
    COMPLETE = "complete"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Placement:
    """One claim and the volume chosen for it, both as the decision saw them."""

    claim: Claim
    volume: Volume


@dataclass(frozen=True, slots=True)
class Reserve:
    """Reserve these volumes for all unbound claims of the pod, together.

    `zone` is the zone of the topology chosen, empty when the nodes carry no zone label. `node` is a node that fits
    the pod and reaches all its volumes. `local_nodes` names the nodes that alone reach a local volume, for
    the reserved-nodes annotation; empty when the volumes are zonal or reachable everywhere. `limits`: for what the
    mode is annotate although the classes say more (binder.planning.commitment).
    """

    pod: Pod
    mode: Mode
    zone: str
    node: str
    local_nodes: tuple[str, ...]
    placements: tuple[Placement, ...]
    limits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finish:
    """Finish binds that were begun: each volume names its claim already. None of them was chosen by us now."""

    pod: Pod
    placements: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do now. Look again at `until`; None means an event will wake us."""

    pod: Pod
    reason: Reason
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """No assignment exists now, and these are the reasons, the most telling first."""

    pod: Pod
    reason: Reason
    rejections: tuple[Rejection, ...]


Decision = Reserve | Finish | Wait | Refuse


@dataclass(frozen=True, slots=True)
class Applied:
    """All volumes are held, in mode complete bound. `volumes` are they as last written, in the decision's order."""

    volumes: tuple[Volume, ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """Another writer was faster, or the volume became unhealthy. Writes for the pod are rolled back if that is safe."""

    placement: Placement
    why: str
    reason: Reason = Reason.CLAIMED_BY_OTHER


@dataclass(frozen=True, slots=True)
class Outdated:
    """What the decision was made of is no longer so: make it again. What was written is taken back as for a loss."""

    why: str


Outcome = Applied | Lost | Outdated
"""How carrying out a decision ended."""
