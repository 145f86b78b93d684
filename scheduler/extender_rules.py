"""What the extender says about nodes: which must not be chosen for the sake of a pod's volumes, and which should.

On the node it chooses kube-scheduler takes the smallest volume that fits, whatever anybody recommends
(`findMatchingVolumes` in pkg/scheduler/framework/plugins/volumebinding/binder.go). So a node is refused when the volume
taken there would be a sick one, or one that is held for somebody else's claim. Of volumes of the same size it may take
any: then a node is refused only when all of them are wrong.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from binder.index import VolumeIndex
from binder.matching import binding_mode, scheduler_refusal
from binder.published_health import published_health
from binder.rejection import Reason
from binder.reservation import ClaimReservation, VolumeReservation, reservation_of, reservation_of_claim
from csi.verdict import SICK
from kube.model import BIND_COMPLETED, SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER, Claim, Volume, value_of
from kube.selectors import node_matches
from kube.snapshot import Snapshot
from kube.topology import zone_of
from scheduler.extender_wire import HIGHEST

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What a volume's annotations of ours say against it: for whom it is held, and how it is sick, empty if well."""

    reservation: VolumeReservation | None
    sick: str

    def against(self, claims: Iterable[Claim], now: datetime) -> str:
        """Return why the volume must not go to any of the claims of one pod; empty if it may."""
        if self.sick:
            return f"{Reason.UNHEALTHY}, {self.sick}"
        held = self.reservation
        if held is None or held.expired(now) or any(held.is_for(claim) for claim in claims):
            return ""
        return f"{Reason.RESERVED_FOR_OTHER}, for {held.claim} until {held.expires_at:%H:%M:%S}Z"


@dataclass(frozen=True, slots=True)
class Storage:
    """The volumes of a moment. Free ones are in `clear`, or in `suspect` if `suspicions` has something about them;
    `suspicions` are by name and about volumes that are not free too."""

    snapshot: Snapshot
    clear: VolumeIndex
    suspect: VolumeIndex
    suspicions: Mapping[str, Suspicion]


@dataclass(frozen=True, slots=True)
class OpenClaim:
    """A claim whose volume is chosen together with the node: `prebound` has a claimRef that names it already,
    `reservation` is the one that counts now."""

    claim: Claim
    prebound: Volume | None = None
    reservation: ClaimReservation | None = None


@dataclass(frozen=True, slots=True)
class PodClaims:
    """A pod's claims, as far as they are known: `bound` to a volume, or `open`, in the order they are served."""

    bound: tuple[Claim, ...] = ()
    open: tuple[OpenClaim, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """What kube-scheduler takes for a claim on a node: None if there is no static volume; `why` it is wrong, if so."""

    wanted: OpenClaim
    volume: Volume | None
    why: str = ""


def suspicion_of(volume: Volume, prefix: str) -> Suspicion | None:
    """Read what a volume says against itself; None if nothing."""
    if not any(key.startswith(prefix) for key, _ in volume.annotations):
        return None
    said = published_health(volume, prefix)
    sick = f"{said.state}: {said.reason}" if said is not None and said.state in SICK else ""
    reservation = reservation_of(volume, prefix)
    return Suspicion(reservation, sick) if sick or reservation is not None else None


def pod_claims(snapshot: Snapshot, keys: Iterable[str], now: datetime, prefix: str) -> PodClaims:
    """Look up a pod's claims. Those that others decide about (Immediate, dynamic and begun) are left out."""
    claims = [snapshot.claims[key] for key in keys if key in snapshot.claims]
    waiting = [claim for claim in claims if _is_open(claim, snapshot)]
    return PodClaims(
        bound=tuple(claim for claim in claims if claim.volume_name),
        open=tuple(
            OpenClaim(claim, _prebound(claim, snapshot), _reservation(claim, now, prefix))
            for claim in sorted(waiting, key=lambda claim: (claim.request, claim.key))
        ),
    )


def may_refuse(storage: Storage, pod: PodClaims) -> bool:
    """Whether any node could be refused at all. Quick, and usually False."""
    return any(
        storage.suspect.smallest(one.claim) is not None
        or (one.prebound is not None and one.prebound.name in storage.suspicions)
        for one in pod.open
    )


def choices(storage: Storage, pod: PodClaims, labels: Labels, now: datetime) -> list[Choice]:
    """Return what kube-scheduler takes on a node with these labels, for one claim after another."""
    claims = [one.claim for one in pod.open]
    taken: set[str] = set()
    found = []
    for one in pod.open:
        choice = _choice(storage, one, labels, taken, claims, now)
        if choice.volume is not None:
            taken.add(choice.volume.name)
        found.append(choice)
    return found


def refusal(chosen: Sequence[Choice]) -> str:
    """Return why the node must not be chosen; empty if it may."""
    for choice in chosen:
        if choice.why and choice.volume is not None:
            return f"claim {choice.wanted.claim.name} would get volume {choice.volume.name}: {choice.why}"
    return ""


def points(storage: Storage, chosen: Sequence[Choice], labels: Labels) -> float:
    """Return the sum over the open claims of 0 to HIGHEST each, by what is known of a node's labels."""
    return sum(_points(storage, choice, labels) for choice in chosen)


def local_nodes(pod: PodClaims) -> list[frozenset[str]]:
    """Return for each claim that is promised a local volume the nodes that have it."""
    return [frozenset(one.reservation.nodes) for one in pod.open if one.reservation and one.reservation.nodes]


def _points(storage: Storage, choice: Choice, labels: Labels) -> float:
    """A promise counts in full where it can be kept and nowhere else; else the less space is wasted the better,
    which kube-scheduler minds on one node but not across nodes (kubernetes/kubernetes#83323)."""
    reservation = choice.wanted.reservation
    if reservation is not None:
        return 0.0 if reservation.nodes else HIGHEST * _is_promised_place(storage, reservation, labels)
    if choice.volume is None or not choice.volume.capacity:
        return 0.0
    return HIGHEST * min(1.0, choice.wanted.claim.request / choice.volume.capacity)


def _is_promised_place(storage: Storage, reservation: ClaimReservation, labels: Labels) -> bool:
    volume = storage.snapshot.volumes.get(reservation.volume)
    if volume is None:
        return bool(reservation.zone) and zone_of(labels) == reservation.zone
    return node_matches(volume.node_affinity, labels)


def _is_open(claim: Claim, snapshot: Snapshot) -> bool:
    begun = any(value_of(claim.annotations, key) is not None for key in (BIND_COMPLETED, SELECTED_NODE))
    delayed = binding_mode(claim, snapshot.classes) == WAIT_FOR_FIRST_CONSUMER
    return delayed and not begun and not claim.volume_name


def _prebound(claim: Claim, snapshot: Snapshot) -> Volume | None:
    """Return the volume whose claimRef names the claim: it decides alone, even where the node does not reach it."""
    names = snapshot.volumes_by_claim.get(claim.key, ())
    found = (snapshot.volumes[name] for name in names)
    return next((volume for volume in found if scheduler_refusal(claim, volume) is None), None)


def _reservation(claim: Claim, now: datetime, prefix: str) -> ClaimReservation | None:
    found = reservation_of_claim(claim, prefix)
    return None if found is None or found.expired(now) else found


_NOTHING: Final = Suspicion(None, "")


def _choice(
    storage: Storage, wanted: OpenClaim, labels: Labels, taken: Set[str], claims: Sequence[Claim], now: datetime
) -> Choice:
    prebound = wanted.prebound
    if prebound is not None:
        reached = node_matches(prebound.node_affinity, labels)
        why = storage.suspicions.get(prebound.name, _NOTHING).against(claims, now)
        return Choice(wanted, prebound, why) if reached else Choice(wanted, None)
    clear = storage.clear.smallest(wanted.claim, labels, taken)
    suspect = _suspect(storage, wanted, labels, taken, claims, now)
    if suspect.volume is None or (clear is not None and clear.capacity <= suspect.volume.capacity):
        return Choice(wanted, clear)
    return suspect


def _suspect(
    storage: Storage, wanted: OpenClaim, labels: Labels, taken: Set[str], claims: Sequence[Claim], now: datetime
) -> Choice:
    """Return the smallest suspect volume: of several of that size one that may be taken after all."""
    first = Choice(wanted, None)
    for volume in storage.suspect.candidates(wanted.claim, labels):
        if volume.name in taken:
            continue
        if first.volume is not None and volume.capacity > first.volume.capacity:
            break
        why = storage.suspicions[volume.name].against(claims, now)
        if not why:
            return Choice(wanted, volume)
        first = first if first.volume is not None else Choice(wanted, volume, why)
    return first
