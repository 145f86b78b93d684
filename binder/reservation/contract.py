"""The reservation contract: annotations that binder writes and the scheduler reads.

One key per value, under a configurable prefix. Times are RFC 3339 in UTC. Unknown keys are ignored; a value that cannot
be parsed counts as absent and is named, so that the caller can count it. A reservation that lacks a required key counts
as none: an incomplete reservation must not hold a volume for ever.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Final, Generic, TypeVar

from kube.decoding.decode_parts import OWN_PREFIX
from kube.objects.labels import Pairs
from kube.objects.model import Claim, Pod, StorageClass, Volume, value_of
from kube.rules.duration import parse_duration
from kube.rules.quantity import QuantityError, parse_quantity
from kube.store.snapshot import Snapshot

DEFAULT_PREFIX: Final = OWN_PREFIX
STRICT: Final = "strict"
"""The value of the annotation `topology` for provisioners that run with --strict-topology, which no object shows."""
JOIN_VOLUMES: Final = "join-volumes"
"""The value of the annotation `new-nodes` for volumes that an autoscaler's new nodes in their zone can use."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The writer of a reservation: the leader's identity and the Lease's transition number at that moment."""

    identity: str
    transition: int

    @classmethod
    def parse(cls, text: str | None) -> "Holder | None":
        """Return the holder that `str` formatted; None if the text is none."""
        identity, slash, transition = (text or "").rpartition("/")
        numeric = transition.isdecimal() and len(transition) < 19
        return cls(identity, int(transition)) if identity and slash and numeric else None

    def __str__(self) -> str:
        return f"{self.identity}/{self.transition}"


@dataclass(frozen=True, slots=True)
class VolumeReservation:
    """A volume's side: for which claim (key and uid) it is held, since when, until when, and by which holder.

    `zone` and `nodes` are as on the claim's side, and are written where the claim itself is not (mode prebind).
    `pod_uid` is that of the pod for which it was made, empty if it does not say so.
    """

    claim: str
    claim_uid: str
    bound_at: datetime
    expires_at: datetime
    holder: Holder
    zone: str = ""
    nodes: tuple[str, ...] = ()
    pod_uid: str = ""

    def was_made_with(self, pod: Pod) -> bool:
        """Whether the pod is the one for which it was made, or existed then: times have whole seconds."""
        return (self.pod_uid or None) == pod.uid or (pod.created is not None and pod.created < self.bound_at)

    def is_for(self, claim: Claim) -> bool:
        """Whether it names exactly this claim, not an earlier one of the same name, in force or not."""
        # The key of a claim is put together each time, and uids alone differ nearly always.
        return self.claim_uid == claim.uid and self.claim == claim.key

    def in_force(self, now: datetime) -> bool:
        """Whether it holds the volume for any claim now; otherwise it counts as absent."""
        return _is_in_force(self.bound_at, self.expires_at, now)

    def holds(self, now: datetime, claim: Claim) -> bool:
        """Whether it holds the volume for this claim now."""
        return self.is_for(claim) and self.in_force(now)

    def excludes(self, now: datetime, *claims: Claim) -> bool:
        """Whether it withholds the volume from all of these claims now."""
        return self.in_force(now) and not any(map(self.is_for, claims))


@dataclass(frozen=True, slots=True)
class ClaimReservation:
    """A claim's side: which volume is held for it, its zone, and for a local volume the only nodes from which it is
    accessible.

    `zone` is empty if the volume belongs to no zone, `nodes` if it is not local.
    """

    volume: str
    bound_at: datetime
    expires_at: datetime
    zone: str = ""
    nodes: tuple[str, ...] = ()

    def in_force(self, now: datetime) -> bool:
        """Whether it holds the volume now; otherwise it counts as absent."""
        return _is_in_force(self.bound_at, self.expires_at, now)


R = TypeVar("R", VolumeReservation, ClaimReservation)


@dataclass(frozen=True, slots=True)
class Parsed(Generic[R]):
    """A reservation, or None, and the keys (without prefix) whose values were invalid or missing beside others.

    No reservation at all is `Parsed(None, ())`; `garbage` without a reservation is a broken one.
    """

    reservation: R | None
    garbage: tuple[str, ...] = ()


def _key(name: str) -> "cached_property[str]":
    """Return the attribute for the key of that name under the prefix."""
    return cached_property(lambda annotations: annotations.prefix + name)


@dataclass(frozen=True)
class Annotations:
    """Every key of ours under one prefix, and how their values are parsed.

    Created once from the settings and passed to every reader or writer of objects of the cluster.
    """

    prefix: str = DEFAULT_PREFIX

    bound_at = _key("bound-at")
    expires_at = _key("expires-at")
    reserved_for = _key("reserved-for")
    reserved_for_uid = _key("reserved-for-uid")
    reserved_for_pod = _key("reserved-for-pod-uid")
    reserved_by = _key("reserved-by")
    claim_ref = _key("claim-ref")
    """On a volume: the claim for which we wrote its claimRef. Without it a claimRef is another writer's."""
    reserved_volume = _key("reserved-volume")
    reserved_zone = _key("reserved-zone")
    reserved_nodes = _key("reserved-nodes")
    mode = _key("mode")
    """On a StorageClass: how far we go for claims of the class (binder.model.decision.Mode)."""
    pool = _key("pool")
    """On a StorageClass: classes of one driver with the same name here share their capacity."""
    report_after = _key("report-after")
    """On a StorageClass: a volume this old is part of what its driver reports as free, at the latest."""
    topology = _key("topology")
    """On a StorageClass: STRICT if a volume is made for the selected node, or not at all."""
    new_nodes = _key("new-nodes")
    """On a StorageClass: JOIN_VOLUMES if volumes may be committed before a node exists that can use them."""
    new_node_within = _key("new-node-within")
    """On a StorageClass: the longest that an autoscaler needs for a node; later the wait is reported."""
    new_node_storage = _key("new-node-storage")
    """On a StorageClass: how much storage for its volumes a node brings with it that an autoscaler adds."""
    awaits_node = _key("awaits-node")
    """On a volume committed, or a claim whose pod was let go, before a node existed: the pod's uid, and when."""
    selected_at = _key("selected-at")
    """On a claim: when we selected the node where its volume is provisioned."""
    set_aside_for = _key("set-aside-for")
    """On a volume: the claim for which it is kept while other volumes of its pod are made
    (binder.reservation.set_aside, as the next two).
    """
    set_aside_for_uid = _key("set-aside-for-uid")
    set_aside_at = _key("set-aside-at")
    gate = _key("volumes")
    """On a Pod, as the name of a scheduling gate: do not schedule it before its volumes are reserved."""
    quarantine = _key("quarantine")
    quarantined_at = _key("quarantined-at")
    health = _key("health")
    health_reason = _key("health-reason")
    health_since = _key("health-since")
    health_source = _key("health-source")
    hold_replicas = _key("hold-replicas")
    """On a StatefulSet: for how many replicas, counted from its first ordinal, volumes are held."""
    hold_claim = _key("held-for")
    """On a volume: the claim to come for which it is held (binder.reservation.pins, as the next five)."""
    hold_set = _key("held-set-uid")
    hold_holder = _key("held-by")
    replaces = _key("replaces")
    """On a volume: the claim, its uid and its volume that this one takes the place of."""
    was_for = _key("was-for")
    """On a volume that was replaced: the claim, and its uid, whose data it keeps."""
    namespace_uid = _key("namespace-uid")
    sweeps = _key("sweeps")
    """On a Lease: the last complete sweep of each driver that its holder probes (binder.health.published_sweeps)."""

    def reservation_of(self, volume: Volume) -> VolumeReservation | None:
        """Return the volume's reservation if it has a complete one, expired or not."""
        return self.parse_volume(volume.annotations).reservation if volume.annotations else None

    def reservation_of_claim(self, claim: Claim) -> ClaimReservation | None:
        """Return the claim's reservation if it has a complete one, expired or not."""
        return self.parse_claim(claim.annotations).reservation if claim.annotations else None

    def held_for(self, claim: Claim, snapshot: Snapshot) -> ClaimReservation | None:
        """Return the claim's reservation, expired or not, whichever side it is on: mode prebind leaves the claim as it
        is.
        """
        written = self.reservation_of_claim(claim)
        if written is not None:
            return written
        for name in sorted(snapshot.volumes_reserved_for.get(claim.key, ())):
            volume = snapshot.volumes[name]
            kept = self.reservation_of(volume)
            if kept is not None and kept.is_for(claim) and volume.claim is not None and volume.claim.uid == claim.uid:
                return ClaimReservation(name, kept.bound_at, kept.expires_at, kept.zone, kept.nodes)
        return None

    def report_after_of(self, storage_class: StorageClass) -> timedelta | None:
        """Return the class's `report-after`; None if it has none, or one that cannot be read."""
        return _duration(value_of(storage_class.annotations, self.report_after))

    def joins_new_nodes(self, storage_class: StorageClass) -> bool:
        """Whether volumes of the class may be committed before a node exists that can use them."""
        return value_of(storage_class.annotations, self.new_nodes) == JOIN_VOLUMES

    def new_node_within_of(self, storage_class: StorageClass) -> timedelta | None:
        """Return the class's `new-node-within`; None if it has none, or one that cannot be read."""
        return _duration(value_of(storage_class.annotations, self.new_node_within))

    def new_node_storage_of(self, storage_class: StorageClass) -> int | None:
        """Return the class's `new-node-storage`, in billionths of a byte; None if it has none that can be read."""
        try:
            return parse_quantity(value_of(storage_class.annotations, self.new_node_storage) or "")
        except QuantityError:
            return None

    def awaits_node_since(self, subject: Volume | Claim, pod: Pod) -> datetime | None:
        """Return since when the volume or the claim waits, with this pod, for a node to come; None if it does not."""
        uid, _, since = (value_of(subject.annotations, self.awaits_node) or "").partition(" ")
        return parse_time(since) if uid and uid == pod.uid else None

    def ahead_of_node(self, pod: Pod, now: datetime) -> dict[str, str]:
        """Return the annotation that records that the pod has no node yet: on a volume in the write that commits it."""
        return {self.awaits_node: f"{pod.uid} {format_time(now)}"}

    def parse_volume(self, annotations: Pairs) -> Parsed[VolumeReservation]:
        known = self._of_volume
        values = {key: value for key, value in annotations if key in known}
        if not values:
            return Parsed(None)
        claim, holder = _claim_key(values.get(self.reserved_for)), Holder.parse(values.get(self.reserved_by))
        bound_at, expires_at = parse_time(values.get(self.bound_at)), parse_time(values.get(self.expires_at))
        uid = values.get(self.reserved_for_uid) or None
        if claim and uid and bound_at and expires_at and holder:
            zone, nodes = self._place(values)
            pod_uid = values.get(self.reserved_for_pod, "")
            return Parsed(VolumeReservation(claim, uid, bound_at, expires_at, holder, zone, nodes, pod_uid))
        return self._unreadable(zip(self._required, (claim, uid, bound_at, expires_at, holder), strict=True))

    def parse_claim(self, annotations: Pairs) -> Parsed[ClaimReservation]:
        known = self._of_claim
        values = {key: value for key, value in annotations if key in known}
        if not values:
            return Parsed(None)
        volume = values.get(self.reserved_volume) or None
        bound_at, expires_at = parse_time(values.get(self.bound_at)), parse_time(values.get(self.expires_at))
        if volume and bound_at and expires_at:
            return Parsed(ClaimReservation(volume, bound_at, expires_at, *self._place(values)))
        keys = (self.reserved_volume, self.bound_at, self.expires_at)
        return self._unreadable(zip(keys, (volume, bound_at, expires_at), strict=True))

    def for_volume(self, reservation: VolumeReservation) -> dict[str, str]:
        """Return the annotations for the volume."""
        optional = {
            self.reserved_for_pod: reservation.pod_uid,
            self.reserved_zone: reservation.zone,
            self.reserved_nodes: ",".join(reservation.nodes),
        }
        return {
            self.reserved_for: reservation.claim,
            self.reserved_for_uid: reservation.claim_uid,
            self.bound_at: format_time(reservation.bound_at),
            self.expires_at: format_time(reservation.expires_at),
            self.reserved_by: str(reservation.holder),
        } | {key: value for key, value in optional.items() if value}

    def for_claim(self, reservation: ClaimReservation) -> dict[str, str | None]:
        """Return the annotations for the claim; None removes a key that an earlier reservation may have left."""
        return {
            self.reserved_volume: reservation.volume,
            self.bound_at: format_time(reservation.bound_at),
            self.expires_at: format_time(reservation.expires_at),
            self.reserved_zone: reservation.zone or None,
            self.reserved_nodes: ",".join(reservation.nodes) or None,
        }

    def ended_by_commitment(self) -> tuple[str, ...]:
        """Return the keys of records on a volume that end when it is committed to a claim."""
        return (self.awaits_node, self.set_aside_for, self.set_aside_for_uid, self.set_aside_at)

    def without_place(self) -> dict[str, str | None]:
        """Return what removes the place that an earlier reservation may have left on a volume."""
        return {self.reserved_zone: None, self.reserved_nodes: None}

    def claim_ref_record(self, claim: Claim) -> dict[str, str]:
        """Return the annotation that records, in the write that sets a claimRef, that it is ours."""
        return {self.claim_ref: f"{claim.key}/{claim.uid}"}

    def claim_ref_is_ours(self, volume: Volume) -> bool:
        """Whether a reservation of ours wrote the volume's claimRef, as far as it still names the same claim.

        Never that of a pinned volume, which no end of a reservation may remove.
        """
        reference = volume.claim
        if reference is None or self.pin_keys(volume):
            return False
        written, named = value_of(volume.annotations, self.claim_ref) or "", f"{reference.key}/"
        return written == named + reference.uid if reference.uid else written.startswith(named)

    def keys_on_volume(self, volume: Volume) -> tuple[str, ...]:
        """Return the keys of a reservation, broken or complete, on the volume."""
        return tuple(key for key, _ in volume.annotations if key in self._of_volume)

    def pin_keys(self, volume: Volume) -> tuple[str, ...]:
        """Return the keys, valid or not, that keep the volume for a name without an end (binder.reservation.pins)."""
        return tuple(key for key, _ in volume.annotations if key in self._of_pins)

    def keys_on_claim(self, claim: Claim) -> tuple[str, ...]:
        """Return the keys of a reservation, broken or complete, on the claim."""
        return tuple(key for key, _ in claim.annotations if key in self._of_claim)

    def provision_keys_on_claim(self, claim: Claim) -> tuple[str, ...]:
        """Return the keys on the claim by which mode provision records what it did about it."""
        return tuple(key for key, _ in claim.annotations if key in {self.selected_at, self.awaits_node})

    def any_on(self, volume: Volume) -> bool:
        """Whether the volume carries an annotation of ours, known or not."""
        return any(key.startswith(self.prefix) for key, _ in volume.annotations)

    def carries_gate(self, pod: Pod) -> bool:
        """Whether the pod waits for us before kube-scheduler may consider it."""
        return self.gate in pod.scheduling_gates

    def other_gates(self, pod: Pod) -> tuple[str, ...]:
        """Return the gates that other components have to remove."""
        return tuple(gate for gate in pod.scheduling_gates if gate != self.gate)

    @cached_property
    def _required(self) -> tuple[str, ...]:
        return (self.reserved_for, self.reserved_for_uid, self.bound_at, self.expires_at, self.reserved_by)

    @cached_property
    def _of_volume(self) -> frozenset[str]:
        optional = (self.claim_ref, self.reserved_for_pod, self.reserved_zone, self.reserved_nodes)
        return frozenset((*self._required, *optional))

    @cached_property
    def _of_pins(self) -> frozenset[str]:
        of_hold = (self.hold_claim, self.hold_set, self.hold_holder)
        return frozenset((*of_hold, self.replaces, self.was_for, self.namespace_uid))

    @cached_property
    def _of_claim(self) -> frozenset[str]:
        return frozenset(
            (self.reserved_volume, self.bound_at, self.expires_at, self.reserved_zone, self.reserved_nodes)
        )

    def _place(self, values: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
        nodes = tuple(node for node in values.get(self.reserved_nodes, "").split(",") if node)
        return values.get(self.reserved_zone, ""), nodes

    def _unreadable(self, values: Iterable[tuple[str, object]]) -> Parsed[R]:
        return Parsed(None, tuple(key.removeprefix(self.prefix) for key, value in values if value is None))


def format_time(moment: datetime) -> str:
    """Format a time as RFC 3339 in UTC with seconds, as Kubernetes does."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def parse_time(text: str | None) -> datetime | None:
    """Parse an RFC 3339 time with its offset; None if it is invalid."""
    try:
        moment = datetime.fromisoformat(text or "")
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _duration(text: str | None) -> timedelta | None:
    try:
        return None if text is None else parse_duration(text)
    except ValueError:
        return None


def _is_in_force(begin: datetime, end: datetime, now: datetime) -> bool:
    """Whether the time from begin to end is not over, nor so far ahead that the clock was set back since.

    Clocks of replicas differ, so being ahead is no reason by itself; but nothing may last twice its lifetime.
    """
    return now < end and begin - now <= end - begin


def _claim_key(text: str | None) -> str | None:
    namespace, slash, name = (text or "").partition("/")
    return text if namespace and slash and name and "/" not in name else None
