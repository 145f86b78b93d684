"""Events and metrics about drivers whose answers exceed a limit."""

from prometheus_client import CollectorRegistry

from csi.health.size_limit import SizeLimit
from kube.client.event_recorder import EventDraft, ObjectRef
from prebinder.controller.driver_events import PAUSE_SECONDS, DriverEvents
from prebinder.metrics.drivers import DriverMetrics
from tests.fake_clock import FakeClock

DRIVER = "csi.example.com"


class Sink:
    def __init__(self) -> None:
        self.drafts: list[EventDraft] = []

    def publish(self, draft: EventDraft) -> None:
        self.drafts.append(draft)


def test_each_limit_of_a_driver_is_an_event_a_minute_and_every_answer_is_counted() -> None:
    registry, sink, clock = CollectorRegistry(), Sink(), FakeClock()
    metrics = DriverMetrics(registry)
    metrics.expect_drivers([DRIVER])
    events = DriverEvents(metrics, sink, lambda name: f"uid of {name}", clock)
    for limit in (SizeLimit.TOPOLOGY, SizeLimit.PAGE_TOKEN):
        for _ in range(100):
            events.exceeded(DRIVER, limit, "a page token has 129 bytes, 128 allowed")
    clock.jump(PAUSE_SECONDS)
    events.exceeded(DRIVER, SizeLimit.TOPOLOGY, "more")
    assert [draft.reason for draft in sink.drafts] == ["DriverLimitExceeded"] * 3
    assert {draft.regarding for draft in sink.drafts} == {
        ObjectRef("storage.k8s.io/v1", "CSIDriver", DRIVER, uid=f"uid of {DRIVER}")
    }
    assert "(PageToken): a page token has 129 bytes, 128 allowed. " in sink.drafts[1].note
    counted = {
        limit: registry.get_sample_value(
            "pvc_prebinder_csi_limit_exceeded_total", {"driver_name": DRIVER, "limit": limit}
        )
        for limit in SizeLimit
    }
    assert counted == {**dict.fromkeys(SizeLimit, 0), SizeLimit.TOPOLOGY: 101, SizeLimit.PAGE_TOKEN: 100}
