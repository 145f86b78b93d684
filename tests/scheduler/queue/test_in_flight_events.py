from scheduler.framework.cluster_event import ClusterEvent
from scheduler.queue.in_flight_events import InFlightEvents
from tests import builders

A, B, C = (ClusterEvent(None, builders.node(name)) for name in "abc")


def test_everyone_gets_what_arrived_since_he_was_begun() -> None:
    journal = InFlightEvents()
    journal.add(A)
    journal.begin("first")
    journal.add(B)
    journal.begin("second")
    journal.add(C)
    assert journal.since("first") == (B, C)
    assert journal.since("second") == (C,)
    journal.end("first")
    assert len(journal) == 1
    assert journal.since("second") == (C,)
    journal.end("second")
    assert len(journal) == 0


def test_who_ends_later_than_those_begun_after_him_misses_nothing() -> None:
    journal = InFlightEvents()
    journal.begin("first")
    journal.add(A)
    journal.begin("second")
    journal.end("second")
    journal.add(B)
    assert journal.since("first") == (A, B)


def test_what_was_dropped_is_not_passed_over() -> None:
    journal = InFlightEvents(longest=2)
    journal.begin("slow")
    for change in (A, B, C):
        journal.add(change)
    journal.begin("quick")
    assert journal.since("slow") is None
    assert journal.since("quick") == ()
    assert journal.since("stranger") is None
    journal.forget()
    journal.add(A)
    assert journal.since("quick") is None
    journal.begin("later")
    journal.add(B)
    assert journal.since("later") == (B,)
