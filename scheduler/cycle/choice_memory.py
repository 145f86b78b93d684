"""Caches what a pod's claims get on each node, for equal claims, until the volumes accessible from a node change.

Taking a volume affects few nodes: only its own, when it is local. A volume with health or reservation annotations may
change its meaning a moment later, and so may a CSINode that reports on its driver's storage: nodes with such volumes
are evaluated each time. Nodes that are cut off from some storage are not equal to others.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import compress, islice
from operator import is_not
from typing import Final

from binder.matching.capacity_order import CapacityOrder
from binder.matching.claim_shape import by_family, shape_of
from binder.matching.matching import class_of
from binder.model.ledger import Hold
from binder.model.view import View
from binder.provisioning.pool import PoolKey, StoragePool
from kube.objects.labels import NodeSelector, NodeSelectorTerm, Requirement
from kube.objects.model import SELECTED_NODE, Claim, value_of
from kube.persistent_map import Map
from kube.store.index import KeyMap, Keys
from scheduler.cycle.cycle import mask_of
from scheduler.state.cluster import ClusterView
from scheduler.state.node_info import NodeInfo
from scheduler.volumes.volumes import PodInfo

MAX_KINDS: Final = 1024
"""Kinds of claims cached at once; beyond that the least recently used ones are dropped."""

MAX_CACHED_NODES: Final = 1_000_000
"""Nodes cached in all kinds together, each with two pointers: 16 MB. At 5,000 nodes these are 200 kinds."""

_FEW: Final = 16
"""A node with more accessible volumes than this is evaluated each time: checking all of them would cost more. This many
nodes are evaluated individually; more are grouped first.
"""

_Groups = tuple[Map[NodeSelector | None, CapacityOrder], ...]


@dataclass(slots=True)
class _Kind:
    """The result for each node, and everything it was derived from."""

    states: list[NodeInfo | None] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    restless: int = 0
    groups: _Groups = ()
    filed: dict[int, NodeSelector | None] = field(default_factory=dict)
    holds: Map[str, Hold] = field(default_factory=Map)
    makers: tuple[object, ...] = ()
    unhealthy: Mapping[str, Keys] = field(default_factory=KeyMap)
    pools: Map[PoolKey, StoragePool] = field(default_factory=Map)


class ChoiceMemory:
    """Caches results about nodes that depend on `PodInfo.choice` only. It never changes a result."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, _Kind] = {}

    def answers(
        self, cache_key: Hashable, info: PodInfo, cluster: ClusterView, work_out: Callable[[NodeInfo], int]
    ) -> list[int]:
        """Return the result for each node, by number.

        The key contains the `kind_of` the pod's claims; equal keys must come with equivalent functions.
        """
        # Removed and inserted again: the first one is always the least recently used.
        kind = self._kinds.pop(cache_key, None)
        if kind is None:
            most = max(1, min(MAX_KINDS, MAX_CACHED_NODES // len(cluster.nodes)))
            while len(self._kinds) >= most:
                del self._kinds[next(iter(self._kinds))]
            kind = _Kind()
        self._kinds[cache_key] = kind
        stale = _stale(kind, info, cluster)
        if not stale:
            return kind.answers
        # What fits a larger claim of the family fits its smallest, too.
        searching = filter(cluster.storage.index.by_topology, info.claims.delayed)
        smallest = [min(family, key=lambda claim: claim.request) for family in by_family(searching).values()]
        parts = _singly(stale) if stale.bit_count() <= _FEW else cluster.index.alike(info.keys)
        for mask in _with_cut_off_apart(parts, stale, cluster):
            if mask:
                state = cluster.nodes[(mask & -mask).bit_length() - 1]
                answer = work_out(state)
                for number in _numbers(mask):
                    kind.answers[number] = answer
                kind.restless &= ~mask
                kind.restless |= mask if _is_restless(smallest, state, cluster.storage) else 0
        return kind.answers

    def forget(self) -> None:
        self._kinds.clear()


def kind_of(info: PodInfo, storage: View) -> Hashable | None:
    """Return what the choice depends on besides the node and the volumes; None if it depends on these very claims."""
    claims = info.claims
    if claims.bound or claims.orphaned or len(claims.wanted) != len(claims.delayed):
        return None
    if storage.verdicts or any(_is_particular(claim, storage) for claim in claims.delayed):
        return None
    return tuple(shape_of(claim) for claim in sorted(claims.delayed, key=lambda claim: claim.key))


def _is_particular(claim: Claim, storage: View) -> bool:
    """Whether anything refers to this claim by name."""
    snapshot = storage.snapshot
    return (
        claim.key in snapshot.volumes_by_claim
        or claim.key in snapshot.volumes_reserved_for
        or claim.key in storage.ledger.by_claim
        or value_of(claim.annotations, SELECTED_NODE) is not None
        or storage.settings.annotations.reservation_of_claim(claim) is not None
    )


def _stale(kind: _Kind, info: PodInfo, cluster: ClusterView) -> int:
    """Return the nodes, as bits, that have to be evaluated again, and update what their results depend on."""
    snapshot, nodes = cluster.storage.snapshot, cluster.nodes
    makers = (snapshot.classes, snapshot.capacities, snapshot.csi_drivers)
    unhealthy = snapshot.csi_nodes_by_unhealthy_driver
    if len(kind.states) != len(nodes) or any(map(is_not, makers, kind.makers)) or kind.unhealthy != unhealthy:
        kind.states, kind.answers, kind.restless = [None] * len(nodes), [0] * len(nodes), 0
    kind.makers, kind.unhealthy = makers, unhealthy
    stale = kind.restless
    for state in compress(nodes, map(is_not, nodes, kind.states)):
        before = kind.states[state.number]
        if before is None:
            stale = cluster.index.everything
        elif (before.name, before.labels, before.cut_off) != (state.name, state.labels, state.cut_off):
            stale |= 1 << state.number
        kind.states[state.number] = state
    groups = tuple(group for claim in info.claims.delayed for group in cluster.storage.index.by_topology(claim))
    refiled = _refiled(kind, groups)
    if stale != cluster.index.everything:
        pools = _changed_pools(kind.pools, info, cluster.storage)
        for affinity in {*refiled, *_changed_holds(kind.holds, cluster.storage), *pools}:
            stale |= cluster.index.reaching(affinity)
    kind.holds, kind.pools = cluster.storage.ledger.holds, cluster.storage.pools.pools
    return stale


def _with_cut_off_apart(parts: Iterable[int], stale: int, cluster: ClusterView) -> Iterator[int]:
    """Yield the stale nodes of each group, those that may be cut off from storage individually."""
    unhealthy = cluster.storage.snapshot.csi_nodes_by_unhealthy_driver
    names = {name for reporting in unhealthy.values() for name in reporting if name in cluster.numbers}
    apart = sum(1 << cluster.numbers[name] for name in names)
    for alike in parts:
        yield alike & stale & ~apart
        yield from _singly(alike & stale & apart)


def _singly(nodes: int) -> Iterator[int]:
    while nodes:
        yield nodes & -nodes
        nodes &= nodes - 1


def _numbers(nodes: int) -> Iterable[int]:
    if not nodes & (nodes - 1):
        return (nodes.bit_length() - 1,)
    mask = mask_of(nodes)
    return compress(range(len(mask)), mask)


def _refiled(kind: _Kind, groups: _Groups) -> Iterable[NodeSelector | None]:
    """Return the affinities whose volumes have changed, and record the present ones."""
    if len(kind.groups) == len(groups) and not any(map(is_not, kind.groups, groups)):
        return ()
    before, after = kind.filed, _by_identity(groups)
    changed = [after[name] if name in after else before[name] for name in before.keys() ^ after.keys()]
    # The old groups are released only now: while they live, no new order can have the identity of an old one.
    kind.groups, kind.filed = groups, after
    return changed


def _by_identity(groups: _Groups) -> dict[int, NodeSelector | None]:
    affinities: dict[int, NodeSelector | None] = {}
    for group in groups:
        affinities.update(zip(map(id, group.values()), group.keys(), strict=True))
    return affinities


def _changed_holds(before: Map[str, Hold], storage: View) -> Iterator[NodeSelector | None]:
    """Yield the affinities of volumes that were reserved or released."""
    after = storage.ledger.holds
    if before is after:
        return
    changed: Iterable[str] = {name for name in {*before, *after} if before.get(name) is not after.get(name)}
    for name in changed:
        volume = storage.snapshot.volumes.get(name)
        if volume is not None:
            yield volume.node_affinity


def _changed_pools(before: Map[PoolKey, StoragePool], info: PodInfo, storage: View) -> Iterator[NodeSelector | None]:
    """Yield the places of pools of these claims' classes in which something was booked or reported."""
    after = storage.pools.pools
    if before is after:
        return
    families = {storage.pools.families.get(class_of(claim)) for claim in info.claims.delayed}
    for key, pool in after.items():
        if key.family in families and before.get(key) is not pool:
            labels, expressions = key.topology.match_labels, key.topology.match_expressions
            named = tuple(Requirement(label, "In", (value,)) for label, value in labels)
            yield NodeSelector((NodeSelectorTerm((*named, *expressions)),)) if named or expressions else None


def _is_restless(smallest: Iterable[Claim], state: NodeInfo, storage: View) -> bool:
    """Whether the node has so many volumes for one of the claims, or such volumes, that it is evaluated each time."""
    annotations, unhealthy = storage.settings.annotations, storage.snapshot.csi_nodes_by_unhealthy_driver
    for claim in smallest:
        for count, volume in enumerate(islice(storage.index.candidates(claim, state.labels), _FEW + 1)):
            if count == _FEW or volume.driver in unhealthy or annotations.any_on(volume):
                return True
    return False
