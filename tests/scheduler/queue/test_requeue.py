from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from binder.reservation.contract import Annotations, Holder, VolumeReservation
from kube.objects import model
from kube.objects.labels import LabelSelector
from kube.objects.model import Pod, Record
from kube.rules.disruption import DisruptionBudget
from scheduler.cycle.cycle import Unschedulable, decide
from scheduler.cycle.diagnosis import diagnose
from scheduler.framework.cluster_event import ClusterEvent, Wanted
from scheduler.framework.plugin import ScheduleResult
from scheduler.plugins.registry import default_profile
from scheduler.queue.hints import may_help
from scheduler.queue.requeue import Changes, forgotten, wanted_by
from tests import builders
from tests.scheduler.worlds import VARIANTS, WAITING, WatchedStore, World

PLAIN = model.Namespace("team", "uid", 1, (("kubernetes.io/metadata.name", "team"),))
BUDGET = DisruptionBudget("default", "web", "uid", 1, LabelSelector(), 1)


def reserved_volume(claim_key: str, minutes: int) -> model.Volume:
    until = builders.EPOCH + timedelta(minutes=minutes)
    kept = VolumeReservation(claim_key, "uid", builders.EPOCH, until, Holder("me", 1))
    return builders.volume(annotations=Annotations().for_volume(kept))


PROFILE = default_profile("ours")

worlds = st.fixed_dictionaries({slot: st.sampled_from([*variants, None]) for slot, variants in VARIANTS.items()})
steps = st.sampled_from([(slot, record) for slot, variants in VARIANTS.items() for record in (*variants, None)])


def woken_and_fitting(pod: Pod, world: World, happening: list[tuple[str, Record | None]]) -> tuple[bool, bool]:
    """Whether one of the steps would wake the pod that was rejected before them; and whether it fits after them."""
    cluster = WatchedStore(world)
    rejected = decide(pod, cluster.view(), PROFILE)
    if not isinstance(rejected, Unschedulable):
        return True, True
    hints, wanted = diagnose(rejected).hints, wanted_by(rejected)
    changes: list[ClusterEvent] = []
    with Changes(cluster.store, changes.append, Annotations()).following():
        for slot, record in happening:
            cluster.show(slot, record)
    woken = any(may_help(pod, hints, change, wanted) for change in changes)
    return woken, not isinstance(decide(pod, cluster.view(), PROFILE), Unschedulable)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(WAITING), worlds, st.lists(steps, min_size=1, max_size=4))
def test_every_change_that_helps_a_rejected_pod_wakes_it(
    pod: Pod, world: World, happening: list[tuple[str, Record | None]]
) -> None:
    woken, fits = woken_and_fitting(pod, world, happening)
    assert woken or not fits


def changes_shown(before: World, happening: World) -> list[tuple[Record | None, Record | None]]:
    """What is reported, without versions, when these objects change."""
    cluster, changes = WatchedStore(before), list[ClusterEvent]()
    with Changes(cluster.store, changes.append, Annotations()).following():
        for slot, record in happening.items():
            cluster.show(slot, record)
    return [(_plain(change.old), _plain(change.new)) for change in changes]


def _plain(record: Record | None) -> Record | None:
    return None if record is None else replace(record, resource_version=1)


POD = builders.pod("p", node="n1", labels={"app": "web"})
NODE, VOLUME, CLAIM = builders.node(), builders.volume(), builders.claim()
GPU = model.Taint("gpu", "NoSchedule")
BOUND = builders.volume(claim="default/data", phase="Bound")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(NODE, NODE, id="a node that says it is alive"),
        pytest.param(POD, replace(POD, phase="Running", started=builders.EPOCH), id="a pod that starts"),
        pytest.param(None, replace(POD, phase="Succeeded"), id="a pod seen when it has ended"),
        pytest.param(replace(POD, phase="Failed"), None, id="an ended pod that is deleted"),
        pytest.param(VOLUME, reserved_volume("default/data", 5), id="a volume that is reserved"),
        pytest.param(
            reserved_volume("default/data", 5), reserved_volume("default/data", 9), id="a reservation that is renewed"
        ),
        pytest.param(None, builders.attachment("pv-1", "n1"), id="a volume that is attached"),
        pytest.param(BUDGET, replace(BUDGET, allowed=0), id="a budget that lets fewer go"),
        pytest.param(None, BUDGET, id="a new budget"),
        pytest.param(None, PLAIN, id="a namespace with the label that each has"),
    ],
)
def test_what_cannot_help_any_pod_is_not_published(before: Record | None, after: Record | None) -> None:
    assert changes_shown({"it": before}, {"it": after}) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(NODE, builders.node(taints=[GPU]), id="a node"),
        pytest.param(POD, replace(POD, labels=()), id="the labels of a pod"),
        pytest.param(POD, replace(POD, deleting=True), id="a pod that is being deleted"),
        pytest.param(POD, None, id="a pod that is deleted"),
        pytest.param(reserved_volume("default/data", 5), VOLUME, id="a reservation that is taken back"),
        pytest.param(
            reserved_volume("default/data", 5), reserved_volume("default/more", 9), id="a reservation for another"
        ),
        pytest.param(
            reserved_volume("default/data", 5), reserved_volume("default/data", 1), id="a reservation cut short"
        ),
        pytest.param(builders.attachment("pv-1", "n1"), None, id="a volume that is detached"),
        pytest.param(BUDGET, replace(BUDGET, allowed=2), id="a budget that lets more go"),
        pytest.param(BUDGET, None, id="a budget that is deleted"),
        pytest.param(PLAIN, replace(PLAIN, labels=(("team", "web"),)), id="the labels of a namespace"),
        pytest.param(builders.csi_node("n1", limits={"d": 1}), builders.csi_node("n1"), id="the drivers of a node"),
        pytest.param(builders.csi_driver(), None, id="a driver that is removed"),
        pytest.param(builders.capacity(size="1Gi"), builders.capacity(size="2Gi"), id="a report of free storage"),
    ],
)
def test_what_may_help_a_pod_is_published(before: Record, after: Record | None) -> None:
    assert changes_shown({"it": before}, {"it": after}) == [(before, after)]


def test_a_pod_that_ends_leaves_its_node() -> None:
    assert changes_shown({"it": POD}, {"it": replace(POD, phase="Succeeded")}) == [(POD, None)]


def test_a_pod_recreated_on_another_node_is_one_that_left_and_one_that_came() -> None:
    anew = builders.pod("p", node="n2", uid="anew")
    assert changes_shown({"it": POD}, {"it": anew}) == [(POD, None), (None, anew)]


def test_which_drivers_have_less_to_attach() -> None:
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    world: World = {
        "class": builders.storage_class(provisioner="maker"),
        "volume": BOUND,
        "claim": builders.claim(volume_name="pv-1", annotations=bound),
        "pod": builders.pod("p", node="n1", claims=["data"]),
        "attached": builders.attachment("pv-1", "n1"),
    }
    assert drivers(world, "pod", None) == {"disk.csi.example"}
    assert drivers(world, "attached", None) == {"disk.csi.example"}
    assert drivers(world, "claim", None) == {"disk.csi.example"}
    assert drivers(world, "volume", None) == {"disk.csi.example"}
    assert drivers(world, "class", None) == {"maker"}
    assert drivers(world, "claim", builders.claim(volume_name="pv-1")) == set()
    assert drivers({**world, "volume": None}, "volume", BOUND) == {"maker"}
    assert drivers({**world, "claim": CLAIM}, "claim", world["claim"]) == {"maker"}


def drivers(world: World, slot: str, record: Record | None) -> set[str]:
    cluster, changes = WatchedStore(world), list[ClusterEvent]()
    with Changes(cluster.store, changes.append, Annotations()).following():
        cluster.show(slot, record)
    return set().union(*(change.drivers for change in changes))


def test_a_pod_that_does_not_get_its_node_leaves_it_and_its_volumes_to_others() -> None:
    world: World = {"node": NODE, "class": builders.storage_class(), "volume": VOLUME, "claim": CLAIM}
    view = WatchedStore(world).view()
    placement = decide(builders.pod(claims=["data"]), view, PROFILE)
    assert isinstance(placement, ScheduleResult)
    pod, volume = forgotten(placement, view.storage.snapshot)
    assert isinstance(pod.old, Pod)
    assert (pod.old.node_name, pod.new, set(pod.drivers)) == ("node-1", None, {model.NO_PROVISIONER})
    assert (volume.old, volume.new and volume.new.name) == (None, "pv-1")


def test_what_a_rejected_pod_waits_for() -> None:
    world: World = {
        "node": builders.node(taints=[GPU]),
        "class": builders.storage_class(provisioner="maker"),
        "claim": CLAIM,
        "more": builders.claim("more", volume_name="pv-1", annotations={"pv.kubernetes.io/bind-completed": "yes"}),
        "volume": BOUND,
    }
    rejected = decide(builders.pod(claims=["data", "more"]), WatchedStore(world).view(), PROFILE)
    assert isinstance(rejected, Unschedulable)
    assert wanted_by(rejected) == Wanted(
        frozenset({"fast"}),
        frozenset({"pv-1"}),
        frozenset({"maker", "disk.csi.example"}),
        topology_keys=frozenset(),
    )
    rejected = decide(builders.pod(claims=["missing"]), WatchedStore(world).view(), PROFILE)
    assert isinstance(rejected, Unschedulable)
    assert wanted_by(rejected).whole
