"""Reads and writes of single objects: never without the lease, and never forgotten."""

import pytest

from binder.reservation.contract import Annotations
from binder.writers.object_client import ObjectClient
from kube.client.api import KubeApi
from kube.errors import Conflict, Invalid, LeadershipLost, NotFound
from kube.leaderelection.leadership import Leadership
from kube.store.store import Store
from tests.fake_clock import FakeClock
from tests.fakes.kube_api import Connection, FakeKubeApi, failure
from tests.fakes.objects import claim_object, volume_object

NOTE = {"metadata": {"annotations": {"note": "x"}}}


class Desk:
    def __init__(self) -> None:
        self.server, self.store = FakeKubeApi(), Store()
        self.server.put(volume_object("pv-1"))
        self.server.put(claim_object("data"))
        self.server.feed(self.store)
        self.leadership = Leadership.unelected(FakeClock(), "host")
        api = KubeApi(Connection(self.server), fence=self.leadership.fence)
        self.client = ObjectClient(api, self.store, Annotations())


async def test_no_write_without_the_lease() -> None:
    desk = Desk()
    snapshot = desk.store.snapshot()
    desk.leadership.end()
    with pytest.raises(LeadershipLost):
        await desk.client.patch_volume(snapshot.volumes["pv-1"], NOTE)
    with pytest.raises(LeadershipLost):
        await desk.client.patch_claim(snapshot.claims["default/data"], NOTE)
    assert desk.server.writes == []


async def test_an_answer_is_known_before_the_watch_shows_it() -> None:
    desk = Desk()
    before = desk.store.snapshot().volumes["pv-1"]
    desk.server.lagging = True
    written = await desk.client.patch_volume(before, NOTE)
    assert desk.store.snapshot().volumes["pv-1"] == written.record
    with pytest.raises(Conflict):
        await desk.client.patch_volume(before, NOTE)


async def test_what_is_gone_is_none() -> None:
    desk = Desk()
    assert await desk.client.volume("pv-9") is None
    assert await desk.client.claim("default/gone") is None


async def test_a_rejection_of_an_object_that_did_not_change_is_final() -> None:
    desk = Desk()
    snapshot = desk.store.snapshot()
    desk.server.reject_next += [("PATCH", failure(422, "Invalid"))] * 2
    with pytest.raises(Invalid):
        await desk.client.patch_volume(snapshot.volumes["pv-1"], NOTE)
    with pytest.raises(Invalid):
        await desk.client.patch_claim(snapshot.claims["default/data"], NOTE)


async def test_a_rejection_of_an_object_that_changed_means_that_another_writer_was_faster() -> None:
    desk = Desk()
    seen = desk.store.snapshot()
    desk.server.put(volume_object("pv-1", "20Gi"))
    desk.server.remove("persistentvolumeclaims", "default/data")
    desk.server.reject_next += [("PATCH", failure(422, "Invalid"))] * 2
    with pytest.raises(Conflict, match="Invalid"):
        await desk.client.patch_volume(seen.volumes["pv-1"], NOTE)
    with pytest.raises(NotFound):
        await desk.client.patch_claim(seen.claims["default/data"], NOTE)
