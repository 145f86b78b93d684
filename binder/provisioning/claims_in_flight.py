"""Which claims have a volume in flight, and where, by the objects of a snapshot."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from binder.matching.matching import binding_mode, class_of
from binder.provisioning.ledger import Ignored, PoolLedger, Why
from binder.provisioning.pool import InFlight, PoolKey
from binder.reservation.contract import Annotations, parse_time
from kube.objects.model import (
    PROVISIONED_BY,
    PROVISIONER_ANNOTATIONS,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    Claim,
    Node,
    StorageClass,
    Volume,
    value_of,
)
from kube.rules.quantity import whole_units
from kube.rules.selectors import node_matches
from kube.rules.topology import HOSTNAME_LABEL
from kube.store.snapshot import Snapshot

EXPANSION = "/expansion"
"""Ends the id of what is added to a volume; the claim's uid is in front of it."""

Placed = tuple[InFlight, tuple[PoolKey, ...]]


def is_begun(claim: Claim) -> bool:
    """Whether a provisioner may have been called for the claim: the PV controller writes that first."""
    return any(value_of(claim.annotations, key) is not None for key in PROVISIONER_ANNOTATIONS)


def size_of(claim: Claim) -> int:
    """Return the request in bytes, rounded up as Kubernetes compares it."""
    return whole_units(claim.request)


def to_be_made(claim: Claim, now: datetime) -> InFlight:
    """Return the booking of a volume that we are about to have made, before its claim shows it."""
    return InFlight(claim.uid, claim.key, size_of(claim), now, ours=True)


def with_booked(ledger: PoolLedger, claim: Claim, node: Node, now: datetime) -> PoolLedger:
    """Return the ledger with the volume that is about to be made for the claim on this node."""
    pools = tuple(pool.key for pool in ledger.pools_of(class_of(claim), dict(node.labels)))
    return ledger.booked(to_be_made(claim, now), pools) if pools else ledger


def claim_in_flight(
    claim: Claim, snapshot: Snapshot, ledger: PoolLedger, annotations: Annotations, now: datetime
) -> Placed | Ignored | None:
    """Return what a claim without a volume has in flight; None if nothing is selected for it."""
    selected = value_of(claim.annotations, SELECTED_NODE)
    if not selected or claim.volume_name:
        return None
    ours = parse_time(value_of(claim.annotations, annotations.selected_at)) is not None
    known = ledger.booking(claim.uid)
    since = known.since if known is not None else now
    booking = InFlight(claim.uid, claim.key, size_of(claim), since, ours, is_begun(claim))
    node = snapshot.nodes.get(selected)
    if node is None and known is not None:  # A provisioner may be at work although its node is gone.
        return booking, ledger.homes[claim.uid]
    why = _problem(claim, node, snapshot)
    if why is not None or node is None:
        return Ignored(claim.uid, claim.key, selected, why or Why.NODE)
    pools = tuple(pool.key for pool in ledger.pools_of(class_of(claim), dict(node.labels)))
    if pools:
        return booking, pools
    return Ignored(claim.uid, claim.key, selected, Why.NO_REPORT)


def _problem(claim: Claim, node: Node | None, snapshot: Snapshot) -> Why | None:
    """Return why no provisioner makes a volume for the claim at the selected node."""
    storage_class = snapshot.classes.get(class_of(claim))
    if storage_class is None or not storage_class.provisions:
        return Why.CLASS
    if binding_mode(claim, snapshot.classes) != WAIT_FOR_FIRST_CONSUMER and not is_begun(claim):
        return Why.CLASS
    if claim.selector is not None:
        return Why.SELECTOR
    if node is None:
        return Why.NODE
    csi_node = snapshot.csi_nodes.get(node.name)
    if csi_node is None or all(driver.name != storage_class.provisioner for driver in csi_node.drivers):
        return Why.DRIVER
    allowed = storage_class.allowed_topologies
    return Why.TOPOLOGY if allowed is not None and not node_matches(allowed, node.labels) else None


def is_provisioned(volume: Volume) -> bool:
    """Whether a provisioner made the volume for the claim that it names."""
    return (
        value_of(volume.annotations, PROVISIONED_BY) is not None and volume.claim is not None and bool(volume.claim.uid)
    )


def volume_in_flight(
    volume: Volume, snapshot: Snapshot, ledger: PoolLedger, annotations: Annotations, poll: timedelta, now: datetime
) -> Placed | None:
    """Return the booking of a volume that was made; None if no pool is known for it."""
    storage_class, claim = snapshot.classes.get(class_of(volume)), volume.claim
    if storage_class is None or claim is None:
        return None
    made = volume.created or now
    until = made + report_after(storage_class, ledger, annotations, poll)
    pools = _pools_of_volume(volume, snapshot, ledger) or ledger.homes.get(claim.uid, ())
    size = whole_units(volume.capacity)
    return (InFlight(claim.uid, claim.key, size, now, begun=True, made=made, until=until), pools) if pools else None


def expansion_in_flight(
    claim: Claim, volume: Volume, snapshot: Snapshot, ledger: PoolLedger, after: timedelta, now: datetime
) -> Placed | None:
    """Return what is being added to a volume, or was added a while ago."""
    expansion = claim.uid + EXPANSION
    known = ledger.booking(expansion)
    more = size_of(claim) - whole_units(volume.capacity)
    if more > 0:
        since = known.since if known is not None and known.made is None else now
        return InFlight(expansion, claim.key, more, since, begun=True), _pools_of_volume(volume, snapshot, ledger)
    if known is None:
        return None
    made = known.made or now
    return (
        InFlight(expansion, claim.key, known.size, known.since, begun=True, made=made, until=made + after),
        ledger.homes[expansion],
    )


def report_after(
    storage_class: StorageClass, ledger: PoolLedger, annotations: Annotations, poll: timedelta
) -> timedelta:
    """Return how long after it was made a volume is part of every report at the latest.

    By default two rounds of polling, or three seconds for each report of the driver: a provisioner writes one a second
    and asks for all of them in each round (`--kube-api-capacity-qps` 1).
    """
    written = annotations.report_after_of(storage_class)
    if written is not None:
        return written
    return max(2 * poll, timedelta(seconds=3 * ledger.reports_of.get(storage_class.provisioner, 0)))


def _pools_of_volume(volume: Volume, snapshot: Snapshot, ledger: PoolLedger) -> tuple[PoolKey, ...]:
    """Return the pools that its place belongs to: the place is in its affinity."""
    keys: dict[PoolKey, None] = {}
    for labels in _places(volume, snapshot):
        keys.update((pool.key, None) for pool in ledger.pools_of(class_of(volume), labels))
    return tuple(keys)


def _places(volume: Volume, snapshot: Snapshot) -> Iterator[Mapping[str, str]]:
    terms = volume.node_affinity.terms if volume.node_affinity is not None else ()
    if not terms:
        yield {}
    for term in terms:
        labels = {
            requirement.key: requirement.values[0]
            for requirement in term.match_expressions
            if requirement.operator == "In" and len(requirement.values) == 1
        }
        node = snapshot.nodes.get(labels.get(HOSTNAME_LABEL, ""))
        yield {**dict(node.labels), **labels} if node is not None else labels
