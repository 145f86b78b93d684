"""Several schedulers in one process: one list of waiting pods, filled by a watch for each."""

import pytest

from kube.objects.model import Pod
from kube.store.store import Store
from prebinder.scheduler.watches import ASSIGNED, Watches, waiting_for
from tests.builders import pod

WATCHES = ("a", "b")


def waiting(name: str, scheduler: str, version: int, uid: str = "") -> Pod:
    return pod(name, scheduler_name=scheduler, resource_version=version, uid=uid or name)


def test_watches_are_distinguished_by_selector() -> None:
    assert waiting_for("a").field_selector == "spec.schedulerName=a,spec.nodeName="
    assert "spec.nodeName!=" in ASSIGNED.field_selector
    labels = [resource.label for resource in Watches(Store(), WATCHES).collections]
    assert labels[:3] == ["pods/waiting-a", "pods/waiting-b", "pods/assigned"]
    assert len(set(labels)) == len(labels)


def test_a_list_of_one_scheduler_leaves_the_pods_of_another() -> None:
    watches = Watches(Store(), WATCHES)
    watches.collections[waiting_for("a")].replace([waiting("x", "a", 1)], "1")
    watches.collections[waiting_for("b")].replace([waiting("y", "b", 2)], "2")
    watches.collections[waiting_for("a")].replace([], "3")
    assert set(watches.pods.items) == {"default/y"}


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 0, 1)], ids=str)
def test_a_pod_recreated_for_another_scheduler_stays_in_any_order_of_events(order: tuple[int, ...]) -> None:
    """Within one watch the order is given: the old pod is shown before its end."""
    watches = Watches(Store(), WATCHES)
    first, second = (watches.collections[waiting_for(name)] for name in WATCHES)
    heard = (
        lambda: first.upsert(waiting("x", "a", 1, "old")),
        lambda: first.delete("default/x"),
        lambda: second.upsert(waiting("x", "b", 5, "new")),
    )
    for number in order:
        heard[number]()
    assert [pod.uid for pod in watches.pods.items.values()] == ["new"]


def test_one_scheduler_needs_no_second_list() -> None:
    watches = Watches(Store(), ("a",))
    assert watches.pods is watches.collections[waiting_for("a")]
