"""On which nodes something has changed that counts towards attach limits, and the volumes in steps."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from binder.model.view import PlanSettings
from kube.objects.model import Claim
from kube.persistent_map import Map
from kube.store.store import Store
from scheduler.volumes.storage_cache import StepSizes, StorageCache
from tests.builders import EPOCH, attachment, claim, csi_driver, csi_node, node, storage_class, volume

NODES = ("n1", "n2", "n3")
USERS = {"default/data": Map({"default/p": "n1"}), "default/log": Map({"default/q": "n2"})}
DRIVER = "disk.csi.example"
MANY = 20_001


def followed(**steps: int) -> tuple[Store, StorageCache]:
    """A store with three nodes, and what follows it, with nothing left to look at."""
    store = Store()
    cache = StorageCache(store, PlanSettings(), StepSizes(**steps))
    for name in NODES:
        store.nodes.upsert(node(name))
        store.csi_nodes.upsert(csi_node(name))
    store.csi_drivers.upsert(csi_driver(DRIVER))
    store.classes.upsert(storage_class(provisioner=DRIVER))
    store.volumes.upsert(volume("pv", claim="default/data", phase="Bound"))
    store.claims.upsert(claim("data", volume_name="pv"))
    store.attachments.upsert(attachment("pv", "n3"))
    cache.untouched()
    return store, cache


def all_touched(cache: StorageCache) -> set[str]:
    touched = set[str]()
    while cache.has_touched:
        touched |= cache.touched(USERS)
    return touched


@pytest.mark.parametrize(
    ("change", "nodes"),
    [
        pytest.param(lambda store: store.claims.upsert(claim("log")), {"n2"}, id="a claim that is new"),
        pytest.param(lambda store: store.claims.delete("default/data", 9), {"n1"}, id="one that is gone"),
        pytest.param(
            lambda store: store.claims.upsert(claim("data", volume_name="other", resource_version=2)),
            {"n1"},
            id="one with another volume",
        ),
        pytest.param(
            lambda store: store.claims.upsert(claim("data", volume_name="pv", size="99Gi", resource_version=2)),
            set(),
            id="one that counts as before",
        ),
        pytest.param(lambda store: store.volumes.delete("pv", 9), {"n1", "n3"}, id="a volume that is gone"),
        pytest.param(
            lambda store: store.volumes.upsert(
                volume("pv", claim="default/data", phase="Bound", handle="new", resource_version=2)
            ),
            {"n1", "n3"},
            id="one with another handle",
        ),
        pytest.param(
            lambda store: store.volumes.upsert(
                volume("pv", claim="default/data", phase="Released", resource_version=2)
            ),
            set(),
            id="one in another phase",
        ),
        pytest.param(
            lambda store: store.classes.upsert(storage_class(provisioner="other", resource_version=2)),
            set(NODES),
            id="a class of another provisioner",
        ),
        pytest.param(
            lambda store: store.classes.upsert(storage_class(provisioner=DRIVER, is_default=True, resource_version=2)),
            set(),
            id="a class that is the default now",
        ),
        pytest.param(lambda store: store.classes.delete("fast", 9), set(NODES), id="a class that is gone"),
        pytest.param(
            lambda store: store.csi_nodes.upsert(csi_node("n2", limits={DRIVER: 3}, resource_version=2)),
            {"n2"},
            id="another limit",
        ),
        pytest.param(
            lambda store: store.csi_nodes.upsert(csi_node("n2", resource_version=2)), set(), id="the same limit"
        ),
        pytest.param(lambda store: store.csi_nodes.delete("n2", 9), {"n2"}, id="a node without drivers"),
        pytest.param(
            lambda store: store.csi_drivers.upsert(
                csi_driver(DRIVER, prevent_pod_scheduling_if_missing=True, resource_version=2)
            ),
            set(NODES),
            id="a driver that rejects nodes without it",
        ),
        pytest.param(lambda store: store.attachments.upsert(attachment("pv", "n1")), {"n1"}, id="one attachment more"),
        pytest.param(
            lambda store: store.attachments.delete("attachment-pv-n3", 9), {"n3"}, id="an attachment that is gone"
        ),
    ],
)
def test_nodes_are_counted_again_where_what_counts_has_changed(
    change: Callable[[Store], object], nodes: set[str]
) -> None:
    store, cache = followed()
    assert not cache.has_touched
    change(store)
    assert all_touched(cache) == nodes


def test_a_volume_that_is_attached_no_more_concerns_its_node_no_more() -> None:
    store, cache = followed()
    store.attachments.delete("attachment-pv-n3", 9)
    assert all_touched(cache) == {"n3"}
    store.volumes.delete("pv", 9)
    assert all_touched(cache) == {"n1"}


def test_nodes_are_returned_in_steps_each_once() -> None:
    store, cache = followed(counted_nodes=2)
    store.classes.delete("fast", 9)
    steps = [cache.touched(USERS), cache.touched(USERS)]
    assert [len(step) for step in steps] == [2, 1]
    assert set.union(*steps) == set(NODES)
    assert not cache.has_touched


def test_so_many_changed_claims_that_all_nodes_are_counted_again() -> None:
    store, cache = followed()
    few: list[Claim] = [claim(f"c{number}") for number in range(MANY)]
    for each in few[:-1]:
        store.claims.upsert(each)
    assert all_touched(cache) == set()
    for number, each in enumerate(few):
        store.claims.upsert(claim(each.name, volume_name=f"v{number}", resource_version=2))
    assert all_touched(cache) == set(NODES)


def test_volumes_are_indexed_in_steps_and_a_view_takes_all_of_them() -> None:
    store, cache = followed(volumes=2)
    for number in range(5):
        store.volumes.upsert(volume(f"v{number}"))
    done = [cache.step(EPOCH) for _ in range(3)]
    assert done == [False, False, True]
    seen = cache.view(EPOCH)
    assert {each.name for each in seen.index.candidates(claim("new"))} == {f"v{number}" for number in range(5)}
    assert cache.view(EPOCH + timedelta(seconds=1)) is seen
    store.volumes.delete("v0", 9)
    store.volumes.upsert(volume("v1", size="1Mi", resource_version=2))
    later = cache.view(EPOCH)
    assert {each.name for each in later.index.candidates(claim("new"))} == {"v2", "v3", "v4"}
