"""A dry run cannot write, whatever is overlooked elsewhere."""

import logging
from contextlib import AbstractAsyncContextManager

import pytest

from kube.client.event_recorder import EventDraft, ObjectRef
from kube.client.transport import Request, Response, StreamResponse
from prebinder.runtime.dry_run import LoggedEvents, ReadOnlyTransport


class Reached:
    """Notes which requests got through."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    async def send(self, request: Request) -> Response:
        self.requests.append(request.method)
        return Response(200, b"{}", {})

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        raise NotImplementedError


class Sink:
    def __init__(self) -> None:
        self.drafts: list[EventDraft] = []

    def publish(self, draft: EventDraft) -> None:
        self.drafts.append(draft)


def draft(kind: str) -> EventDraft:
    return EventDraft(ObjectRef("v1", kind, "x", "default"), None, "Normal", "VolumeReserved", "Reserve", "Reserved v")


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
async def test_a_write_fails_before_it_is_sent(method: str) -> None:
    inner = Reached()
    with pytest.raises(PermissionError, match=f"dry run: {method} /x refused"):
        await ReadOnlyTransport(inner).send(Request(method, "/x"))
    assert inner.requests == []


async def test_a_read_goes_through() -> None:
    inner = Reached()
    await ReadOnlyTransport(inner).send(Request("GET", "/x"))
    assert inner.requests == ["GET"]


def test_events_are_handed_on_and_those_about_pods_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    sink = Sink()
    for kind in ("Pod", "PersistentVolumeClaim"):
        LoggedEvents(sink).publish(draft(kind))
    assert sink.drafts == [draft("Pod"), draft("PersistentVolumeClaim")]
    assert [record.getMessage() for record in caplog.records] == ["Published Event"]


def test_a_dry_run_only_logs_events(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    LoggedEvents(None).publish(draft("Pod"))
    assert [record.getMessage() for record in caplog.records] == ["Would publish Event"]
