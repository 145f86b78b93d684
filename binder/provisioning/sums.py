"""Whether all volumes that a pod still needs from a pool fit into it together."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from binder.matching.evidence import quantity_text
from binder.matching.matching import class_of
from binder.matching.rejection import Reason, Rejection
from binder.provisioning.claims_in_flight import size_of
from binder.provisioning.ledger import PoolLedger
from binder.provisioning.pool import PoolKey, PoolRoom
from kube.objects.model import Claim, CSIDriver, Node
from kube.rules.quantity import NANO
from kube.store.snapshot import Snapshot

MAX_NAMED: Final = 3
"""Claims in flight that a message names."""


@dataclass(frozen=True, slots=True)
class Sum:
    """What a pod needs of one pool, and what is left there."""

    pool: PoolKey
    room: PoolRoom
    claims: tuple[Claim, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(size_of, self.claims))

    @property
    def size(self) -> int:
        return sum(self.sizes)


def sums_on(
    claims: Iterable[Claim], labels: Mapping[str, str], snapshot: Snapshot, ledger: PoolLedger, now: datetime
) -> tuple[Sum, ...]:
    """Return what the claims, for which volumes are to be made, need of each pool of a node with these labels.

    Their own bookings do not count: a pod that is tried again would be in its own way. Drivers that do not report
    capacity have no pool, as in kube-scheduler.
    """
    needed: dict[PoolKey, list[Claim]] = {}
    wanted = tuple(dict.fromkeys(claims))
    for claim in wanted:
        if provided_by(claim, snapshot) is not None:
            for pool in ledger.pools_of(class_of(claim), labels):
                needed.setdefault(pool.key, []).append(claim)
    own = frozenset(claim.uid for claim in wanted)
    return tuple(Sum(key, ledger.pools[key].room(now, own), tuple(claims)) for key, claims in needed.items())


def reject_sum(
    claims: Iterable[Claim], node: Node, snapshot: Snapshot, ledger: PoolLedger, now: datetime, *, certain: bool
) -> Rejection | None:
    """Return why a node's pools do not take all these claims, None if they do.

    `certain`: only if they surely do, as before something is written; otherwise unless they surely do not.
    """
    for needed in sums_on(claims, dict(node.labels), snapshot, ledger, now):
        room = needed.room
        if not (room.fits if certain else room.may_fit)(*needed.sizes):
            return Rejection(Reason.INSUFFICIENT_STORAGE, node.name, _wanted(needed), room_text(room))
    return None


def _wanted(needed: Sum) -> str:
    names = ", ".join(sorted({class_of(claim) for claim in needed.claims}))
    if len(needed.claims) == 1:
        return f"{bytes_text(needed.size)} of class {names} for {needed.claims[0].key}"
    keys = ", ".join(claim.key for claim in needed.claims)
    return f"{bytes_text(needed.size)} of class {names} for {keys} together"


def room_text(room: PoolRoom) -> str:
    """Return what is left: `100Gi left of 200Gi, 100Gi in flight for web/db-1`."""
    if room.left is None:
        return "no limit known"
    if room.reported < 0:
        return "no capacity reported"
    text = f"{bytes_text(max(room.left, 0))} left of {bytes_text(room.reported)}"
    if room.in_flight:
        claims = sorted({booking.claim for booking in room.in_flight})
        more = f" and {len(claims) - MAX_NAMED} more" if len(claims) > MAX_NAMED else ""
        text += f", {bytes_text(room.booked)} in flight for {', '.join(claims[:MAX_NAMED])}{more}"
    return text if room.largest is None else f"{text}, at most {bytes_text(room.largest)} in one volume"


def bytes_text(size: int) -> str:
    """Return a number of bytes as Kubernetes writes quantities."""
    return quantity_text(size * NANO)


def provided_by(claim: Claim, snapshot: Snapshot) -> CSIDriver | None:
    """Return the driver of the claim's class if it counts capacity."""
    storage_class = snapshot.classes.get(class_of(claim))
    driver = snapshot.csi_drivers.get(storage_class.provisioner) if storage_class is not None else None
    return driver if driver is not None and driver.storage_capacity else None
