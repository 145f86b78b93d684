"""A rejection's note: one line that fits into an Event, with a link if the documentation is served, and read back."""

import pytest

from binder.matching.rejection import Reason, Rejection
from binder.model.decision import Reject
from binder.reporting.rejection_note import NOTE_BYTES, RejectionNote, parse_rejection_note, rejection_note
from tests.builders import pod

SITE = "https://docs.example.com/pvc-prebinder/"
LINK = "See https://docs.example.com/pvc-prebinder/causes/StaticOnlyNoMatch/"
STEP = "Add a volume that fits, or change the claim."


def rejection(count: int, subject: str = "pv", offered: str = "1Gi") -> Reject:
    rejections = tuple(Rejection(Reason.TOO_SMALL, f"{subject}-{number}", "10Gi", offered) for number in range(count))
    return Reject(pod("web"), Reason.NO_VOLUME_FITS, rejections)


def test_a_rejection_says_the_reason_the_next_step_and_the_evidence() -> None:
    assert rejection_note(rejection(2)) == (
        f"No volumes reserved: StaticOnlyNoMatch. {STEP} Rejected: pv-0: TooSmall (wanted 10Gi, found 1Gi); "
        "pv-1: TooSmall (wanted 10Gi, found 1Gi)"
    )


def test_a_note_ends_with_the_link_to_the_page_of_its_reason() -> None:
    assert rejection_note(rejection(1), SITE).endswith(f"pv-0: TooSmall (wanted 10Gi, found 1Gi). {LINK}")
    assert rejection_note(rejection(0), SITE).endswith(f"or change the claim. {LINK}")


def test_no_advice_is_to_delete_a_claim_whose_volume_is_gone() -> None:
    note = rejection_note(Reject(pod("web"), Reason.CLAIM_LOST, ()))
    assert "Delete the claim" not in note
    assert "Do not delete the claim" in note


@pytest.mark.parametrize("site", ["", SITE])
@pytest.mark.parametrize("subject", ["pv", "диск", "v" * 2000])
@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 18, 500])
def test_a_note_fits_into_an_event_and_counts_what_it_leaves_out(count: int, subject: str, site: str) -> None:
    note = rejection_note(rejection(count, subject), site)
    assert len(note.encode()) <= NOTE_BYTES
    assert "\n" not in note
    assert note.endswith(LINK) is bool(site)
    parts = note.removesuffix(f". {LINK}").partition(" Rejected: ")[2].split("; ")
    left_out = [int(part.split()[1]) for part in parts if part.startswith("and ")]
    assert len(parts) - len(left_out) + sum(left_out) == count


@pytest.mark.parametrize("site", ["", SITE])
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_note_is_read_back(count: int, site: str) -> None:
    decision = rejection(count, offered="1Gi; busy")
    expected = RejectionNote(False, "StaticOnlyNoMatch", STEP, [str(each) for each in decision.rejections])
    read = parse_rejection_note(rejection_note(decision, site))
    assert read is not None
    assert (read.begun, read.code, read.step, [*read.rejections]) == (
        expected.begun,
        expected.code,
        expected.step,
        expected.rejections,
    )


def test_a_note_without_a_next_step_is_read_back() -> None:
    note = rejection_note(Reject(pod("web"), Reason.POD_ENDED, (), begun=True))
    assert parse_rejection_note(note) == RejectionNote(True, str(Reason.POD_ENDED), "", ())


@pytest.mark.parametrize("note", ["", "0/3 nodes are available", "No volumes reserved: x", "x" * 5000])
def test_the_notes_of_others_are_not_read(note: str) -> None:
    assert parse_rejection_note(note) is None
