"""The schedule of a seed: the same seed gives the same operations at the same times.

How the processes interleave between them is not determined by the seed: a seed that found something finds it again
often, but not always.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import merge
from random import Random
from typing import Final

from soak.forgeries import FORGERIES
from soak.terrain import CLASSES, NODES, PODS, POOL_PODS, SET_REPLICAS, volume_name, volumes

OPERATIONS_A_SECOND: Final = 9.0
"""Operations, on average; they come in bursts."""
_OF_SETS_A_SECOND: Final = 0.35
_OF_POOLS_A_SECOND: Final = 0.8

_USERS: Final[dict[str, float]] = {
    "create-pod": 30,
    "create-claims": 2,
    "delete-pod": 4,
    "delete-pod-and-claims": 14,
    "recreate-pod-and-claims": 8,
    "delete-claims": 2,
    "restart-pod": 8,
    "forge-on-claim": 6,
    "forge-on-pod": 2,
}
# Repairs are more frequent than damage, or nothing could be bound any more after a while.
_ADMINISTRATORS: Final[dict[str, float]] = {
    "free-released": 12,
    "recreate-volume": 5,
    "set-claim-ref": 2,
    "clear-claim-ref": 6,
    "garbage-on-volume": 3,
    "garbage-on-claim": 2,
    "steal-annotations": 2,
    "strip-annotations": 2,
    "forge-on-volume": 3,
    "forge-on-node": 0.5,
    "touch-volume": 8,
    "mark-unhealthy": 5,
    "mark-healthy": 16,
    "cordon": 1,
    "uncordon": 4,
    "taint": 0.7,
    "untaint": 3,
    "lose-node": 0.4,
    "return-nodes": 1.5,
    "flip-mode": 1.2,
}
_OF_SETS: Final[dict[str, float]] = {
    "scale-set": 6,
    "delete-set-replica": 2,
    "delete-set": 0.3,
    "lose-set-volume": 1,
    "replace-set-volumes": 4,
    "keep-volume": 1,
    "give-volumes-free": 1.5,
}
"""What is done with the StatefulSet for whose replicas to come volumes are held."""
_OF_POOLS: Final[dict[str, float]] = {
    "create-pool-pod": 8,
    "delete-pool-pod": 4,
    "recreate-pool-pod": 2,
    "select-node": 0.5,
}
"""What is done with pods whose volumes are still to be made."""
_FAULTS: Final[dict[str, float]] = {
    "kill-leader": 3,
    "kill-standby": 1,
    "pause-leader": 5,
    "stop-leader": 1,
    "kill-scheduler": 1,
    "pause-scheduler": 1,
    "kill-api-server": 1,
    "stop-api-server": 1,
    "kill-etcd": 1,
    "pause-controller-manager": 2,
    "kill-controller-manager": 0.5,
    "pause-kube-scheduler": 2,
    "kill-kube-scheduler": 0.5,
}
GATEWAY_KINDS: Final = (
    "lose-answers",
    "fail-after-write",
    "answer-late",
    "reject-writes",
    "vanish-after-write",
)
"""Of the network's faults those that tell writes from reads: see soak.stage.gateway."""
_NETWORK: Final[dict[str, float]] = {
    **{"lag": 5, "slow": 3, "cutting": 2, "cut-once": 3, "silent": 2},
    **dict.fromkeys(GATEWAY_KINDS, 3),
}
_DRIVER: Final[dict[str, float]] = {
    "hang-driver": 3,
    "flood-driver": 3,
    "lie-driver": 4,
    "pause-driver": 2,
    "kill-driver": 1,
}
_PROVISIONER: Final[dict[str, float]] = {"kill-provisioner": 2, "pause-provisioner": 3}
OPERATION_KINDS: Final = (*_USERS, *_ADMINISTRATORS, *_OF_SETS, *_OF_POOLS)
FAULT_KINDS: Final = tuple(_FAULTS)
NETWORK_KINDS: Final = tuple(_NETWORK)
DRIVER_KINDS: Final = tuple(_DRIVER)
PROVISIONER_KINDS: Final = tuple(_PROVISIONER)
_MODES: Final = ("complete", "complete", "complete", "prebind", "prebind", "annotate", "off", "Complete!")
_STATES: Final = ("Degraded", "Inaccessible", "Inaccessible", "DataLoss")


@dataclass(frozen=True, slots=True)
class Operation:
    """`at` seconds after the start; `subject` and `detail` depend on the kind; `seconds` is how long a fault lasts."""

    at: float
    kind: str
    subject: str = ""
    detail: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        lasting = f" for {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.at:7.2f} {self.kind} {self.subject} {self.detail}".rstrip() + lasting


@dataclass(frozen=True, slots=True)
class Setting:
    """The differences between the replicas of this seed."""

    skews: tuple[float, float]
    """Seconds by which each replica's clock is ahead."""
    slow_replica: int | None
    """The replica that has one request a second."""
    quarantine: bool
    reservation_ttl: str
    sets: bool = False
    """Whether there is a StatefulSet, whose volumes are held, lost and replaced."""
    pools: bool = False
    """Whether there is a class whose volumes are still to be made: it needs external-provisioner."""

    def __str__(self) -> str:
        words = [f"reservations of {self.reservation_ttl}", f"quarantine {'on' if self.quarantine else 'off'}"]
        words += [f"controller-{number}'s clock {_ahead(skew)}" for number, skew in enumerate(self.skews) if skew]
        if self.slow_replica is not None:
            words.append(f"controller-{self.slow_replica} limited to one request a second")
        words += ["with a StatefulSet"] if self.sets else []
        words += ["with pools"] if self.pools else []
        return ", ".join(words)


def _ahead(seconds: float) -> str:
    return f"{abs(seconds):.0f} s {'ahead' if seconds > 0 else 'behind'}"


@dataclass(frozen=True, slots=True)
class Schedule:
    seed: int
    seconds: float
    setting: Setting
    operations: tuple[Operation, ...]
    faults: tuple[Operation, ...]
    network: tuple[Operation, ...]
    driver: tuple[Operation, ...]
    provisioner: tuple[Operation, ...]
    """The five are executed concurrently."""

    @property
    def troubles(self) -> tuple[Operation, ...]:
        """All faults."""
        return (*self.faults, *self.network, *self.driver, *self.provisioner)


def schedule(seed: int, seconds: float, *, sets: bool = False, pools: bool = False) -> Schedule:
    """Return the schedule of a seed. A longer run of the same seed begins with the same operations; one with sets or
    pools has those of the same seed without.
    """
    # One source each: draws from one do not affect the others.
    setting = replace(_setting(Random(f"{seed}/setting")), sets=sets, pools=pools)
    single = _operations(Random(f"{seed}/operations"), seconds)
    of_pools = _of_pools(Random(f"{seed}/pools"), seconds if pools else 0.0)
    of_sets = _of_sets(Random(f"{seed}/sets"), seconds if sets else 0.0)
    operations = merge(single, of_sets, of_pools, key=lambda each: each.at)
    faults = _one_by_one(Random(f"{seed}/faults"), seconds, _FAULTS)
    network = _one_by_one(Random(f"{seed}/network"), seconds, _NETWORK)
    driver = _one_by_one(Random(f"{seed}/driver"), seconds, _DRIVER)
    provisioner = _one_by_one(Random(f"{seed}/provisioner"), seconds if pools else 0.0, _PROVISIONER)
    return Schedule(seed, seconds, setting, tuple(operations), faults, network, driver, provisioner)


def _setting(throw: Random) -> Setting:
    return Setting(
        skews=(0.0, throw.choice((0.0, -90.0, -20.0, 7.0, 45.0))),
        slow_replica=throw.choice((None, 0, 0, 1)),
        quarantine=throw.random() < 0.5,
        reservation_ttl=throw.choice(("10m", "10m", "60s")),
    )


def _operations(throw: Random, seconds: float) -> tuple[Operation, ...]:
    at = 0.0
    operations: list[Operation] = []
    kinds = _USERS | _ADMINISTRATORS
    while True:
        # Bursts: half of the operations follow at once.
        at += throw.expovariate(OPERATIONS_A_SECOND / 2) if throw.random() < 0.5 else 0.01
        if at >= seconds:
            return tuple(operations)
        kind = throw.choices(list(kinds), list(kinds.values()))[0]
        subject, detail = (_forgery if kind in FORGERIES else _about)(kind, throw)
        operations.append(Operation(round(at, 3), kind, subject, detail))


def _of_sets(throw: Random, seconds: float) -> Iterator[Operation]:
    at = throw.expovariate(_OF_SETS_A_SECOND)
    while at < seconds:
        kind = throw.choices(list(_OF_SETS), list(_OF_SETS.values()))[0]
        subject = "/".join(map(str, throw.choice(volumes())))
        detail = _of_a_set(throw)
        yield Operation(round(at, 3), kind, subject, detail)
        at += throw.expovariate(_OF_SETS_A_SECOND)


def _of_pools(throw: Random, seconds: float) -> Iterator[Operation]:
    at = throw.expovariate(_OF_POOLS_A_SECOND)
    while at < seconds:
        kind = throw.choices(list(_OF_POOLS), list(_OF_POOLS.values()))[0]
        detail = throw.choice(("gated", "gated", "gated", "open"))
        yield Operation(round(at, 3), kind, str(throw.randrange(POOL_PODS)), detail)
        at += throw.expovariate(_OF_POOLS_A_SECOND)


def _of_a_set(throw: Random) -> str:
    """Replicas, or an ordinal; and for how many replicas volumes are held, mostly for more than the limit allows."""
    replicas = throw.choice((0, 0, 1, 1, 2, 3, 4))
    more = throw.choice((-replicas, 1, 2, SET_REPLICAS, SET_REPLICAS, SET_REPLICAS))
    return f"{replicas} {min(replicas + more, SET_REPLICAS)}"


def _about(kind: str, throw: Random) -> tuple[str, str]:
    pod, volume = str(throw.randrange(PODS)), "/".join(map(str, throw.choice(volumes())))
    detail = ""
    if kind in {"create-pod", "recreate-pod-and-claims", "restart-pod"}:
        detail = throw.choice(("gated", "gated", "open"))
    if kind in _USERS or kind == "garbage-on-claim":
        return pod, detail
    if kind in {"cordon", "uncordon", "taint", "untaint", "lose-node"}:
        return throw.choice(NODES), ""
    if kind == "flip-mode":
        return throw.choice(list(CLASSES)), throw.choice(_MODES)
    if kind in {"free-released", "return-nodes"}:
        return "", ""
    if kind == "set-claim-ref":
        detail = f"{pod} {throw.choice(('name', 'name', 'uid'))}"
    elif kind == "mark-unhealthy":
        detail = throw.choice(_STATES)
    elif kind == "steal-annotations":
        detail = volume_name(*throw.choice(volumes()))
    elif kind == "garbage-on-volume":
        detail = throw.choice(("reserved-for", "reserved-for-uid", "expires-at", "bound-at", "reserved-by", "health"))
    return volume, detail


def _forgery(kind: str, throw: Random) -> tuple[str, str]:
    named = volume_name(*throw.choice(volumes()))
    detail = f"{throw.choice(FORGERIES[kind])} {named} {throw.randrange(PODS)}"
    if kind == "forge-on-node":
        return throw.choice(NODES), detail
    if kind == "forge-on-volume":
        return "/".join(map(str, throw.choice(volumes()))), detail
    return str(throw.randrange(PODS)), detail


def _one_by_one(throw: Random, seconds: float, kinds: dict[str, float]) -> tuple[Operation, ...]:
    """Faults that do not overlap, each followed by time to recover."""
    at = throw.uniform(4, 10)
    operations: list[Operation] = []
    while at < seconds:
        kind = throw.choices(list(kinds), list(kinds.values()))[0]
        lasting = throw.uniform(*_LASTING.get(kind, (1.0, 8.0)))
        subject = str(throw.randrange(2)) if kinds is _NETWORK else ""
        detail = f"{throw.uniform(0.1, 1.5):.2f}" if kind in {"slow", "cutting", "lag"} else ""
        if kind in GATEWAY_KINDS:
            # The timeout of the leader's requests is 5 s: some answers come after it.
            detail = f"{throw.uniform(0.5, 7.0):.2f}"
        operations.append(Operation(round(at, 3), kind, subject, detail, round(lasting, 1)))
        at += lasting + throw.uniform(3, 12)
    return tuple(operations)


_LASTING: Final = {
    "pause-leader": (2.0, 25.0),
    "pause-scheduler": (2.0, 20.0),
    "silent": (3.0, 25.0),
    "slow": (4.0, 20.0),
    "lag": (5.0, 30.0),
    "cutting": (4.0, 15.0),
    "cut-once": (0.1, 0.2),
    "vanish-after-write": (2.0, 12.0),
    "kill-api-server": (0.1, 3.0),
    "stop-api-server": (0.1, 3.0),
    "kill-etcd": (0.1, 3.0),
    "pause-provisioner": (2.0, 20.0),
    "hang-driver": (5.0, 45.0),
    "flood-driver": (5.0, 45.0),
    "pause-driver": (5.0, 45.0),
    "lie-driver": (5.0, 20.0),
}
