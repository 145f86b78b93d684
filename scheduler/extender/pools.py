"""Which nodes the extender rejects because their storage cannot take all that is provisioned for a pod.

kube-scheduler compares each claim alone with the driver's report (`hasEnoughCapacity` in plugins/volumebinding/
binder.go). Of pods that it has assumed a moment ago nothing is known here, so in a burst this is a hint.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from binder.matching.matching import class_of
from binder.provisioning.claims_in_flight import size_of
from binder.provisioning.ledger import PoolLedger
from binder.provisioning.pool import PoolKey
from binder.provisioning.sums import bytes_text, provided_by, room_text
from kube.objects.model import WAIT_FOR_FIRST_CONSUMER, Claim
from scheduler.extender.rules import Storage


def full_nodes(
    names: Iterable[str], claims: Sequence[Claim], storage: Storage, ledger: PoolLedger, now: datetime
) -> dict[str, str]:
    """Return the nodes whose pools do not take what is provisioned for these claims of a pod, and why not."""
    made = [claim for claim in claims if _is_made(claim, storage)]
    full = _full_pools(made, ledger, now) if made else {}
    if not full:
        return {}
    nodes, classes = storage.snapshot.nodes, dict.fromkeys(map(class_of, made))
    rejected: dict[str, str] = {}
    for name in names:
        node = nodes.get(name)
        labels = dict(node.labels) if node is not None else {}
        pools = (pool.key for each in classes for pool in ledger.pools_of(each, labels)) if node is not None else ()
        why = next((full[key] for key in pools if key in full), "")
        if why:
            rejected[name] = why
    return rejected


def _is_made(claim: Claim, storage: Storage) -> bool:
    """Whether a volume is provisioned for the claim wherever its pod runs, by a driver that counts capacity."""
    snapshot = storage.snapshot
    storage_class = snapshot.classes.get(class_of(claim))
    if claim.volume_name or storage_class is None or storage_class.binding_mode != WAIT_FOR_FIRST_CONSUMER:
        return False
    if provided_by(claim, snapshot) is None or claim.key in snapshot.volumes_by_claim:
        return False
    return not (storage.clear.by_topology(claim) or storage.suspect.by_topology(claim))


def _full_pools(made: Iterable[Claim], ledger: PoolLedger, now: datetime) -> Mapping[PoolKey, str]:
    """Return the pools that do not take the claims of their classes. The pod's own bookings do not count."""
    by_family: dict[str, list[Claim]] = {}
    for claim in made:
        by_family.setdefault(ledger.families.get(class_of(claim), ""), []).append(claim)
    sizes = {family: [size_of(claim) for claim in claims] for family, claims in by_family.items()}
    wanted = {family: _wanted(claims) for family, claims in by_family.items()}
    own = {claim.uid for claim in made}
    full: dict[PoolKey, str] = {}
    for key, pool in ledger.pools.items():
        if key.family in sizes:
            room = pool.room(now, own)
            if not room.may_fit(*sizes[key.family]):
                full[key] = f"{wanted[key.family]}: {room_text(room)}"
    return full


def _wanted(claims: Sequence[Claim]) -> str:
    names = ", ".join(claim.name for claim in claims)
    what = f"claim {names} needs" if len(claims) == 1 else f"claims {names} together need"
    return f"{what} {bytes_text(sum(map(size_of, claims)))}"
