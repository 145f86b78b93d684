"""Which committed pods take room where not all of them can run: the more urgent ones, as the contract says."""

from typing import Any

import pytest

from soak.judge.facts import GATE
from tests.soak.judge.placement.test_commitments import OTHER, Place, of_size, roomy, second_after
from tests.soak.story import CONTROLLER, claim, pod, reserved, volume


def test_a_committed_pod_that_was_deleted_a_moment_ago_took_room_until_then() -> None:
    """Before it was deleted another pod had come: there was never room."""
    place = Place(where=("n1", "n1", "n1"))
    place.serve(1)
    place.story.write(OTHER, "Pod", "soak/p3", of_size("p3", "c3", cpu="2"))
    place.wait(10)
    place.story.write(OTHER, "Pod", "soak/p3", of_size("p3", "c3", cpu="2", on="n1"))
    place.wait(1)
    place.story.write(OTHER, "Pod", "soak/p1", None)
    place.wait(1)
    assert second_after(place)


def test_nor_did_the_less_urgent_take_any_beside_it() -> None:
    """Of 4 CPUs the first has 1 and the third 2; the fourth, of 2, found no place. All are let go by a user."""
    place = Place(where=("n1", "n1", "n1", "n1"))
    for number, cpu in ((1, "1"), (3, "2"), (4, "2")):
        place.commit(number, OTHER)
        made = of_size(f"p{number}", f"c{number}", cpu)
        made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{number}Z"
        place.story.write(OTHER, "Pod", f"soak/p{number}", made)
    place.pod(2, OTHER, cpu="1", gates=(GATE,))
    place.wait(10)
    place.story.write(OTHER, "Pod", "soak/p1", None)
    place.wait(1)
    place.commit(2)
    assert not place.violated


@pytest.mark.parametrize(("third", "wrong"), [("2", False), ("3", True)])
def test_of_pods_that_cannot_all_run_those_take_room_that_can_go_nowhere_else(third: str, wrong: bool) -> None:
    """The first pod of 3 CPUs could go to n2, until another came there; the third, let go later, only to n1."""
    place = Place(nodes=("n1", "n2"), where=("", "n1", "n1"))
    place.serve(1)
    place.commit(3)
    place.pod(3, cpu=third)
    place.story.write(OTHER, "Pod", "soak/other", of_size("other", "others", cpu="3", on="n2"))
    place.pod(2, OTHER, cpu="2", gates=(GATE,))
    place.wait(10)
    assert not place.violated
    place.commit(2)
    place.pod(2, cpu="2")
    assert place.violated is wrong


@pytest.mark.parametrize(("priority", "wrong"), [(1, False), (0, True)])
def test_of_pods_that_can_go_nowhere_else_the_more_urgent_take_room(priority: int, wrong: bool) -> None:
    """The first pod of 3 CPUs could go to n2 until that was cordoned; the third of 2 is let go later."""
    place = Place(nodes=("n1", "n2"), where=("", "n1", "n1"))
    place.serve(1)
    place.commit(3)
    urgent = of_size("p3", "c3", "2")
    urgent["spec"]["priority"] = priority
    place.story.write(CONTROLLER, "Pod", "soak/p3", urgent)
    place.story.write(OTHER, "Node", "n2", roomy("n2", unschedulable=True))
    place.pod(2, OTHER, cpu="2", gates=(GATE,))
    place.wait(10)
    assert not place.violated
    place.commit(2)
    assert place.violated is wrong


def beside_a_reserved(place: Place, *claims: str, second: int = 0, gates: tuple[str, ...] = (), **how: Any) -> bool:
    """Whether it is a violation to commit a pod of 2 CPUs, where a user committed another of 3, which was created in
    second 1, and a volume is reserved for a third of 2.
    """
    place.story.write(CONTROLLER, "PersistentVolume", "v3", volume("v3", node="n1", **(reserved("c3") | how)))
    place.commit(1, OTHER)
    third = pod("p3", "c3", *claims, gates=gates)
    third["spec"]["containers"] = of_size("p3", "c3", "2")["spec"]["containers"]
    for made, created in ((of_size("p1", "c1"), 1), (third, second)):
        made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{created}Z"
        place.story.write(OTHER, "Pod", f"soak/{made['metadata']['name']}", made)
    place.pod(2, OTHER, cpu="2", gates=(GATE,))
    place.wait(10)
    assert not place.violated
    place.commit(2)
    place.pod(2, cpu="2")
    return place.violated


@pytest.mark.parametrize(("second", "wrong"), [(0, False), (2, True)])
def test_a_more_urgent_pod_with_a_reservation_takes_the_room_of_a_committed_one(second: int, wrong: bool) -> None:
    """So the one of 3 CPUs cannot run, and the reserved one leaves room for another of 2."""
    place = Place(where=("n1", "n1", "n1"))
    assert beside_a_reserved(place, second=second) is wrong


@pytest.mark.parametrize(
    "how",
    [
        {"expires_at": "1970-01-01T00:00:00Z"},
        {"reserved_for_uid": "uid-of-another"},
        {"phase": "Released"},
        {"gates": (GATE,)},
    ],
    ids=["expired", "another-claim", "not-available", "gated"],
)
def test_not_with_a_reservation_that_does_not_hold_or_behind_a_gate(how: dict[str, Any]) -> None:
    place = Place(where=("n1", "n1", "n1"))
    assert beside_a_reserved(place, **how)


@pytest.mark.parametrize(("storage", "wrong"), [("2Gi", False), ("1Gi", True)])
def test_nor_with_another_claim_that_nothing_fits(storage: str, wrong: bool) -> None:
    place = Place(where=("n1", "n1", "n1"))
    large = claim("c4")
    large["spec"]["resources"]["requests"]["storage"] = "2Gi"
    place.story.write(OTHER, "PersistentVolumeClaim", "soak/c4", large)
    place.story.write(OTHER, "PersistentVolume", "v4", volume("v4", node="n1", storage=storage))
    assert beside_a_reserved(place, "c4") is wrong


def test_a_reservation_leaves_no_room_where_it_takes_it_all() -> None:
    """Of 4 CPUs 1 is taken on the node and 2 are by the reservation: that is too much for another pod of 2."""
    place = Place(where=("n1", "n1", "n1"))
    place.story.write(OTHER, "Pod", "soak/other", of_size("other", "others", cpu="1", on="n1"))
    assert beside_a_reserved(place)
