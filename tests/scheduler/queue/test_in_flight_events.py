from scheduler.framework.cluster_event import ClusterEvent
from scheduler.queue.in_flight_events import InFlightEvents
from tests import builders

A, B, C = (ClusterEvent(None, builders.node(name)) for name in "abc")


def test_each_attempt_gets_the_events_since_its_beginning() -> None:
    events = InFlightEvents()
    events.add(A)
    events.begin("first")
    events.add(B)
    events.begin("second")
    events.add(C)
    assert events.since("first") == (B, C)
    assert events.since("second") == (C,)
    events.end("first")
    assert len(events) == 1
    assert events.since("second") == (C,)
    events.end("second")
    assert len(events) == 0


def test_an_attempt_that_outlasts_later_ones_misses_no_event() -> None:
    events = InFlightEvents()
    events.begin("first")
    events.add(A)
    events.begin("second")
    events.end("second")
    events.add(B)
    assert events.since("first") == (A, B)


def test_what_was_dropped_is_not_passed_over() -> None:
    events = InFlightEvents(longest=2)
    events.begin("slow")
    for change in (A, B, C):
        events.add(change)
    events.begin("quick")
    assert events.since("slow") is None
    assert events.since("quick") == ()
    assert events.since("stranger") is None
    events.forget()
    events.add(A)
    assert events.since("quick") is None
    events.begin("later")
    events.add(B)
    assert events.since("later") == (B,)
