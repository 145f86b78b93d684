"""A dry run reads, writes nothing, and is answered as if it had written."""

import json
import logging
from typing import Any

import msgspec
import pytest

from kube.background import in_background
from kube.client.api import KubeApi
from kube.client.dry_run import DryRun
from kube.client.event_recorder import EventDraft, EventRecorder, ObjectRef
from kube.errors import Conflict, NotFound
from kube.objects.api_resource import CLAIMS, PODS, VOLUMES
from tests.fake_clock import FakeClock, settle
from tests.fakes.kube_api import Connection, FakeKubeApi
from tests.fakes.objects import claim_object, volume_object
from tests.kube.counted import CountedEvents

NOTE = {"metadata": {"annotations": {"note": "x"}}}


class Desk:
    """A server with a volume and a claim, and an API through which nothing is written."""

    def __init__(self) -> None:
        self.server = FakeKubeApi()
        self.server.put(volume_object("pv-1"))
        self.server.put(claim_object("data"))
        self.connection = Connection(self.server)
        self.api = KubeApi(DryRun(self.connection))

    async def volume(self) -> Any:
        return msgspec.json.decode(await self.api.get(VOLUMES, "pv-1"))

    async def patch(self, body: Any, version: str, subresource: str = "", uid: str = "") -> Any:
        answer = await self.api.conditional_patch(
            VOLUMES, "pv-1", body, resource_version=version, subresource=subresource, uid=uid
        )
        return msgspec.json.decode(answer)


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_a_patch_is_answered_as_if_it_had_been_written(desk: Desk) -> None:
    before = await desk.volume()
    answer = await desk.patch({"metadata": {"annotations": {"note": "x"}}, "spec": {"storageClassName": None}}, "101")
    assert answer["metadata"]["annotations"] == {"note": "x"}
    assert "storageClassName" not in answer["spec"]
    assert answer["spec"]["capacity"] == before["spec"]["capacity"]
    assert await desk.volume() == answer, "later reads show it"
    assert desk.server.writes == []
    assert desk.server.get("persistentvolumes", "pv-1") == before


async def test_writes_of_one_object_add_up(desk: Desk) -> None:
    await desk.patch(NOTE, "101")
    answer = await desk.patch({"spec": {"ignored": "by the status"}, "status": {"phase": "Bound"}}, "101", "status")
    assert answer["metadata"]["annotations"] == {"note": "x"}
    assert answer["status"]["phase"] == "Bound"
    assert "ignored" not in answer["spec"]


async def test_the_status_is_changed_by_its_subresource_only(desk: Desk) -> None:
    answer = await desk.patch({**NOTE, "status": {"phase": "Bound"}}, "101")
    assert answer["status"]["phase"] == "Available"


@pytest.mark.parametrize(("version", "uid"), [("100", ""), ("101", "another")])
async def test_an_object_that_changed_is_a_conflict(desk: Desk, version: str, uid: str) -> None:
    with pytest.raises(Conflict):
        await desk.patch(NOTE, version, uid=uid)


async def test_an_object_that_is_gone_is_not_found(desk: Desk) -> None:
    await desk.patch(NOTE, "101")
    desk.server.remove("persistentvolumes", "pv-1")
    with pytest.raises(NotFound):
        await desk.patch(NOTE, "101")
    desk.server.put(volume_object("pv-1"))
    assert "annotations" not in (await desk.volume())["metadata"]


async def test_a_change_on_the_server_replaces_the_simulated_write(desk: Desk) -> None:
    await desk.patch(NOTE, "101")
    desk.server.change("persistentvolumes", "pv-1", lambda document: document["metadata"].update(labels={"a": "b"}))
    seen = await desk.volume()
    assert seen == desk.server.get("persistentvolumes", "pv-1")
    with pytest.raises(Conflict):
        await desk.patch(NOTE, "101")


async def test_each_write_is_logged_with_what_it_would_change(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kube.client.dry_run")
    await desk.patch(NOTE, "101")
    await desk.api.conditional_patch(CLAIMS, "data", NOTE, resource_version="102", namespace="default")
    await desk.api.create(PODS, {"target": {"name": "n1"}}, "default", name="web", subresource="binding")
    with pytest.raises(Conflict):
        await desk.patch(NOTE, "99")
    records = [vars(record) for record in caplog.records]
    assert [record["msg"] for record in records] == ["Would write"] * 3
    assert (records[0]["pv"], json.loads(records[0]["change"])) == ("pv-1", NOTE)
    assert records[1]["pvc"] == "default/data"
    assert records[2]["pod"] == "default/web"


async def test_events_and_their_series_are_left_out_too(desk: Desk) -> None:
    clock, events = FakeClock(), CountedEvents()
    recorder = EventRecorder(desk.api, clock, events, controller="c", instance="i")
    draft = EventDraft(ObjectRef("v1", "Pod", "x", "default"), None, "Normal", "VolumeReserved", "Reserve", "Reserved")
    async with in_background(recorder.run()):
        for _ in range(3):
            recorder.publish(draft)
            await clock.advance(61)
            await settle()
    assert (events.sent, events.dropped) == ({"VolumeReserved": 3}, {})
    assert desk.connection.requests == 0


async def test_the_answer_is_json_of_the_api(desk: Desk) -> None:
    answer = await desk.api.create(PODS, {"kind": "Pod", "metadata": {"name": "web"}}, "default")
    assert msgspec.json.decode(answer)["metadata"] == {"name": "web", "resourceVersion": "1"}
