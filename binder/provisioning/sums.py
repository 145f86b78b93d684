"""Whether all volumes that a pod still needs from a pool fit into it together."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import inf
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
    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        return sum(self.sizes)


@dataclass(frozen=True, slots=True)
class WantedVolumes:
    """Claims for which volumes are to be made, the same for each node: their classes, and by class those that need room
    in a pool, with their sizes. `own` are their uids.

    Drivers that do not report capacity have no pool, as in kube-scheduler: their claims need nothing.
    """

    classes: tuple[str, ...]
    by_class: tuple[tuple[str, tuple[Claim, ...], tuple[int, ...]], ...]
    own: frozenset[str]

    @classmethod
    def of(cls, claims: Iterable[Claim], snapshot: Snapshot) -> "WantedVolumes":
        by_class: dict[str, list[Claim]] = {}
        wanted = tuple(dict.fromkeys(claims))
        for claim in wanted:
            if provided_by(claim, snapshot) is not None:
                by_class.setdefault(class_of(claim), []).append(claim)
        parts = ((name, tuple(those), tuple(map(size_of, those))) for name, those in by_class.items())
        classes = tuple(dict.fromkeys(map(class_of, wanted)))
        return cls(classes, tuple(parts), frozenset(claim.uid for claim in wanted))

    def sums(
        self, pools_of: Callable[[str], Iterable[PoolKey]], room_of: Callable[[PoolKey], PoolRoom]
    ) -> tuple[Sum, ...]:
        """Return what is needed of each pool of a node, which has these `pools_of` a class."""
        if len(self.by_class) == 1:
            ((name, claims, sizes),) = self.by_class
            return tuple([Sum(key, room_of(key), claims, sizes) for key in pools_of(name)])
        needed: dict[PoolKey, tuple[tuple[Claim, ...], tuple[int, ...]]] = {}
        for name, claims, sizes in self.by_class:
            for key in pools_of(name):
                before, sizes_before = needed.get(key, ((), ()))
                needed[key] = (*before, *claims), (*sizes_before, *sizes)
        return tuple(Sum(key, room_of(key), *each) for key, each in needed.items())


def sums_on(
    claims: Iterable[Claim], labels: Mapping[str, str], snapshot: Snapshot, ledger: PoolLedger, now: datetime
) -> tuple[Sum, ...]:
    """Return what the claims, for which volumes are to be made, need of each pool of a node with these labels.

    Their own bookings do not count: a pod that is tried again would be in its own way.
    """
    wanted = WantedVolumes.of(claims, snapshot)
    return wanted.sums(
        lambda name: (pool.key for pool in ledger.pools_of(name, labels)),
        lambda key: ledger.pools[key].room(now, wanted.own),
    )


def reject_sum(
    claims: Iterable[Claim], node: Node, snapshot: Snapshot, ledger: PoolLedger, now: datetime, *, certain: bool
) -> Rejection | None:
    """Return why a node's pools do not take all these claims, None if they do.

    `certain`: only if they surely do, as before something is written; otherwise unless they surely do not.
    """
    lacking = first_lacking(sums_on(claims, dict(node.labels), snapshot, ledger, now), certain=certain)
    return None if lacking is None else rejection(lacking, node)


def first_lacking(sums: Iterable[Sum], *, certain: bool) -> Sum | None:
    """Return the first that does not fit into its pool, None if all do."""
    for needed in sums:
        if not (needed.room.fits if certain else needed.room.may_fit)(*needed.sizes):
            return needed
    return None


def left_after(sums: Iterable[Sum]) -> float:
    """Return how many bytes are left of the scarcest pool once these volumes are made; infinite without a limit."""
    return min([each.room.left - each.size for each in sums if each.room.left is not None], default=inf)


def rejection(lacking: Sum, node: Node) -> Rejection:
    """Say that the node's pool does not take them."""
    return Rejection(Reason.INSUFFICIENT_STORAGE, node.name, _wanted(lacking), room_text(lacking.room))


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
