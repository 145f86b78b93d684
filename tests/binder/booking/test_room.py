"""What a node has left beside the pods that are booked on it: each volume attached once, and nothing lost."""

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from binder.booking.room import Attach, Room
from kube.rules.quantity import NANO
from kube.rules.resource_fit import PODS
from kube.store.node_view import NodeView, UsedVolume
from tests.builders import node

THERE = frozenset({("fast", "1"), ("slow", "1")})
LIMITS = {"fast": 4}
VOLUMES = [(driver, handle) for driver in ("fast", "slow") for handle in "123"]
Booking = tuple[int, frozenset[UsedVolume], int]

bookings = st.tuples(st.integers(0, 3), st.frozensets(st.sampled_from(VOLUMES)), st.integers(0, 2))


def empty() -> Room:
    free = {"cpu": 8 * NANO, PODS: 4 * NANO}
    return Room(NodeView(node("n1"), free, THERE, Counter(driver for driver, _ in THERE), LIMITS))


def needs(booking: Booking) -> tuple[tuple[tuple[str, int], ...], frozenset[UsedVolume], Attach]:
    cpus, used, made = booking
    return (("cpu", cpus * NANO),), used, (("fast", made),) if made else ()


@given(st.lists(bookings, max_size=5), bookings, st.randoms())
def test_what_is_taken_counts_once_and_is_given_back_in_any_order(
    booked: list[Booking], another: Booking, random: Random
) -> None:
    room = empty()
    for booking in booked:
        room.take(*needs(booking))
    everything = THERE.union(*(used for _, used, _ in booked))
    cpus, made = (8 - sum(cpus for cpus, _, _ in booked)), sum(made for _, _, made in booked)
    assert (room.free["cpu"], room.free[PODS]) == (cpus * NANO, (4 - len(booked)) * NANO)
    attached = {driver: sum(each == driver for each, _ in everything) for driver in ("fast", "slow")}
    assert room.attached == attached | {"fast": attached["fast"] + made}
    more = [used for used in another[1] - everything if used[0] == "fast"]
    attaches = len(more) + another[2]
    enough = cpus >= another[0] and len(booked) < 4
    assert room.has(*needs(another)) is (
        enough and (not attaches or attached["fast"] + made + attaches <= LIMITS["fast"])
    )
    for booking in random.sample(booked, len(booked)):
        room.give_back(*needs(booking))
    assert (room.free, room.attached) == (empty().free, empty().attached)


def test_a_pod_on_the_node_is_counted_already() -> None:
    room = empty()
    room.take(None, {("fast", "1"), ("fast", "2")})
    assert room.free == empty().free
    assert room.attached == {"fast": 2, "slow": 1}
