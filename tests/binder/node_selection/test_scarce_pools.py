"""Which pods get volumes made when pools are short: as many as any placement can serve, and no pod loses its place."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binder.matching.matching import scheduler_rejection
from binder.matching.rejection import Reason
from binder.model.decision import Provision, Reject, Reserve
from binder.model.view import View
from binder.planning.plan import plan
from binder.provisioning.tracking import ledger_of
from binder.rebalance.integer_program import IntegerProgram, Solution, Solve
from binder.reservation.contract import STRICT
from kube.objects.model import (
    BIND_COMPLETED,
    SELECTED_NODE,
    Claim,
    CSIStorageCapacity,
    Pod,
    Record,
    StorageClass,
    Volume,
)
from tests.binder.provisioning.clusters import DRIVER, GI, OURS
from tests.binder.views import NOW, pods_of, view, without_a_clock
from tests.builders import HOSTNAME, ZONE, capacity, claim, csi_driver, csi_node, node, pod, storage_class, volume

NODES = {"n-a1": "a", "n-a2": "a", "n-b": "b"}
FAMILIES = {"ext4": "local", "xfs": "local", "zonal": "zonal"}
"""Classes, and what they take their volumes from: two of them share the pools."""
BOUND = {BIND_COMPLETED: "yes"}
PROVISION = {OURS.mode: "provision", OURS.topology: STRICT}


def unchanged(program: IntegerProgram, _: float, /) -> Solution:
    """A solver that finds nothing."""
    return Solution(program.start, float("inf"), 0.0)


def everywhere(program: IntegerProgram, _: float, /) -> Solution:
    """A wrong solver: every pod may be placed everywhere."""
    return Solution([round(most) for most in program.most[: len(program.start)]], float("inf"), 0.0)


def made_class(name: str, **parameters: str) -> StorageClass:
    return storage_class(name, provisioner=DRIVER, annotations=PROVISION, parameters=parameters)


BASE: Sequence[Record] = (
    csi_driver(DRIVER, storage_capacity=True, attach_required=False),
    *(csi_node(name, limits={DRIVER: None}, topology_keys=(HOSTNAME,)) for name in NODES),
    made_class("ext4", **{"pool": "ssd", "csi.storage.k8s.io/fstype": "ext4"}),
    made_class("xfs", **{"pool": "ssd", "csi.storage.k8s.io/fstype": "xfs"}),
    made_class("zonal", pool="san"),
    storage_class("disk", annotations={OURS.mode: "prebind"}),
)


def report(where: str, size: int, *, of: str = "ext4", largest: int | None = None) -> CSIStorageCapacity:
    key = ZONE if of == "zonal" else HOSTNAME
    return capacity(of, {key: where}, f"{size}Gi", largest=f"{largest}Gi" if largest else None)


def reports(where: str, size: int, largest: int | None = None) -> Sequence[CSIStorageCapacity]:
    """What a node's pool reports: once for each class."""
    return [report(where, size, of=name, largest=largest) for name in ("ext4", "xfs")]


def in_flight(name: str, size: int, where: str) -> Claim:
    marks = {SELECTED_NODE: where, OURS.selected_at: "2026-01-01T00:00:00Z"}
    return claim(name, size=f"{size}Gi", storage_class="ext4", annotations=marks)


def wanting(name: str, *claims: tuple[str, int], priority: int = 0, where: str = "") -> list[Record]:
    """A gated pod with claims of these classes and sizes, which takes a core."""
    names = [f"{name}-{number}" for number in range(len(claims))]
    records: list[Record] = [
        claim(each, size=f"{size}Gi", storage_class=of) for each, (of, size) in zip(names, claims, strict=True)
    ]
    selector = {HOSTNAME: where} if where else {}
    return [
        *records,
        pod(
            name,
            claims=names,
            priority=priority,
            node_selector=selector,
            requests={"cpu": "1"},
            scheduling_gates=[OURS.gate],
        ),
    ]


def seen_of(*records: Record) -> View:
    seen = view(*BASE, *records)
    return replace(seen, pools=ledger_of(seen.snapshot, OURS, NOW))


def served(seen: View, solve: Solve = without_a_clock) -> dict[str, str]:
    """The node of each pod that gets all it lacks."""
    decisions = plan(seen, pods_of(seen), NOW, solve=solve)
    return {each.pod.name: each.node for each in decisions if isinstance(each, Provision | Reserve)}


@st.composite
def short_of_storage(draw: st.DrawFn) -> list[Record]:
    """Up to six pods of one to three claims: of shared local pools, of a zone's pool, or of a class of existing disks.

    Most of them have a place that storage exists for, and hardly more storage exists. Pools may allow no volume as
    large as themselves, and have volumes in flight already. Cores are short only where all pods use the same storage:
    others are not moved for room on nodes.
    """
    is_same = draw(st.booleans())
    room: dict[tuple[str, str], int] = {}
    disks: list[tuple[str, int]] = []
    records: list[Record] = []
    classes = st.sampled_from(["ext4", "xfs"] if is_same else ["ext4", "ext4", "ext4", "xfs", "zonal", "disk"])
    for number in range(draw(st.integers(3, 6))):
        home = draw(st.sampled_from([*NODES, *NODES, *NODES, ""]))
        claims = draw(st.lists(st.tuples(classes, st.integers(1, 5)), min_size=1, max_size=3))
        for of, size in claims if home else ():
            if of == "disk":
                disks.append((home, size))
            else:
                pool = FAMILIES[of], NODES[home] if of == "zonal" else home
                room[pool] = room.get(pool, 0) + size
        where = draw(st.sampled_from([home, "", "", "", ""]))
        records += wanting(f"p{number}", *claims, priority=draw(st.sampled_from([0, 0, 0, 1])), where=where)
    for name, zone in NODES.items():
        records.append(node(name, zone=zone, allocatable={"cpu": str(draw(st.integers(2, 4)) if is_same else 8)}))
        flying = draw(st.sampled_from([0, 0, 0, 2]))
        records += [in_flight(f"busy-{name}", flying, name)] if flying else []
        size = room.get(("local", name), 0) + flying + draw(st.sampled_from([0, 0, 0, 1]))
        records += reports(name, size, draw(st.sampled_from([None, None, None, None, 4])))
    records += [report(zone, room.get(("zonal", zone), 0), of="zonal") for zone in "ab"]
    for number, (home, size) in enumerate(disks):
        local = draw(st.booleans())
        host, in_zone = (home, None) if local else (None, NODES[home])
        records.append(volume(f"v{number}", size=f"{size}Gi", storage_class="disk", node=host, zone=in_zone))
    return records


@dataclass(frozen=True)
class Judge:
    """Whether pods can be where they are said to be: by trying every choice of volumes, and adding up what is made."""

    seen: View

    def is_possible(self, at: Mapping[str, str | None]) -> bool:
        placed = [(pod, node) for pod in pods_of(self.seen) if (node := at[pod.name]) is not None]
        return self._have_nodes(placed) and self.have_storage(placed) and self._have_volumes(placed)

    def _have_nodes(self, placed: Sequence[tuple[Pod, str]]) -> bool:
        for name, there in self.seen.snapshot.nodes.items():
            wanted = sum(dict(pod.requests)["cpu"] for pod, node in placed if node == name)
            if wanted > dict(there.allocatable)["cpu"]:
                return False
        return all(dict(pod.node_selector).get(HOSTNAME, node) == node for pod, node in placed)

    def have_storage(self, placed: Sequence[tuple[Pod, str]]) -> bool:
        taken: dict[tuple[str, str], int] = {}
        for each in self.seen.snapshot.claims.values():
            where = dict(each.annotations).get(SELECTED_NODE)
            if where:
                taken["local", where] = each.request
        for placed_pod, node_name in placed:
            for each in self._claims(placed_pod):
                family = FAMILIES.get(each.storage_class or "")
                if family:
                    pool = family, NODES[node_name] if family == "zonal" else node_name
                    taken[pool] = taken.get(pool, 0) + each.request
        return all(size <= self._size(*pool) for pool, size in taken.items() if pool in self._wanted(placed))

    def _wanted(self, placed: Sequence[tuple[Pod, str]]) -> set[tuple[str, str]]:
        """The pools that a placed pod takes something of."""
        families = [
            (FAMILIES.get(each.storage_class or ""), node) for pod, node in placed for each in self._claims(pod)
        ]
        return {(family, NODES[node] if family == "zonal" else node) for family, node in families if family}

    def _size(self, family: str, where: str) -> int:
        """What the pool can certainly take: with parts, as much as the largest of them."""
        sizes = [
            min(report.capacity or 0, report.maximum_volume_size or report.capacity or 0)
            for report in self.seen.snapshot.capacities.values()
            if FAMILIES[report.storage_class] == family
            and report.node_topology is not None
            and where in dict(report.node_topology.match_labels).values()
        ]
        return min(sizes)

    def _have_volumes(self, placed: Sequence[tuple[Pod, str]]) -> bool:
        disks = [(each, node) for pod, node in placed for each in self._claims(pod) if each.storage_class == "disk"]
        return any(
            all(self._suits(volume, *disk) for volume, disk in zip(order, disks, strict=True))
            for order in permutations(self.seen.snapshot.volumes.values(), len(disks))
        )

    def _suits(self, volume: Volume, disk: Claim, node: str) -> bool:
        return scheduler_rejection(disk, volume, dict(self.seen.snapshot.nodes[node].labels)) is None

    def _claims(self, pod: Pod) -> Iterator[Claim]:
        return (self.seen.snapshot.claims[key] for key in pod.claim_keys)


def placements(pods: Sequence[Pod]) -> Iterator[dict[str, str | None]]:
    for nodes in product((*NODES, None), repeat=len(pods)):
        yield {pod.name: name for pod, name in zip(pods, nodes, strict=True)}


@given(records=short_of_storage())
@settings(max_examples=100, deadline=None)
def test_as_many_pods_are_served_as_any_placement_that_keeps_the_first_ones_can_serve(records: list[Record]) -> None:
    seen = seen_of(*records)
    first, now, judge = served(seen, unchanged), served(seen), Judge(seen)
    assert set(first) <= set(now)
    kept = (at for at in placements(pods_of(seen)) if all(at[name] is not None for name in first))
    by_count = sorted(kept, key=lambda at: sum(name is not None for name in at.values()), reverse=True)
    most = next(sum(name is not None for name in at.values()) for at in by_count if judge.is_possible(at))
    assert len(now) == most
    assert judge.is_possible({each.name: now.get(each.name) for each in pods_of(seen)})


def two_pools(*more: Record) -> View:
    """Two nodes with a pool of 10Gi each."""
    places: list[Record] = [node("n-a1", zone="a"), node("n-b", zone="b"), *reports("n-a1", 10), *reports("n-b", 10)]
    return seen_of(*places, *more)


def of_sizes(*sizes: int) -> list[Record]:
    """Pods p0, p1, ... with one claim each."""
    return [record for number, size in enumerate(sizes) for record in wanting(f"p{number}", ("ext4", size))]


FITTING = (5, 4, 3, 3, 3, 2)
"""Together as much as two pools of 10Gi have. Largest first, 5 and 4 come together, and the 2 finds no room."""


def test_a_pod_that_largest_first_leaves_out_gets_room_from_the_others() -> None:
    seen = two_pools(*of_sizes(*FITTING))
    assert set(served(seen, unchanged)) == {"p0", "p1", "p2", "p3", "p4"}
    now = served(seen)
    sums = {name: sum(FITTING[int(pod[1:])] for pod, at in now.items() if at == name) for name in ("n-a1", "n-b")}
    assert sums == {"n-a1": 10, "n-b": 10}


@pytest.mark.parametrize("wrong", [unchanged, everywhere], ids=["nothing-found", "nonsense-found"])
def test_what_was_there_before_is_kept_when_the_solver_is_of_no_use(wrong: Solve) -> None:
    """Also what is left of the pools: the pod that got nothing before is told the same."""
    seen = two_pools(*of_sizes(*FITTING))
    (before,) = [each for each in plan(seen, pods_of(seen), NOW, solve=unchanged) if isinstance(each, Reject)]
    assert served(seen, wrong) == served(seen, unchanged)
    assert [each for each in plan(seen, pods_of(seen), NOW, solve=wrong) if isinstance(each, Reject)] == [before]
    assert before.reason is Reason.INSUFFICIENT_STORAGE
    assert [each.offered.partition(",")[0] for each in before.rejections] == ["1Gi left of 10Gi", "1Gi left of 10Gi"]


def test_the_event_of_a_pod_without_a_place_shows_what_is_left_after_the_moves() -> None:
    seen = two_pools(*of_sizes(*FITTING, 2))
    (rejected,) = [each for each in plan(seen, pods_of(seen), NOW, solve=without_a_clock) if isinstance(each, Reject)]
    assert rejected.pod.name == "p6"
    assert [each.offered.partition(",")[0] for each in rejected.rejections] == ["0 left of 10Gi", "0 left of 10Gi"]


def test_the_more_urgent_pod_goes_before_two_others() -> None:
    """On n-a1 is room for either, once the first pod has moved to n-b, where more would be left."""
    seen = seen_of(
        node("n-a1", zone="a"),
        node("n-b", zone="b"),
        *reports("n-a1", 8),
        *reports("n-b", 9),
        *wanting("first", ("ext4", 6), priority=9),
        *wanting("urgent", ("ext4", 8), priority=5, where="n-a1"),
        *wanting("late-1", ("ext4", 4), priority=1, where="n-a1"),
        *wanting("late-2", ("ext4", 4), priority=1, where="n-a1"),
    )
    assert set(served(seen, unchanged)) == {"first"}
    assert set(served(seen)) == {"first", "urgent"}


def test_room_for_a_pod_that_has_a_volume_already_is_kept() -> None:
    """The other pod can run only on n-a1, where it would have room if the first, which came before, went to n-a2."""
    home = volume("pvc-old", storage_class="zonal", zone="a", claim="default/old", phase="Bound")
    old = claim("old", storage_class="zonal", volume_name="pvc-old", phase="Bound", annotations=BOUND)
    lacking = claim("lacking", size="6Gi", storage_class="ext4")
    begun = pod("begun", claims=("old", "lacking"), scheduling_gates=[OURS.gate])
    places: list[Record] = [node("n-a1", zone="a"), node("n-a2", zone="a"), *reports("n-a1", 10), *reports("n-a2", 12)]
    seen = seen_of(*places, home, old, lacking, begun, *wanting("rival", ("ext4", 6), where="n-a1"))
    assert served(seen) == {"begun": "n-a1"}


def test_pods_that_need_only_a_disk_or_only_a_pool_move_for_a_pod_that_needs_both() -> None:
    """The last pod can run only on n-a1, where the first two took the disk and the room."""
    seen = seen_of(
        node("n-a1", zone="a"),
        node("n-b", zone="b"),
        *reports("n-a1", 9),
        *reports("n-b", 10),
        volume("on-a1", size="1Gi", storage_class="disk", node="n-a1"),
        volume("on-b", size="2Gi", storage_class="disk", node="n-b"),
        *wanting("disk", ("disk", 1)),
        *wanting("room", ("ext4", 9)),
        *wanting("both", ("ext4", 6), ("disk", 1), where="n-a1"),
    )
    assert served(seen, unchanged) == {"disk": "n-a1", "room": "n-a1"}
    assert served(seen) == {"disk": "n-b", "room": "n-b", "both": "n-a1"}


def test_a_size_that_the_driver_rejected_limits_each_volume_and_not_their_sum() -> None:
    """One of the pools has rejected 6Gi, which leaves at most 5Gi to a pod, but still 10Gi to all."""
    seen = two_pools(*of_sizes(*FITTING))
    (pool,) = seen.pools.pools_of("ext4", {HOSTNAME: "n-a1"})
    seen = replace(seen, pools=seen.pools.exhausted(pool.key, 6 * GI, NOW))
    assert len(served(seen, unchanged)) < len(FITTING)
    assert len(served(seen)) == len(FITTING)


def test_pods_of_a_hidden_solution_are_nearly_all_served() -> None:
    """Six pools of 200Gi, cut into the claims of five pods each with nothing left over."""
    random, records = Random(3), list[Record]()
    for number in range(6):
        name = f"m-{number}"
        records += [node(name, zone="a"), csi_node(name, limits={DRIVER: None}, topology_keys=(HOSTNAME,))]
        cuts = sorted(random.sample(range(1, 200), 9))
        sizes = [end - start for start, end in zip([0, *cuts], [*cuts, 200], strict=True)]
        for part in range(5):
            records += wanting(f"p{number}-{part}", ("ext4", sizes[2 * part]), ("xfs", sizes[2 * part + 1]))
        records += reports(name, 200)
    seen = seen_of(*records)
    first = served(seen, unchanged)
    now = served(seen)
    assert set(first) < set(now)
    assert Judge(seen).have_storage([(each, now[each.name]) for each in pods_of(seen) if each.name in now])
