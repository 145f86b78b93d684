"""A pod without a node whose storage already says where it can run, derived from objects alone.

What says so are the volumes to which its claims are bound, or that name its claims, the volumes reserved for it, and
nodes selected for volumes that are being provisioned, whichever component wrote that. A pod that cannot run as things
are, because a claim of it is missing, Lost or being deleted, or another component's gate holds it, is none:
kube-scheduler rejects it before it looks at any node (volumebinding PreFilter).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from binder.matching.claim_state import unusable_state
from binder.matching.controller_match import committed_volume
from binder.matching.matching import binding_mode, class_of, requested_rejection
from binder.model.ledger import Ledger
from binder.reservation.contract import Annotations
from binder.reservation.set_aside import set_aside_for
from kube.objects.model import SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER, Claim, Pod, Volume, value_of
from kube.persistent_map import Map
from kube.store.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod and what ties it.

    `released`: nothing of ours holds it back, so kube-scheduler may place it at any moment. `volumes`: those that it
    has or will have. `hints`: volumes reserved for its other claims by annotation, with their claims. `nodes`: the only
    ones possible for what is being provisioned, None for all; `made`: the claims of that. `open`: claims that may still
    get any volume. `bound`: all of its claims are bound. `begun`: a volume was committed to it, not to a pod before it
    that used the same claim; so it stays while the claim is bound and the volume still has the reservation.
    `ahead`: since when it has volumes for which no node existed, None if one did.
    """

    pod: Pod
    released: bool
    volumes: tuple[Volume, ...] = ()
    hints: tuple[tuple[Claim, Volume], ...] = ()
    nodes: frozenset[str] | None = None
    made: tuple[Claim, ...] = ()
    open: tuple[Claim, ...] = ()
    bound: bool = False
    begun: bool = False
    ahead: datetime | None = None

    def reserved(self, annotations: Annotations, now: datetime) -> tuple[Volume, ...]:
        """Return the volumes that it has, and those that are reserved for it at this time."""
        return (*self.volumes, *(volume for claim, volume in self.hints if _holds(annotations, volume, claim, now)))


@dataclass(slots=True)
class _TieSet:
    volumes: list[Volume] = field(default_factory=list)
    hints: list[tuple[Claim, Volume]] = field(default_factory=list)
    nodes: set[str] = field(default_factory=set)
    made: list[Claim] = field(default_factory=list)
    open: list[Claim] = field(default_factory=list)
    bound: bool = True
    begun: bool = False


def waiting_pod(
    snapshot: Snapshot, annotations: Annotations, pod: Pod, ledger: Ledger | None = None
) -> WaitingPod | None:
    """Return what ties the pod to nodes; None if nothing does, it has a node, or it cannot run as things are."""
    if not pod.claims or pod.node_name or pod.deleting or pod.finished or annotations.other_gates(pod):
        return None
    ties, ledger = _TieSet(), ledger or Ledger()
    ephemeral = {claim.name for claim in pod.claims if claim.ephemeral}
    for key in pod.claim_keys:
        claim = snapshot.claims.get(key)
        owned = claim is not None and claim.name in ephemeral
        if claim is None or unusable_state(claim, pod.uid if owned else "") is not None:
            return None
        if claim.volume_name:
            runs = _bound(snapshot, annotations, pod, claim, ties)
        else:
            runs = _unbound(snapshot, annotations, pod, claim, ties, ledger)
        if not runs:
            return None
    if not (ties.volumes or ties.hints or ties.nodes):
        return None
    lifted = ledger.lifts.get(pod.key) == pod.uid or any(True for _ in ledger.of_pod(pod.key))
    lifted = lifted or any(ledger.node_of(claim.key, claim.uid) for claim in ties.made)
    return WaitingPod(
        pod=pod,
        released=lifted or not annotations.carries_gate(pod),
        volumes=tuple(ties.volumes),
        hints=tuple(ties.hints),
        nodes=_common(ties.nodes),
        made=tuple(ties.made),
        open=tuple(ties.open),
        bound=ties.bound,
        begun=ties.begun,
        ahead=_ahead(annotations, ties.volumes, pod),
    )


def _ahead(annotations: Annotations, volumes: Iterable[Volume], pod: Pod) -> datetime | None:
    return min((since for volume in volumes if (since := annotations.awaits_node_since(volume, pod))), default=None)


def _common(nodes: set[str]) -> frozenset[str] | None:
    """Return the nodes that all the selected ones agree on, None if none is selected."""
    if not nodes:
        return None
    return frozenset(nodes) if len(nodes) == 1 else frozenset()


def _bound(snapshot: Snapshot, annotations: Annotations, pod: Pod, claim: Claim, ties: _TieSet) -> bool:
    """Add the volume that the claim names; False if the pod cannot run with it."""
    volume = snapshot.volumes.get(claim.volume_name)
    if volume is None or not (claim.bind_completed or requested_rejection(claim, volume) is None):
        return False
    ties.volumes.append(volume)
    ties.bound &= claim.bind_finished
    ties.begun |= _made_with(annotations, volume, claim, pod) is True
    return True


def _unbound(
    snapshot: Snapshot, annotations: Annotations, pod: Pod, claim: Claim, ties: _TieSet, ledger: Ledger
) -> bool:
    """Add what ties a claim without a volume; False if the pod cannot run with it."""
    ties.bound = False
    named = [snapshot.volumes[name] for name in sorted(snapshot.volumes_by_claim.get(claim.key, ()))]
    committed = _held(snapshot, claim, ledger) or committed_volume(claim, snapshot.classes, named)
    if committed is not None:
        ties.volumes.append(committed)
        ties.begun |= _made_with(annotations, committed, claim, pod) is not False
        return True
    storage_class = snapshot.classes.get(class_of(claim))
    if storage_class is None or binding_mode(claim, snapshot.classes) != WAIT_FOR_FIRST_CONSUMER:
        return False
    selected = value_of(claim.annotations, SELECTED_NODE) or ledger.node_of(claim.key, claim.uid)
    if selected:
        ties.nodes.add(selected)
        ties.made.append(claim)
        return storage_class.provisions
    aside = set_aside_for(claim, snapshot, annotations)
    if aside is not None:
        ties.volumes.append(aside)
        return True
    hint = _hint(snapshot, annotations, claim)
    if hint is not None:
        ties.hints.append((claim, hint))
    else:
        ties.open.append(claim)
    return True


def _made_with(annotations: Annotations, volume: Volume, claim: Claim, pod: Pod) -> bool | None:
    """Return whether the volume was reserved for the claim when the pod existed; None if no reservation says so."""
    reservation = annotations.reservation_of(volume)
    if reservation is None or not reservation.is_for(claim):
        return None
    return reservation.was_made_with(pod)


def _held(snapshot: Snapshot, claim: Claim, ledger: Ledger) -> Volume | None:
    held = sorted(hold.volume for hold in ledger.of_claim(claim.key) if hold.claim_uid == claim.uid)
    return next((snapshot.volumes[name] for name in held if name in snapshot.volumes), None)


def _hint(snapshot: Snapshot, annotations: Annotations, claim: Claim) -> Volume | None:
    """Return the free volume whose own annotations reserve it for the claim: no user of a namespace writes them."""
    for name in sorted(snapshot.volumes_reserved_for.get(claim.key, ())):
        volume = snapshot.volumes[name]
        reservation = annotations.reservation_of(volume)
        if (
            reservation is not None
            and reservation.is_for(claim)
            and volume.claim is None
            and volume.phase == "Available"
        ):
            return volume
    return None


def _holds(annotations: Annotations, volume: Volume, claim: Claim, now: datetime) -> bool:
    reservation = annotations.reservation_of(volume)
    return reservation is not None and reservation.holds(now, claim)


Waiting = Map[str, WaitingPod]
"""Waiting pods by key, as the objects show them."""


def all_waiting(snapshot: Snapshot, annotations: Annotations) -> Waiting:
    """Return all waiting pods of a snapshot."""
    return refreshed(Map(), snapshot.pods, snapshot, annotations)


def refreshed(known: Waiting, keys: Iterable[str], snapshot: Snapshot, annotations: Annotations) -> Waiting:
    """Return the waiting pods after changes that may concern the pods with these keys."""
    return _updated(known, keys, snapshot, annotations, Ledger())


def _updated(
    known: Waiting, keys: Iterable[str], snapshot: Snapshot, annotations: Annotations, ledger: Ledger
) -> Waiting:
    mutation = known.mutate()
    for key in keys:
        pod = snapshot.pods.get(key)
        try:
            waiting = None if pod is None else waiting_pod(snapshot, annotations, pod, ledger)
        except Exception:  # One malformed pod must not affect the others; planning it fails, and says so.
            waiting = None
        if waiting is not None:
            mutation[key] = waiting
        elif key in mutation:
            del mutation[key]
    return mutation.finish()


def with_ledger(known: Waiting, ledger: Ledger, snapshot: Snapshot, annotations: Annotations) -> Waiting:
    """Return the waiting pods with what is not visible yet: holds, for every pod that uses the claim, and lifts."""
    keys = {*_users(snapshot, ledger), *ledger.lifts}
    return _updated(known, keys, snapshot, annotations, ledger) if keys else known


def _users(snapshot: Snapshot, ledger: Ledger) -> Iterator[str]:
    claims = chain(ledger.by_claim, ledger.selections)
    return chain.from_iterable(snapshot.pods_by_claim.get(claim, ()) for claim in claims)
