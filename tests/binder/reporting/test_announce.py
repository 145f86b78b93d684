"""What users read: the reason, the next step, as much evidence as an Event holds, and nothing twice."""

from dataclasses import replace

import pytest

from binder.matching.rejection import Reason, Rejection
from binder.model.decision import Lost, Mode, Placement, Reject, Reserve
from binder.reporting.announce import CLAIMS_TOLD, REPEAT, Announcer
from tests.binder.world import Sink
from tests.builders import claim, pod, volume
from tests.fake_clock import FakeClock


def rejection(count: int, reason: Reason = Reason.TOO_SMALL, subject: str = "pv") -> Reject:
    rejections = tuple(Rejection(reason, f"{subject}-{number}", "10Gi", "1Gi") for number in range(count))
    return Reject(pod("web"), Reason.NO_VOLUME_FITS, rejections)


def reserve(mode: Mode = Mode.ANNOTATE) -> Reserve:
    return Reserve(pod("web"), mode, "a", "node-1", (), (Placement(claim("data"), volume("pv-1")),))


def test_a_rejection_is_reported_again_when_its_reasons_change_and_not_at_once() -> None:
    sink, clock = Sink(), FakeClock()
    announcer = Announcer(sink, clock)
    for later, decision in (
        (0, rejection(1)),
        (1, rejection(2)),
        (1, rejection(1, Reason.UNHEALTHY)),
        (REPEAT, rejection(3)),
    ):
        clock.jump(later)
        announcer.rejected(decision, (claim("data"),))
    assert len(sink.reasons_of("Pod", "web")) == len(sink.reasons_of("PersistentVolumeClaim", "data")) == 1
    announcer.rejected(rejection(1, Reason.UNHEALTHY), (claim("data"),))
    assert (
        sink.reasons_of("Pod", "web")
        == sink.reasons_of("PersistentVolumeClaim", "data")
        == ["StaticOnlyNoMatch", "StaticOnlyNoMatch"]
    )
    announcer.forget("default/web")
    announcer.rejected(rejection(1, Reason.UNHEALTHY), ())
    assert len(sink.reasons_of("Pod", "web")) == 3


def test_what_was_held_back_is_not_reported_when_nothing_changes_any_more() -> None:
    sink, clock = Sink(), FakeClock()
    announcer = Announcer(sink, clock)
    announcer.rejected(rejection(1), ())
    for later in (1, REPEAT, REPEAT):
        clock.jump(later)
        announcer.rejected(rejection(1, Reason.UNHEALTHY), ())
    assert sink.reasons_of("Pod", "web") == ["StaticOnlyNoMatch"]


def test_events_link_to_the_page_of_their_reason_where_the_site_is_known() -> None:
    sink = Sink()
    Announcer(sink, FakeClock(), "https://docs.example.com").rejected(rejection(1), (claim("data"),))
    assert [event.note.rpartition(". See ")[2] for event in sink.events] == [
        "https://docs.example.com/causes/StaticOnlyNoMatch/"
    ] * 2


def test_two_root_reasons_do_not_alternate() -> None:
    sink = Sink()
    announcer = Announcer(sink, FakeClock())
    for _ in range(3):
        announcer.rejected(replace(rejection(1), reason=Reason.NO_JOINT_ASSIGNMENT), ())
        announcer.rejected(rejection(1), ())
    assert sink.reasons_of("Pod", "web") == ["NoJointAssignment", "StaticOnlyNoMatch"]


def test_a_rejection_after_a_reservation_is_reported() -> None:
    sink = Sink()
    announcer = Announcer(sink, FakeClock())
    announcer.rejected(rejection(1), ())
    announcer.reserved(reserve())
    announcer.rejected(rejection(1), ())
    assert sink.reasons_of("Pod", "web") == ["StaticOnlyNoMatch", "VolumeReserved", "StaticOnlyNoMatch"]


@pytest.mark.parametrize(
    ("mode", "reason", "note"),
    [
        (Mode.PREBIND, "VolumeReserved", "Reserved pv-1 for claim data, pv-2 for claim wal in zone a"),
        (Mode.COMPLETE, "VolumeBound", "Bound pv-1 to claim data, pv-2 to claim wal in zone a"),
    ],
)
def test_one_event_about_the_pod_says_which_volume_each_claim_got(mode: Mode, reason: str, note: str) -> None:
    sink = Sink()
    first, second = (Placement(claim(name), volume(its)) for name, its in (("data", "pv-1"), ("wal", "pv-2")))
    Announcer(sink, FakeClock()).reserved(replace(reserve(mode), placements=(first, second)))
    (event,) = sink.events
    assert (event.regarding.kind, event.regarding.name, event.related) == ("Pod", "web", None)
    assert (event.type, event.reason, event.note) == ("Normal", reason, note)


def test_the_event_about_a_pod_with_one_claim_relates_to_the_claim() -> None:
    sink = Sink()
    Announcer(sink, FakeClock()).reserved(reserve())
    assert [(event.related.kind, event.related.name) for event in sink.events if event.related] == [
        ("PersistentVolumeClaim", "data")
    ]


def test_a_loss_names_the_claim_that_got_the_volume() -> None:
    sink = Sink()
    chosen = reserve()
    Announcer(sink, FakeClock()).lost(chosen, Lost(chosen.placements[0], "volume pv-1 was taken by claim ns/other"))
    assert {event.type for event in sink.events} == {"Warning"}
    assert (
        sink.events[0].note
        == "Reservation lost: volume pv-1 was taken by claim ns/other. Another volume is being chosen"
    )


def test_a_pod_with_hundreds_of_claims_makes_one_event() -> None:
    sink = Sink()
    announcer = Announcer(sink, FakeClock())
    claims = tuple(claim(f"data-{number}") for number in range(300))
    announcer.rejected(rejection(1), claims)
    assert [event.regarding.kind for event in sink.events] == ["Pod"]
    placements = tuple(Placement(each, volume(f"pv-{number}")) for number, each in enumerate(claims))
    announcer.reserved(replace(reserve(), placements=placements))
    assert [event.regarding.kind for event in sink.events] == ["Pod", "Pod"]
    sink.events.clear()
    announcer.forget("default/web")
    announcer.rejected(rejection(1), claims[:CLAIMS_TOLD])
    assert len(sink.events) == 1 + CLAIMS_TOLD
