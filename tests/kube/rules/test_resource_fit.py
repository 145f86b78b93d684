import pytest

from kube.objects.model import Pod
from kube.rules.quantity import parse_quantity
from kube.rules.resource_fit import fits, free_resources, has_room, in_scheduler_units
from tests import builders


def free(*pods: Pod, **allocatable: str) -> dict[str, int]:
    return free_resources(builders.node(allocatable=allocatable), pods)


def test_pods_hold_what_they_request_and_a_place() -> None:
    left = free(builders.pod("a", requests={"cpu": "1500m"}), builders.pod("b", requests={"memory": "1Gi"}), cpu="2")
    assert left["cpu"] == parse_quantity("500m")
    assert left["memory"] == parse_quantity("31Gi")
    assert left["pods"] == parse_quantity("108")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pods_hold_nothing(phase: str) -> None:
    assert free(builders.pod(requests={"cpu": "1"}, phase=phase)) == free()


def test_what_a_node_does_not_offer_is_missing() -> None:
    left = free(builders.pod(requests={"example.com/gpu": "1"}))
    assert left["example.com/gpu"] == -parse_quantity("1")


@pytest.mark.parametrize(
    ("requests", "missing"),
    [
        pytest.param({}, [], id="nothing-but-a-place"),
        pytest.param({"cpu": "8", "memory": "32Gi"}, [], id="exactly-all"),
        pytest.param({"cpu": "8001m"}, ["cpu"], id="a-thousandth-too-much"),
        pytest.param({"cpu": "9", "memory": "33Gi"}, ["cpu", "memory"], id="two"),
        pytest.param({"example.com/gpu": "1"}, ["example.com/gpu"], id="not-offered"),
        pytest.param({"example.com/gpu": "0"}, [], id="none-of-what-is-not-offered"),
    ],
)
def test_fits(requests: dict[str, str], missing: list[str]) -> None:
    assert [name for name, _, _ in fits(free(), builders.resources(requests))] == missing
    assert has_room(free(), builders.resources(requests)) is (missing == [])


def test_a_full_node_has_no_place() -> None:
    quantity = parse_quantity(1)
    assert fits(free(builders.pod(), pods="1"), ()) == [("pods", quantity, 0)]


def test_overbooked_resources_reject_no_pod_that_requests_none() -> None:
    assert fits(free(builders.pod(requests={"cpu": "9"})), builders.resources({"memory": "1Gi"})) == []


@pytest.mark.parametrize(
    ("name", "requested", "counted"), [("cpu", "0.0001", "1m"), ("memory", "100m", "1"), ("memory", "1Ki", "1Ki")]
)
def test_the_scheduler_counts_in_whole_steps(name: str, requested: str, counted: str) -> None:
    assert in_scheduler_units({name: parse_quantity(requested)}) == ((name, parse_quantity(counted)),)
