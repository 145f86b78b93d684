"""Where pods that wait for a node are booked, and how they move to leave room for others."""

import pytest

from binder.booking.bookings import Bookings
from binder.booking.node_sets import NodeSets
from binder.model.decision import Mode, Reserve
from binder.model.view import PlanSettings
from binder.model.waiting_pod import all_waiting
from binder.planning.plan import plan
from kube.objects.constraints import Constraints, HostPort, PodTerm
from kube.objects.labels import LabelSelector
from kube.objects.model import BIND_COMPLETED, READ_WRITE_ONCE_POD, SELECTED_NODE, Record
from tests.binder.views import NOW, view
from tests.builders import HOSTNAME, claim, csi_node, node, pod, storage_class, volume

GATE = ("scheduler.cloud.example/volumes",)
PREBIND = PlanSettings(default_mode=Mode.PREBIND)


def waiting(
    name: str, cpu: str, *, zone: str | None = "a", at: str | None = None, **more: object
) -> tuple[Record, ...]:
    """A released pod with a bound volume of a zone or of a node."""
    bound = {BIND_COMPLETED: "yes"}
    return (
        volume(f"pv-{name}", zone=None if at else zone, node=at, claim=f"default/{name}", phase="Bound"),
        claim(name, volume_name=f"pv-{name}", phase="Bound", annotations=bound),
        pod(name, claims=[name], requests={"cpu": cpu}, **more),  # type: ignore[arg-type]
    )


def asking(name: str, cpu: str, *, at: str) -> tuple[Record, ...]:
    """A gated pod and the only volume for it, of a node."""
    return (
        volume(f"pv-{name}", node=at, storage_class=name),
        storage_class(name),
        claim(name, storage_class=name),
        pod(name, claims=[name], requests={"cpu": cpu}, scheduling_gates=GATE),
    )


def places(*records: Record) -> dict[str, str]:
    """The node of each waiting pod that has one."""
    seen = view(*records)
    pods = all_waiting(seen.snapshot, seen.settings.annotations)
    bookings = Bookings(seen, pods.values(), NodeSets(), NOW)
    return {booked.waiting.pod.name: place for booked, place in bookings.placed()}


def reserved(*records: Record) -> set[str]:
    """The pods without a volume that get one."""
    seen = view(*records, settings=PREBIND)
    asked = [pod for pod in seen.snapshot.pods.values() if pod.scheduling_gates]
    return {decision.pod.name for decision in plan(seen, asked, NOW) if isinstance(decision, Reserve)}


def nodes(*cpus: int) -> tuple[Record, ...]:
    return tuple(node(f"n{number}", zone="a", allocatable={"cpu": str(cpu)}) for number, cpu in enumerate(cpus, 1))


def test_a_pod_is_booked_once_although_several_nodes_can_take_it() -> None:
    assert places(*nodes(8, 8), *waiting("web", "5")) == {"web": "n1"}
    assert reserved(*nodes(8, 8), *waiting("web", "5"), *asking("late", "5", at="n2")) == {"late"}


def test_a_booked_pod_moves_to_leave_room() -> None:
    assert reserved(*nodes(8, 8), *waiting("web", "5"), *asking("late", "5", at="n1")) == {"late"}


def test_booked_pods_move_on_from_node_to_node() -> None:
    """n1 is needed: its pod goes to n2, that of n2 to n3."""
    first = pod("first", claims=["first"], requests={"cpu": "5"}, node_selector={"disk": "x"})
    chain = (
        node("n1", zone="a", labels={"disk": "x"}, allocatable={"cpu": "8"}),
        node("n2", zone="a", labels={"disk": "x", "rack": "y"}, allocatable={"cpu": "8"}),
        node("n3", zone="a", labels={"rack": "y"}, allocatable={"cpu": "8"}),
        *waiting("first", "5")[:2],
        first,
        *waiting("second", "5")[:2],
        pod("second", claims=["second"], requests={"cpu": "5"}, node_selector={"rack": "y"}),
    )
    assert places(*chain) == {"first": "n1", "second": "n2"}
    assert reserved(*chain, *asking("late", "5", at="n1")) == {"late"}


def test_a_booked_pod_does_not_move_into_the_room_that_was_made() -> None:
    """Two that can move and one that cannot fill n1 and half of n2, however they are distributed."""
    booked = (*waiting("one", "5"), *waiting("two", "5"), *waiting("local", "3", at="n1"))
    assert reserved(*nodes(8, 8), *booked, *asking("late", "7", at="n2")) == set()
    assert reserved(*nodes(8, 8), *booked, *asking("late", "3", at="n2")) == {"late"}


def test_the_search_for_the_best_place_leaves_a_booked_pod_no_room_twice() -> None:
    """Each of the two could have its node alone; the booked pod needs one of them."""
    records = (*nodes(8, 8), *waiting("web", "7"), *asking("left", "5", at="n1"), *asking("right", "5", at="n2"))
    assert len(reserved(*records)) == 1
    both: tuple[Record, ...] = (
        storage_class("both"),
        volume("one", node="n1", storage_class="both"),
        volume("two", node="n2", storage_class="both"),
        *(claim(name, storage_class="both") for name in ("left", "right")),
        *(pod(name, claims=[name], requests={"cpu": "5"}, scheduling_gates=GATE) for name in ("left", "right")),
    )
    assert len(reserved(*nodes(8, 8), *waiting("web", "7"), *both)) == 1


def test_released_pods_are_booked_before_those_behind_our_gate() -> None:
    gated = waiting("gated", "5", at="n1", scheduling_gates=GATE, priority=9)
    assert places(*nodes(8), *gated, *waiting("released", "5", at="n1")) == {"released": "n1"}


def test_of_released_pods_the_most_urgent_is_booked_first_also_where_others_have_a_single_node() -> None:
    """kube-scheduler takes it first. n2, where it could also be, is full."""
    full = pod("full", node="n2", requests={"cpu": "7"}, phase="Running")
    there = (*nodes(8, 8), full, *waiting("urgent", "6", priority=9), *waiting("local", "4", at="n1"))
    assert places(*there) == {"urgent": "n1"}
    assert reserved(*there, *asking("late", "4", at="n1")) == set()


@pytest.mark.parametrize("whose", ["its own", "of the other"])
@pytest.mark.parametrize("placed", [True, False], ids=["on its node", "booked"])
def test_a_booked_pod_does_not_move_to_a_node_with_a_pod_that_keeps_it_away(whose: str, placed: bool) -> None:
    """By required anti-affinity by hostname, as of the replicas of a database."""
    labels, by_node = {"app": "db"}, PodTerm(HOSTNAME, LabelSelector(match_labels=(("app", "db"),)))
    apart = {"labels": labels, "constraints": Constraints(anti_affinity=(by_node,))}
    limits, limited = (apart, {"labels": labels}) if whose == "its own" else ({"labels": labels}, apart)
    other = waiting("other", "1", at="n2", **limited)
    if placed:
        other = (*other[:2], pod("other", claims=["other"], node="n2", phase="Running", **limited))
    there = (*nodes(8, 8), *other, *waiting("web", "5", **limits))
    assert places(*there)["web"] == "n1"
    assert reserved(*there, *asking("late", "5", at="n1")) == set()
    assert reserved(*there, *asking("late", "3", at="n1")) == {"late"}


def test_what_finds_no_room_takes_none() -> None:
    assert places(*nodes(8), *waiting("big", "9", at="n1"), *waiting("small", "5", at="n1")) == {"small": "n1"}


def test_a_claim_that_one_pod_may_use_is_booked_for_one() -> None:
    exclusive = {"access_modes": [READ_WRITE_ONCE_POD]}
    users = [pod(name, claims=["data"], requests={"cpu": "3"}) for name in ("a", "b", "c")]
    bound = claim("data", volume_name="pv", phase="Bound", annotations={BIND_COMPLETED: "yes"}, **exclusive)  # type: ignore[arg-type]
    pv = volume("pv", node="n1", claim="default/data", phase="Bound", **exclusive)  # type: ignore[arg-type]
    assert len(places(*nodes(8), bound, pv, *users)) == 1
    assert places(*nodes(8), bound, pv, *users, pod("there", claims=["data"], node="n1", phase="Running")) == {}


def test_a_pod_whose_volume_is_being_provisioned_for_a_node_is_booked_there() -> None:
    made = storage_class("made", provisioner="made.csi.example")
    scratch = claim("scratch", storage_class="made", annotations={SELECTED_NODE: "n2"})
    assert places(*nodes(8, 8), made, scratch, pod("web", claims=["scratch"])) == {"web": "n2"}


def test_a_static_claim_that_names_a_node_cannot_be_provisioned_so_its_pod_takes_no_room() -> None:
    """Every user may write the annotation; kube-scheduler places no such pod."""
    forged = claim("data", annotations={SELECTED_NODE: "n1"})
    assert places(*nodes(8), forged, pod("web", claims=["data"])) == {}


def test_two_pods_that_share_a_volume_attach_it_once() -> None:
    limited = csi_node("n1", limits={"disk.csi.example": 1})
    shared = (*waiting("data", "1", at="n1")[:2], *(pod(name, claims=["data"]) for name in ("a", "b")))
    assert set(places(*nodes(8), limited, *shared)) == {"a", "b"}
    assert set(places(*nodes(8), limited, *shared, *waiting("other", "1", at="n1"))) == {"a", "b"}


def test_a_volume_that_names_a_claim_it_is_too_small_for_ties_its_pod_to_no_node() -> None:
    small = volume("a", size="1Gi", claim="default/data", node="n1")
    committed = volume("b", claim="default/data", node="n2")
    assert places(*nodes(8, 8), small, committed, claim("data"), pod("web", claims=["data"])) == {"web": "n2"}


def test_room_is_kept_for_a_pod_nominated_for_the_node() -> None:
    soon = pod("soon", requests={"cpu": "5"}, nominated_node="n1")
    assert places(*nodes(8), *waiting("late", "5", at="n1")) == {"late": "n1"}
    assert places(*nodes(8), soon, *waiting("late", "5", at="n1")) == {}
    assert places(*nodes(8), soon, *waiting("late", "3", at="n1")) == {"late": "n1"}


def test_the_volumes_of_a_nominated_pod_count_as_attached() -> None:
    limited = csi_node("n1", limits={"disk.csi.example": 1})
    soon = waiting("soon", "1", at="n1", nominated_node="n1")
    assert places(*nodes(8), limited, *soon, *waiting("late", "1", at="n1")) == {}
    assert places(*nodes(8), limited, *soon, pod("late", claims=["soon"], requests={"cpu": "1"})) == {"late": "n1"}


def test_what_one_node_lacks_another_may_have() -> None:
    """A port of the first is taken; each node is asked for itself."""
    port = Constraints(ports=(HostPort(80),))
    there = pod("there", node="n1", phase="Running", constraints=port)
    web = waiting("web", "1", constraints=port)
    assert places(*nodes(8, 8), there, *web) == {"web": "n2"}
    assert places(*nodes(8), there, *web) == {}
