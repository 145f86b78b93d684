"""Events reach the log, and the recorder that sends them."""

import logging

import pytest

from kube.client.event_recorder import EventDraft, ObjectRef
from prebinder.controller.logged_events import LoggedEvents


class Sink:
    def __init__(self) -> None:
        self.drafts: list[EventDraft] = []

    def publish(self, draft: EventDraft) -> None:
        self.drafts.append(draft)


def draft(kind: str) -> EventDraft:
    return EventDraft(ObjectRef("v1", kind, "x", "default"), None, "Normal", "VolumeReserved", "Reserve", "Reserved v")


def test_events_are_handed_on_and_those_about_pods_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    sink = Sink()
    for kind in ("Pod", "PersistentVolumeClaim"):
        LoggedEvents(sink).publish(draft(kind))
    assert sink.drafts == [draft("Pod"), draft("PersistentVolumeClaim")]
    assert [record.getMessage() for record in caplog.records] == ["Publishing Event"]
