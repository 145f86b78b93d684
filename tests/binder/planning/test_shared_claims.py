"""A claim that several gated pods use gets a volume where there is room for all of them, if one has that."""

import pytest

from binder.reservation.contract import DEFAULT_PREFIX
from kube.objects.model import Pod, Volume
from tests.binder.views import chosen, planned, view
from tests.builders import claim, node, pod, volume

GATE = f"{DEFAULT_PREFIX}volumes"


def user(name: str, cpu: int, *claims: str) -> Pod:
    return pod(name, claims=("shared", *claims), requests={"cpu": str(cpu)}, scheduling_gates=(GATE,))


def local(name: str, on: str, size: str = "10Gi") -> Volume:
    return volume(name, node=on, size=size)


@pytest.mark.parametrize(
    ("cpus", "gets"),
    [
        pytest.param((5, 3), "small-on-1", id="both fit beside the smallest"),
        pytest.param((5, 5), "large-on-2", id="both fit only beside a larger one"),
        pytest.param((5, 5, 6), "large-on-2", id="all fit only beside a larger one"),
        pytest.param((5, 5, 9), "large-on-2", id="most fit beside a larger one"),
    ],
)
def test_the_volume_is_where_all_users_have_room(cpus: tuple[int, ...], gets: str) -> None:
    seen = view(
        node("node-1"),
        node("node-2", allocatable={"cpu": "16"}),
        local("small-on-1", "node-1"),
        local("large-on-2", "node-2", "90Gi"),
        claim("shared"),
        *(user(f"p{number}", cpu) for number, cpu in enumerate(cpus)),
    )
    assert chosen(planned(seen)["p0"]) == {"shared": gets}


def test_a_zone_has_room_for_them_on_several_nodes() -> None:
    seen = view(
        node("node-1", zone="a"),
        node("node-2", zone="b"),
        node("node-3", zone="b"),
        volume("in-a", zone="a"),
        volume("in-b", zone="b", size="90Gi"),
        claim("shared"),
        *(user(f"p{number}", 6) for number in range(2)),
    )
    assert chosen(planned(seen)["p0"]) == {"shared": "in-b"}


def test_a_user_that_fits_nowhere_does_not_keep_the_others_from_running() -> None:
    seen = view(node(), volume("pv-1"), claim("shared"), user("p0", 5), user("p1", 50))
    assert chosen(planned(seen)["p0"]) == {"shared": "pv-1"}
    assert chosen(planned(seen)["p1"]) == {}


def test_the_volumes_of_another_user_count_too() -> None:
    """It has one of node-2 already, so that only there both can run."""
    own = volume("own", node="node-2", claim="default/own", phase="Bound")
    seen = view(
        node("node-1"),
        node("node-2"),
        own,
        local("small-on-1", "node-1"),
        local("large-on-2", "node-2", "90Gi"),
        claim("shared"),
        claim("own", volume_name="own"),
        user("p0", 1),
        user("p1", 1, "own"),
    )
    assert chosen(planned(seen)["p0"]) == {"shared": "large-on-2"}
