"""Which changes wake those that wait around a placement, and that no listener is left afterwards."""

from collections.abc import Callable

import pytest

from kube.store.store import Store
from scheduler.binding.store_waits import StoreWaits
from scheduler.framework.plugin import ScheduleResult
from scheduler.volumes.volume_binding import VolumeChoice
from tests.builders import claim, node, pod, volume

POD, OTHER = pod("web", claims=["data", "made"]), pod("other")
DATA, MADE, PV = claim("data"), claim("made"), volume("pv")
PLACEMENT = ScheduleResult(POD, "node-1", VolumeChoice(((DATA, PV),), (MADE,)))
ELSEWHERE = ScheduleResult(OTHER, "node-2", VolumeChoice(()))


def cluster() -> tuple[Store, StoreWaits]:
    store = Store()
    for each in (POD, OTHER):
        store.pods.upsert(each)
    for name in ("node-1", "node-2"):
        store.nodes.upsert(node(name))
    for wanted in (DATA, MADE, claim("foreign")):
        store.claims.upsert(wanted)
    store.volumes.upsert(PV)
    return store, StoreWaits(store, store.pods)


@pytest.mark.parametrize(
    ("change", "wakes"),
    [
        pytest.param(lambda store: store.pods.delete("default/web"), True, id="its pod is gone"),
        pytest.param(lambda store: store.pods.delete("default/other"), False, id="another pod is"),
        pytest.param(lambda store: store.nodes.delete("node-1"), True, id="its node is gone"),
        pytest.param(
            lambda store: store.nodes.upsert(node("node-1", zone="b", resource_version=2)), True, id="other labels"
        ),
        pytest.param(
            lambda store: store.nodes.upsert(node("node-1", unschedulable=True, resource_version=2)),
            False,
            id="the same labels",
        ),
        pytest.param(lambda store: store.nodes.delete("node-2"), False, id="another node is gone"),
        pytest.param(
            lambda store: store.claims.upsert(claim("made", volume_name="pv-new", resource_version=2)),
            True,
            id="its claim has a volume",
        ),
        pytest.param(lambda store: store.claims.delete("default/data"), True, id="its claim is gone"),
        pytest.param(lambda store: store.claims.delete("default/foreign"), False, id="another claim is"),
        pytest.param(lambda store: store.volumes.delete("pv"), True, id="its volume is gone"),
        pytest.param(
            lambda store: store.volumes.upsert(volume("pv-new", claim="default/made")),
            True,
            id="one made for its claim",
        ),
        pytest.param(
            lambda store: store.volumes.upsert(volume("pv-new", claim="default/foreign")), False, id="one for another"
        ),
        pytest.param(lambda store: store.volumes.upsert(volume("free")), False, id="one for nobody"),
    ],
)
def test_a_change_around_the_placement_sets_the_event(change: Callable[[Store], object], wakes: bool) -> None:
    store, waits = cluster()
    with waits.changes(PLACEMENT) as event:
        change(store)
        assert event.is_set() is wakes


def test_a_node_that_comes_back_sets_the_event() -> None:
    store, waits = cluster()
    store.nodes.delete("node-1")
    with waits.changes(PLACEMENT) as event:
        store.nodes.upsert(node("node-1", resource_version=3))
        assert event.is_set()


def test_each_event_is_set_for_its_own_placement_and_no_listener_is_left() -> None:
    store, waits = cluster()
    with waits.changes(PLACEMENT) as first:
        with waits.changes(PLACEMENT) as second, waits.changes(ELSEWHERE) as third:
            store.nodes.delete("node-2")
            assert (first.is_set(), second.is_set(), third.is_set()) == (False, False, True)
        store.pods.delete("default/web")
        assert (first.is_set(), second.is_set()) == (True, False)
    assert store.pods.listeners == store.nodes.listeners == store.claims.listeners == store.volumes.listeners == []
    with waits.changes(PLACEMENT) as again:
        store.volumes.delete("pv")
        assert again.is_set()
