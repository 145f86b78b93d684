"""The extender's rules about nodes: which must be rejected because of a pod's volumes, and which are preferred.

On the node it chooses kube-scheduler takes the smallest volume that fits, whatever the scores (`findMatchingVolumes` in
pkg/scheduler/framework/plugins/volumebinding/binder.go). So a node is rejected when the volume taken there would be
unhealthy, reserved for another claim, or not accessible from the node. Of volumes of the same size it may take any:
such a node is rejected only when all of them are unsuitable.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from binder.health.node_storage import NodeStorage
from binder.health.published_health import published_health
from binder.matching.claim_state import ClaimState, claim_state
from binder.matching.index import VolumeIndex
from binder.matching.matching import provisioner_of, selector_too_large
from binder.matching.rejection import Reason
from binder.matching.scheduler_match import prebound_volume, volume_taken
from binder.reservation.contract import Annotations, ClaimReservation, VolumeReservation
from binder.reservation.pins import pins_of
from csi.health.verdict import UNHEALTHY
from kube.objects.labels import NodeSelector
from kube.objects.model import Claim, Volume
from kube.rules.selectors import node_matches
from kube.rules.topology import zone_of
from kube.store.snapshot import Snapshot
from scheduler.extender.wire import MAX_EXTENDER_PRIORITY

Labels = Mapping[str, str]

NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class VolumeProblem:
    """What our annotations state against a volume: the claim it is reserved for, its fault, empty if healthy, and for
    which name it is kept although nothing in its claimRef says so.
    """

    reservation: VolumeReservation | None
    unhealthy: str
    kept: str = ""

    def forbids(self, claims: Iterable[Claim], now: datetime) -> bool:
        """Whether the volume must not be bound to any of the claims of one pod."""
        if self.unhealthy or self.kept:
            return True
        return self.reservation is not None and self.reservation.excludes(now, *claims)

    def until(self, now: datetime) -> datetime:
        """Return until when `forbids` gives the same answers as now."""
        held = self.reservation
        if self.unhealthy or self.kept or held is None or held.expires_at <= now:
            return NEVER
        # One that was made in the future, because a clock was set back, may come into force at any moment.
        return held.expires_at if held.in_force(now) else now

    def __str__(self) -> str:
        held = self.reservation
        if self.kept:
            return f"{Reason.RESERVED_FOR_OTHER}, {self.kept}"
        if self.unhealthy or held is None:
            return f"{Reason.UNHEALTHY}, {self.unhealthy}"
        return f"{Reason.RESERVED_FOR_OTHER}, for {held.claim} until {held.expires_at.time().isoformat('seconds')}Z"


Objection = VolumeProblem | str
"""The objection to a volume, empty if there is none. It is formatted only for the node that is rejected."""
Objecting = Callable[[Volume], Objection]


@dataclass(frozen=True, slots=True)
class Storage:
    """The volumes of a moment. Free ones are in `clear`, or in `suspect` if `problems` has something about them;
    `problems` are by name and about volumes that are not free too. `node_storage` remembers what the nodes report."""

    snapshot: Snapshot
    clear: VolumeIndex
    suspect: VolumeIndex
    problems: Mapping[str, VolumeProblem]
    node_storage: NodeStorage


@dataclass(frozen=True, slots=True)
class OpenClaim:
    """A claim whose volume is chosen together with the node: `prebound` has a claimRef that names it already,
    `reservation` is the one that counts now."""

    claim: Claim
    prebound: Volume | None = None
    reservation: ClaimReservation | None = None


@dataclass(frozen=True, slots=True)
class KnownClaims:
    """A pod's claims, as far as they are known: `bound` to a volume, or `open`, in the order they are served."""

    bound: tuple[Claim, ...] = ()
    open: tuple[OpenClaim, ...] = ()

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All of them, the open ones first."""
        return (*(open_claim.claim for open_claim in self.open), *self.bound)


class NodeRejection(Struct, frozen=True, gc=False):
    """Why a node must be rejected for a pod: `why` follows the name of the open claim of this number, of the bound
    claims after those. It is empty if the node is allowed.

    It was found at `since` and remains true until `until`, when a reservation ends, unless something changes.
    """

    why: str
    claim: int
    since: datetime
    until: datetime

    def text(self, claims: Sequence[Claim]) -> str:
        """Return the whole reason, for a pod with these claims."""
        return f"claim {claims[self.claim].name} {self.why}" if self.why else ""


def problem_of_volume(volume: Volume, annotations: Annotations) -> VolumeProblem | None:
    """Read the problem from a volume's annotations; None if there is none."""
    if not annotations.any_on(volume):
        return None
    health = published_health(volume, annotations)
    unhealthy = f"{health.state}: {health.reason}" if health is not None and health.state in UNHEALTHY else ""
    reservation = annotations.reservation_of(volume)
    pins = pins_of(volume, annotations) if volume.claim is None else None
    kept = "" if pins is None else str(pins)
    return VolumeProblem(reservation, unhealthy, kept) if unhealthy or kept or reservation is not None else None


def pod_claims(snapshot: Snapshot, keys: Iterable[str], now: datetime, annotations: Annotations) -> KnownClaims:
    """Look up a pod's claims. Those that other components decide about (Immediate, dynamic and begun) are omitted."""
    claims = [snapshot.claims[key] for key in keys if key in snapshot.claims]
    waiting = [claim for claim in claims if claim_state(claim, snapshot.classes) is ClaimState.OPEN]
    return KnownClaims(
        bound=tuple(claim for claim in claims if claim.volume_name),
        open=tuple(
            OpenClaim(claim, _prebound(claim, snapshot), _reservation(claim, now, annotations))
            for claim in sorted(waiting, key=lambda claim: (claim.request, claim.key))
        ),
    )


def has_suspects(storage: Storage, pod: KnownClaims) -> bool:
    """Whether `suspect_places` would return any."""
    prebound = (open_claim.prebound for open_claim in pod.open if open_claim.prebound is not None)
    return storage.suspect.has_affinities(open_claim.claim for open_claim in pod.open) or any(
        volume.name in storage.problems for volume in prebound
    )


def suspect_places(storage: Storage, pod: KnownClaims) -> set[NodeSelector | None]:
    """Return the affinities of the volumes because of which a node could be rejected; usually there are none."""
    affinities = storage.suspect.affinities(open_claim.claim for open_claim in pod.open)
    prebound = (open_claim.prebound for open_claim in pod.open if open_claim.prebound is not None)
    return affinities | {volume.node_affinity for volume in prebound if volume.name in storage.problems}


def undecided(storage: Storage, pod: KnownClaims, now: datetime) -> KnownClaims:
    """Return the pod as if claims whose own volume is known, and may be bound to them, were bound to it.

    They take that volume or none and leave others alone; so no node is rejected because of them while none reports on
    storage.
    """
    claims = pod.claims
    left = [
        open_claim
        for open_claim in pod.open
        if open_claim.prebound is None
        or ((problem := storage.problems.get(open_claim.prebound.name)) is not None and problem.forbids(claims, now))
    ]
    decided = (open_claim.claim for open_claim in pod.open if open_claim not in left)
    return KnownClaims((*pod.bound, *decided), tuple(left))


def own_places(storage: Storage, pod: KnownClaims) -> set[NodeSelector | None]:
    """Return the affinities of the volumes whose reservations name one of the pod's claims."""
    snapshot = storage.snapshot
    names = {name for claim in pod.claims for name in snapshot.volumes_reserved_for.get(claim.key, ())}
    return {snapshot.volumes[name].node_affinity for name in names}


def reporting(snapshot: Snapshot) -> set[str]:
    """Return the names of the nodes that report on the storage of some driver; usually there are none."""
    return {name for names in snapshot.csi_nodes_by_unhealthy_driver.values() for name in names}


def rejection(
    storage: Storage, pod: KnownClaims, labels: Labels, now: datetime, cut: frozenset[str] = frozenset()
) -> NodeRejection:
    """Return whether and why a node with these labels, cut off from these drivers, must be rejected.

    Follows what kube-scheduler takes there, one claim after another.
    """
    objections = _Objections(storage, pod.claims, now, cut)
    taken: set[str] = set()
    for number, open_claim in enumerate(pod.open):
        unread = selector_too_large(open_claim.claim)
        if (
            unread is not None
            and open_claim.prebound is None
            and _may_take_another(storage, open_claim.claim, labels, objections.against)
        ):
            why = f"has a selector of {unread.offered}, and may get a volume that is unhealthy or reserved"
            return NodeRejection(why, number, now, objections.until)
        volume, against = _taken(storage, open_claim, labels, taken, objections.against)
        if against and volume is not None:
            return NodeRejection(f"would get volume {volume.name}: {against}", number, now, objections.until)
        if volume is not None:
            taken.add(volume.name)
        elif (
            cut
            and open_claim.prebound is None
            and (driver := provisioner_of(open_claim.claim, storage.snapshot.classes)) in cut
        ):
            return NodeRejection(f"would get a new volume: {_unreached(driver)}", number, now, objections.until)
    number, why = _bound_rejection(storage.snapshot, pod, cut)
    return NodeRejection(why, number, now, objections.until)


@dataclass(slots=True)
class _Objections:
    """What there is against volumes for these claims of a pod, on a node that is cut off from these drivers.

    `until` is how long all answers given so far remain true.
    """

    storage: Storage
    claims: tuple[Claim, ...]
    now: datetime
    cut: frozenset[str]
    until: datetime = NEVER

    def against(self, volume: Volume) -> Objection:
        problem = self.storage.problems.get(volume.name)
        if problem is not None:
            self.until = min(self.until, problem.until(self.now))
            if problem.forbids(self.claims, self.now):
                return problem
        if volume.driver in self.cut:
            return _unreached(volume.driver)
        finding = self.storage.node_storage.finding(volume, self.storage.snapshot, self.now)
        return (
            f"{Reason.UNHEALTHY}, {finding.state}: {finding.reason}"
            if finding is not None and finding.unhealthy
            else ""
        )


def fit_points(storage: Storage, claim: Claim, labels: Labels) -> float:
    """Return 0 to MAX_EXTENDER_PRIORITY by the smallest Available volume that fits the claim on a node.

    The less space is wasted the more: kube-scheduler considers that on one node, but not across nodes
    (kubernetes/kubernetes#83323).
    """
    smallest = (storage.clear.smallest(claim, labels), storage.suspect.smallest(claim, labels))
    capacity = min((volume.capacity for volume in smallest if volume is not None), default=0)
    return MAX_EXTENDER_PRIORITY * claim.request / capacity if capacity else 0.0


def has_place(wanted: OpenClaim) -> bool:
    """Whether the volume that the claim is to get is known."""
    return wanted.prebound is not None or wanted.reservation is not None


def place_points(storage: Storage, wanted: OpenClaim, labels: Labels) -> float:
    """Return MAX_EXTENDER_PRIORITY where the claim's own volume is accessible and 0 elsewhere.

    Local volumes have their points by node, see `local_nodes`.
    """
    if wanted.prebound is not None:
        return MAX_EXTENDER_PRIORITY * node_matches(wanted.prebound.node_affinity, labels)
    if wanted.reservation is None or wanted.reservation.nodes:
        return 0.0
    return MAX_EXTENDER_PRIORITY * _is_reserved_place(storage, wanted.reservation, labels)


def local_nodes(pod: KnownClaims) -> list[frozenset[str]]:
    """Return for each claim with a reserved local volume the nodes that have it."""
    reservations = (open_claim.reservation for open_claim in pod.open if open_claim.prebound is None)
    return [frozenset(held.nodes) for held in reservations if held is not None and held.nodes]


def _is_reserved_place(storage: Storage, reservation: ClaimReservation, labels: Labels) -> bool:
    volume = storage.snapshot.volumes.get(reservation.volume)
    if volume is None:
        return bool(reservation.zone) and zone_of(labels) == reservation.zone
    return node_matches(volume.node_affinity, labels)


def _prebound(claim: Claim, snapshot: Snapshot) -> Volume | None:
    names = snapshot.volumes_by_claim.get(claim.key, ())
    return prebound_volume(claim, None, [snapshot.volumes[name] for name in names])


def _reservation(claim: Claim, now: datetime, annotations: Annotations) -> ClaimReservation | None:
    reservation = annotations.reservation_of_claim(claim)
    return reservation if reservation is not None and reservation.in_force(now) else None


def _taken(
    storage: Storage, wanted: OpenClaim, labels: Labels, taken: Set[str], objection: Objecting
) -> tuple[Volume | None, Objection]:
    """Return the volume that kube-scheduler takes, None without a static one, and the objection to it."""

    def smallest() -> Volume | None:
        clear, against = _smallest(storage.clear.candidates(wanted.claim, labels), taken, objection)
        suspect, against_it = _smallest(storage.suspect.candidates(wanted.claim, labels), taken, objection)
        if clear is None or suspect is None:
            return suspect if clear is None else clear
        return clear if (clear.capacity, against) <= (suspect.capacity, against_it) else suspect

    volume = volume_taken(wanted.prebound, labels, smallest)
    return volume, objection(volume) if volume is not None else ""


def _may_take_another(storage: Storage, claim: Claim, labels: Labels, objection: Objecting) -> bool:
    """Whether the claim, were its selector to match, could get a volume to which there is an objection."""
    candidates = storage.suspect.candidates(replace(claim, selector=None), labels)
    return any(objection(volume) for volume in candidates)


def _smallest(volumes: Iterable[Volume], taken: Set[str], objection: Objecting) -> tuple[Volume | None, bool]:
    """Return the first of the smallest, if possible one without an objection; and whether it has one."""
    first: Volume | None = None
    for volume in volumes:
        if volume.name in taken:
            continue
        if first is not None and volume.capacity > first.capacity:
            break
        if not objection(volume):
            return volume, False
        first = first or volume
    return first, True


def _bound_rejection(snapshot: Snapshot, pod: KnownClaims, cut: Set[str]) -> tuple[int, str]:
    """Return the number of the claim and the reason, empty if there is none."""
    for number, claim in enumerate(pod.bound if cut else (), len(pod.open)):
        volume = snapshot.volumes.get(claim.volume_name)
        if volume is not None and volume.driver in cut:
            return number, f"has volume {volume.name}: {_unreached(volume.driver)}"
    return 0, ""


def _unreached(driver: str) -> str:
    return f"{Reason.STORAGE_UNREACHABLE}, reported for {driver} by the node's CSINode"
