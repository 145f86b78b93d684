"""What no watch shows can help too: what the scheduler itself takes back, and time. Who was rejected is tried again."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from binder.matching.rejection import Reason, Rejection
from binder.reservation.contract import Annotations, Holder, VolumeReservation
from kube.objects.constraints import Constraints
from kube.objects.model import BIND_COMPLETED
from kube.objects.reports import StorageCondition
from tests import builders
from tests.fake_clock import settle
from tests.scheduler.scheduler_in_memory import Desk, pod

NODE = builders.node("n1")


async def test_a_volume_that_was_reserved_for_another() -> None:
    desk = Desk(NODE)
    desk.store.classes.upsert(builders.storage_class())
    desk.store.volumes.upsert(builders.volume())
    for name in ("first", "second"):
        desk.store.claims.upsert(builders.claim(name))
    desk.volumes.ready.set()
    desk.binder.held = asyncio.Event()
    desk.binder.answers = [Rejection(Reason.KEPT_CHANGING, "default/one", "this", "that")]
    desk.add(pod("one", claims=["first"]), pod("two", claims=["second"]))
    async with desk.running():
        assert desk.metrics.failures == {Reason.RESERVED_FOR_OTHER: 1}
        desk.binder.held.set()
        await settle()
    assert desk.binder.nodes == {"two": "n1"}


async def test_a_node_that_was_being_cleared_for_another() -> None:
    desk = Desk(NODE)
    desk.store.pods.upsert(builders.pod("there", node="n1", requests={"cpu": "4"}))
    better = replace(pod("better", "6", priority=9, constraints=Constraints(preempts=False)), nominated_node="n1")
    desk.add(better, pod("small", "3"))
    async with desk.running():
        rejected = dict(desk.metrics.failures)
        desk.pods.delete(better.key)
        await settle()
    assert rejected == {Reason.INSUFFICIENT_RESOURCES: 2}
    assert desk.binder.nodes == {"small": "n1"}


async def test_a_reservation_that_expires_without_a_write() -> None:
    desk = Desk(NODE)
    ends = desk.clock.now() + timedelta(seconds=40)
    kept = VolumeReservation("default/other", "uid-other", desk.clock.now(), ends, Holder("me", 1))
    desk.store.classes.upsert(builders.storage_class())
    desk.store.volumes.upsert(builders.volume(annotations=Annotations().for_volume(kept)))
    desk.store.claims.upsert(builders.claim())
    desk.volumes.ready.set()
    desk.add(pod("web", claims=["data"]))
    async with desk.running():
        await desk.clock.advance(39)
        tried = list(desk.binder.order)
        await desk.clock.advance(2)
    assert tried == []
    assert desk.binder.nodes == {"web": "n1"}


@pytest.mark.parametrize("bound", [True, False], ids=["bound", "open"])
async def test_a_node_that_reaches_its_storage_again(bound: bool) -> None:
    """The pod goes nowhere else: only n1 is large enough, and n2 reaches the volume."""
    desk = Desk(NODE, builders.node("n2", allocatable={"cpu": "1"}))
    cut = [StorageCondition("disk.csi.example", "StorageUnreachable", "Net")]
    desk.store.csi_nodes.upsert(builders.csi_node("n1", reports=cut))
    desk.store.classes.upsert(builders.storage_class())
    desk.store.volumes.upsert(builders.volume(claim="default/data" if bound else None))
    name, annotations = ("pv-1", {BIND_COMPLETED: "yes"}) if bound else ("", {})
    desk.store.claims.upsert(builders.claim(volume_name=name, annotations=annotations))
    desk.volumes.ready.set()
    desk.add(pod("web", "3", claims=["data"]))
    async with desk.running():
        tried = list(desk.binder.order)
        desk.store.csi_nodes.upsert(builders.csi_node("n1", resource_version=2))
        await desk.clock.advance(30)
    assert tried == []
    assert "1 node(s) had no access to the storage of the pod's volumes" in desk.notes("FailedScheduling")[0]
    assert desk.binder.nodes == {"web": "n1"}
