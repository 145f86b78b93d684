"""The recorder against a server that keeps Events, in fake time."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from kube.client.api import KubeApi
from kube.client.event_limit import OBJECT_BURST
from kube.client.event_recorder import (
    BURST,
    QPS,
    QUEUE,
    YIELD_PAUSE,
    YIELD_SECONDS,
    EventDraft,
    EventRecorder,
    ObjectRef,
    never,
    shortened,
)
from kube.client.transport import Request
from kube.errors import Unavailable
from tests.fake_clock import FakeClock
from tests.kube.counted import CountedEvents
from tests.kube.scripted_transport import Answer, ScriptedTransport, answer, failure
from tests.running_task import running

CLAIM = ObjectRef("v1", "PersistentVolumeClaim", "data-0", "shop", "u1")
VOLUME = ObjectRef("v1", "PersistentVolume", "vol-a")
RESERVED = EventDraft(CLAIM, VOLUME, "Normal", "VolumeReserved", "Reserve", "reserved vol-a in zone-a")


class Server:
    """Keeps Events by name. `metrics` are those of its recorder."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.reject: list[Answer] = []
        self.metrics = CountedEvents()

    def __call__(self, request: Request) -> Answer:
        if self.reject:
            return self.reject.pop(0)
        body = json.loads(request.body or b"")
        if request.method == "POST":
            body["metadata"]["resourceVersion"] = "1"
            self.events[body["metadata"]["name"]] = body
            return answer(201, body)
        stored = self.events.get(request.path.rpartition("/")[2])
        if stored is None:
            return answer(404, failure(404, "NotFound"))
        if body["metadata"].pop("resourceVersion") != stored["metadata"]["resourceVersion"]:
            return answer(409, failure(409, "Conflict"))
        stored.update(series=body["series"])
        stored["metadata"]["resourceVersion"] += "1"
        return answer(200, stored)

    @property
    def sent(self) -> int:
        return self.metrics.sent.total()

    @property
    def dropped(self) -> int:
        return self.metrics.dropped.total()


@asynccontextmanager
async def recording(
    clock: FakeClock, server: Server, busy: Callable[[], bool] = never
) -> AsyncIterator[tuple[EventRecorder, ScriptedTransport]]:
    transport = ScriptedTransport(server)
    recorder = EventRecorder(
        KubeApi(transport),
        clock,
        server.metrics,
        controller="pvc-prebinder.example/controller",
        instance="host_1",
        busy=busy,
    )
    async with running(recorder.run()):
        yield recorder, transport


async def test_an_event_waits_while_more_urgent_writes_are_pending_but_a_warning_does_not() -> None:
    clock, server, bursts = FakeClock(), Server(), [True]
    async with recording(clock, server, lambda: bool(bursts)) as (recorder, _):
        recorder.publish(RESERVED)
        await clock.advance(1)
        assert server.sent == 0
        recorder.publish(replace(RESERVED, type="Warning", reason="VolumeLost"))
        await clock.advance(YIELD_PAUSE)
        assert [event["reason"] for event in server.events.values()] == ["VolumeLost"]
        bursts.clear()
        await clock.advance(YIELD_PAUSE)
    assert [event["reason"] for event in server.events.values()] == ["VolumeLost", "VolumeReserved"]
    assert server.events.popitem()[1]["eventTime"] == "2026-01-01T12:00:00.000000Z"


async def test_an_event_waits_no_longer_than_ten_seconds() -> None:
    clock, server = FakeClock(), Server()
    async with recording(clock, server, lambda: True) as (recorder, _):
        recorder.publish(RESERVED)
        await clock.advance(YIELD_SECONDS - 1)
        assert server.sent == 0
        await clock.advance(1)
        assert server.sent == 1


async def test_an_event_does_not_wait_for_a_clock_that_was_set_back() -> None:
    clock, server = FakeClock(), Server()
    async with recording(clock, server, lambda: True) as (recorder, _):
        recorder.publish(RESERVED)
        clock.set_time(-3600)
        await clock.advance(YIELD_SECONDS)
        assert server.sent == 1


async def test_an_event_is_written_as_the_api_wants_it() -> None:
    clock, server = FakeClock(), Server()
    async with recording(clock, server) as (recorder, transport):
        recorder.publish(RESERVED)
        await clock.advance(1)
    (stored,) = server.events.values()
    assert stored["metadata"]["name"].startswith("data-0.")
    del stored["metadata"]
    assert stored == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": "2026-01-01T12:00:00.000000Z",
        "reportingController": "pvc-prebinder.example/controller",
        "reportingInstance": "host_1",
        "regarding": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "name": "data-0",
            "namespace": "shop",
            "uid": "u1",
        },
        "related": {"apiVersion": "v1", "kind": "PersistentVolume", "name": "vol-a"},
        "type": "Normal",
        "reason": "VolumeReserved",
        "action": "Reserve",
        "note": "reserved vol-a in zone-a",
    }
    assert transport.requests[0].path == "/apis/events.k8s.io/v1/namespaces/shop/events"


async def test_a_draft_may_name_its_reporter() -> None:
    clock, server = FakeClock(), Server()
    async with recording(clock, server) as (recorder, _):
        recorder.publish(replace(RESERVED, controller="zone-scheduler"))
        await clock.advance(1)
    (stored,) = server.events.values()
    assert stored["reportingController"] == "zone-scheduler"


async def test_events_about_cluster_scoped_objects_live_in_default() -> None:
    clock, server = FakeClock(), Server()
    async with recording(clock, server) as (recorder, transport):
        recorder.publish(replace(RESERVED, regarding=VOLUME, related=None))
        await clock.advance(1)
    assert transport.requests[0].path.endswith("/namespaces/default/events")


async def test_a_warning_does_not_wait_behind_what_went_well() -> None:
    clock, server = FakeClock(), Server()
    async with recording(clock, server) as (recorder, transport):
        crowd = BURST + 10 * int(QPS)
        for number in range(crowd):
            recorder.publish(replace(RESERVED, note=str(number)))
        recorder.publish(replace(RESERVED, type="Warning", note="first"))
        recorder.publish(replace(RESERVED, type="Warning", note="second"))
        await clock.advance(1)
        notes = [json.loads(request.body or b"")["note"] for request in transport.requests]
        assert notes[:4] == ["first", "second", "0", "1"]
        assert len(notes) < crowd


async def test_repeats_become_a_series_with_few_writes() -> None:
    clock, server = FakeClock(), Server()
    async with recording(clock, server) as (recorder, transport):
        for _ in range(100):
            recorder.publish(RESERVED)
            await clock.advance(1)
        assert len(transport.requests) <= 4
        await recorder.flush(5)
    (stored,) = server.events.values()
    assert stored["series"] == {"count": 100, "lastObservedTime": "2026-01-01T12:01:39.000000Z"}


async def test_another_note_and_a_late_repeat_are_sent() -> None:
    clock, server = FakeClock(), Server()
    async with recording(clock, server) as (recorder, _):
        recorder.publish(RESERVED)
        recorder.publish(replace(RESERVED, note="reserved vol-b in zone-b"))
        await clock.advance(400)
        recorder.publish(RESERVED)
        await clock.advance(1)
    assert len(server.events) == 3


@pytest.mark.parametrize("lost", ["deleted", "changed"])
async def test_a_series_that_is_gone_from_the_server_starts_again(lost: str) -> None:
    clock, server = FakeClock(), Server()
    async with recording(clock, server) as (recorder, _):
        recorder.publish(RESERVED)
        await clock.advance(1)
        (stored,) = server.events.values()
        stored["metadata"]["resourceVersion"] = "77"
        if lost == "deleted":
            server.events.clear()
        recorder.publish(RESERVED)
        await clock.advance(1)
        recorder.publish(RESERVED)
        await clock.advance(1)
    assert len(server.events) == (1 if lost == "deleted" else 2)
    assert (server.sent, server.dropped) == (2, 1)


async def test_temporary_failures_are_retried() -> None:
    clock, server = FakeClock(), Server()
    server.reject = [
        Unavailable("POST", "/", 0, "ClientConnectorError", "rejected"),
        answer(429, failure(429, "TooManyRequests"), Retry_After="30"),
    ]
    async with recording(clock, server) as (recorder, _):
        recorder.publish(RESERVED)
        await clock.advance(20)
        assert server.sent == 0
        await clock.advance(20)
    assert (server.sent, server.dropped) == (1, 0)


@pytest.mark.parametrize(
    "rejections",
    [
        [answer(403, failure(403, "Forbidden"))],
        [answer(422, failure(422, "Invalid"))],
        [answer(200, b"<html>")] * 3,
        [answer(201, {"no": "metadata"})],
        [Unavailable("POST", "/", 0, "x", "rejected")] * 3,
    ],
    ids=["403", "422", "html", "odd answer", "down"],
)
async def test_an_event_that_cannot_be_sent_is_dropped_and_counted_and_the_next_is_sent(
    rejections: list[Answer],
) -> None:
    clock, server = FakeClock(), Server()
    server.reject = list(rejections)
    async with recording(clock, server) as (recorder, _):
        recorder.publish(RESERVED)
        recorder.publish(replace(RESERVED, note="other"))
        await clock.advance(60)
    assert (server.sent, server.dropped) == (1, 1)


async def test_a_storm_is_bounded_and_paced() -> None:
    clock, server = FakeClock(), Server()
    async with recording(clock, server) as (recorder, _):
        for number in range(QUEUE + 500):
            recorder.publish(replace(RESERVED, regarding=replace(VOLUME, name=str(number))))
        assert server.dropped == 500
        await clock.advance(10)
        assert server.sent == pytest.approx(BURST + 10 * QPS, abs=2)


async def test_what_is_too_much_about_one_object_is_dropped_and_counted_but_repeats_are_not() -> None:
    clock, server = FakeClock(), Server()
    async with recording(clock, server) as (recorder, _):
        for number in range(OBJECT_BURST + 100):
            recorder.publish(replace(RESERVED, note=str(number)))
        await clock.advance(10)
        assert (len(server.events), server.dropped) == (OBJECT_BURST, 100)
        recorder.publish(replace(RESERVED, type="Warning"))
        for _ in range(100):
            recorder.publish(replace(RESERVED, note="0"))
        await clock.advance(10)
        assert server.dropped == 100
        assert max(event.get("series", {}).get("count", 0) for event in server.events.values()) == 2
        await recorder.flush(5)
        assert max(event.get("series", {}).get("count", 0) for event in server.events.values()) == 101


async def test_flush_waits_for_what_was_published_but_not_for_ever() -> None:
    clock, server = FakeClock(), Server()
    async with recording(clock, server) as (recorder, _):
        recorder.publish(RESERVED)
        await recorder.flush(5)
        assert server.sent == 1
        server.reject = [Unavailable("POST", "/", 0, "x", "rejected")] * 3
        for note in ("under way", "waiting", "waiting too"):
            recorder.publish(replace(RESERVED, note=note))
        flushing = asyncio.ensure_future(recorder.flush(0.5))
        await clock.advance(0.5)
        assert flushing.done()
        assert (server.sent, server.dropped) == (1, 2)
    assert (server.sent, server.dropped) == (1, 3), "what was under way is counted when it is broken off"


@pytest.mark.parametrize("note", ["x" * 5000, "ü" * 5000, "€" * 341 + "xx", "short"], ids=lambda note: note[:2])
def test_notes_fit_the_api_and_stay_text(note: str) -> None:
    cut = shortened(note)
    assert len(cut.encode()) <= 1024
    assert note == cut or (cut.endswith("…") and note.startswith(cut[:-1]))


async def test_repeats_leave_room_for_what_is_new_about_an_object() -> None:
    clock, server = FakeClock(), Server()
    async with recording(clock, server) as (recorder, _):
        for _ in range(4 * OBJECT_BURST):
            recorder.publish(RESERVED)
            await clock.advance(10)
        recorder.publish(replace(RESERVED, note="something else"))
        await clock.advance(1)
        assert [stored["note"] for stored in server.events.values()] == [RESERVED.note, "something else"]
        await recorder.flush(5)
    (first, _) = server.events.values()
    assert first["series"]["count"] == 4 * OBJECT_BURST
