"""How a record develops, observation by observation. `H`, `D`, `I` and `L` are answers, from healthy to data loss;
`?` is a failed call, `-` Unsupported, `h` absence from a list of unhealthy volumes and `g` from a list of all."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csi.health.health import Absence, Debounce, HealthRecord, Observation, advance, is_transition, reliable_verdict
from csi.health.verdict import HealthState, Segment, Verdict

START = datetime(2026, 1, 1, tzinfo=UTC)
STATES = {
    "H": HealthState.HEALTHY,
    "D": HealthState.DEGRADED,
    "I": HealthState.INACCESSIBLE,
    "L": HealthState.DATA_LOSS,
    "?": HealthState.UNKNOWN,
    "-": HealthState.UNSUPPORTED,
    "h": HealthState.HEALTHY,
    "g": HealthState.INACCESSIBLE,
}
ONCE = Debounce()
SLOW = Debounce(worse=2, better=3)


def minute(number: int) -> datetime:
    return START + timedelta(minutes=number)


def observation(letter: str, number: int) -> Observation:
    verdict = Verdict(STATES[letter], f"Said{letter}", f"message {letter}", "driver", minute(number))
    return Absence(verdict) if letter in "hg" else verdict


def history(letters: str, debounce: Debounce = ONCE) -> list[HealthRecord]:
    """Return the record after each observation, one a minute."""
    records: list[HealthRecord] = []
    for number, letter in enumerate(letters):
        records.append(advance(records[-1] if records else None, observation(letter, number), debounce))
    return records


def states(letters: str, debounce: Debounce = ONCE) -> str:
    names = {state: letter for letter, state in STATES.items() if letter not in "hg"}
    return "".join(names[record.state] for record in history(letters, debounce))


@pytest.mark.parametrize(
    ("observed", "shown"),
    [
        pytest.param("HDH", "HDH", id="unhealthy and well"),
        pytest.param("DILIDH", "DILIDH", id="better and worse"),
        pytest.param("H?H", "H?H", id="a failed call hides a healthy volume"),
        pytest.param("L?L", "L?L", id="and an unhealthy one"),
        pytest.param("?H", "?H", id="first nothing, then well"),
        pytest.param("?D", "?D", id="first nothing, then unhealthy"),
        pytest.param("H-H", "H-H", id="a driver that lost the capability for a while"),
        pytest.param("hhh", "?HH", id="absent from two lists of the unhealthy is well"),
        pytest.param("Lhh", "LLH", id="recovered by two complete cycles"),
        pytest.param("LhLhh", "LLLLH", id="two in a row"),
        pytest.param("Lh?hH", "LL?HH", id="a failed call between does not matter"),
        pytest.param("gg", "?I", id="absent from two lists of all is gone"),
        pytest.param("HgHgg", "HHHHI", id="one list that leaves it out proves nothing"),
        pytest.param("?h", "??", id="one absence ends no silence"),
        pytest.param("?hh", "??H", id="two do"),
    ],
)
def test_states(observed: str, shown: str) -> None:
    assert states(observed) == shown


@pytest.mark.parametrize(
    ("observed", "shown"),
    [
        pytest.param("HDDHHH", "HHDDDH", id="two bad, three good"),
        pytest.param("HDHD", "HHHH", id="flapping stays as it was"),
        pytest.param("HDDHDHD", "HHDDDDD", id="flapping stays unhealthy too"),
        pytest.param("HDL", "HHL", id="bad in different ways, in a row, is the last way"),
        pytest.param("HDD?HHH", "HHD?DDH", id="a failed call does not count"),
        pytest.param("HD?D", "HH?D", id="nor interrupt"),
        pytest.param("H", "H", id="the first good answer needs no other"),
        pytest.param("DD", "?D", id="the first bad one does"),
        pytest.param("DH", "?H", id="and may be refuted"),
        pytest.param("LLDDDH", "?LLLDD", id="becoming less unhealthy counts as better"),
        pytest.param("DDLL", "?DDL", id="and more unhealthy as worse"),
    ],
)
def test_debounce(observed: str, shown: str) -> None:
    assert states(observed, SLOW) == shown


@pytest.mark.parametrize(
    ("observed", "finding"),
    [("L?", "L"), ("L??-?", "L"), ("L-", "L"), ("H??", "H"), ("Lh", "L")],
)
def test_silence_keeps_the_finding(observed: str, finding: str) -> None:
    record = history(observed)[-1]
    assert record.finding is not None
    assert record.finding.state is STATES[finding]
    assert record.unhealthy is (finding == "L")


@pytest.mark.parametrize(
    ("observed", "since"),
    [
        pytest.param("HHH", 0, id="since the first answer"),
        pytest.param("HDDD", 1, id="since it became unhealthy"),
        pytest.param("D?D", 0, id="a silence is no new finding"),
        pytest.param("H??", 1, id="silent since the first failure"),
        pytest.param("H?-", 2, id="another kind of silence"),
        pytest.param("HDL", 2, id="worse since then"),
    ],
)
def test_since(observed: str, since: int) -> None:
    assert history(observed)[-1].current.since == minute(since)


def test_a_finding_carries_the_latest_words() -> None:
    again = Verdict(HealthState.DEGRADED, "Slower", "still", "another", minute(9))
    record = advance(history("D")[-1], again, ONCE)
    assert record.finding is not None
    finding = record.finding
    assert (finding.reason, finding.message, finding.source, finding.since) == ("Slower", "still", "another", minute(0))


def test_waiting_for_more_answers_is_as_old_as_the_silence_before_them() -> None:
    assert [record.current.since for record in history("??D", SLOW)] == [minute(0)] * 3
    assert history("D", SLOW)[-1].current.since == minute(0)


@pytest.mark.parametrize(
    ("observed", "transitions"),
    [
        pytest.param("HHH", [0], id="nothing changes"),
        pytest.param("HDDH", [0, 1, 3], id="one for each change"),
        pytest.param("H??H", [0, 1, 3], id="silence and its end"),
        pytest.param("D?L", [0, 1, 2], id="changed behind the silence"),
        pytest.param("Lhhh", [0, 2], id="absences"),
    ],
)
def test_transitions(observed: str, transitions: list[int]) -> None:
    records: list[HealthRecord | None] = [None, *history(observed)]
    actual = [
        number for number, (old, new) in enumerate(pairwise(records)) if new is not None and is_transition(old, new)
    ]
    assert actual == transitions


@pytest.mark.parametrize(
    ("observed", "debounce", "state"),
    [
        pytest.param("H", ONCE, "H", id="healthy"),
        pytest.param("H?", ONCE, "?", id="unknown"),
        pytest.param("H-", ONCE, "-", id="a capability lost while healthy"),
        pytest.param("L?", ONCE, "L", id="a failed call is no recovery"),
        pytest.param("L-", ONCE, "L", id="nor is a lost capability"),
        pytest.param("LH", ONCE, "H", id="recovered"),
        pytest.param("LLH", SLOW, "L", id="not recovered yet"),
        pytest.param("HD", SLOW, "D", id="not unhealthy yet, but not to be relied on"),
        pytest.param("D", SLOW, "D", id="not even confirmed, but not to be relied on"),
        pytest.param("DDL", SLOW, "L", id="worse than was confirmed"),
    ],
)
def test_what_may_be_relied_on(observed: str, debounce: Debounce, state: str) -> None:
    verdict = reliable_verdict(history(observed, debounce)[-1])
    assert verdict.state is STATES[state]
    assert verdict.observed_at == minute(len(observed) - 1)


def test_a_lasting_failure_names_what_followed_it() -> None:
    message = reliable_verdict(history("L?")[-1]).message
    assert message == "message L; since 2026-01-01T00:00:00Z, now Unknown (Said?), recovery not confirmed yet"


def test_the_place_survives_in_the_last_answer() -> None:
    place = (Segment((("zone", "a"),)),)
    placed = Verdict(HealthState.HEALTHY, "", "", "driver", START, place)
    record = advance(advance(None, placed, ONCE), observation("h", 1), ONCE)
    assert reliable_verdict(record).topology == place


letters = st.text(st.sampled_from("HDIL?-hg"), min_size=1, max_size=12)
debounces = st.builds(Debounce, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))


@given(letters, debounces)
def test_nothing_but_answers_and_absences_changes_a_finding(observed: str, debounce: Debounce) -> None:
    records = history(observed, debounce)
    for letter, (old, new) in zip(observed[1:], pairwise(records), strict=True):
        if letter in "?-":
            assert new.finding == old.finding


@given(letters, debounces)
def test_an_unhealthy_volume_becomes_healthy_only_by_a_report(observed: str, debounce: Debounce) -> None:
    for letter, record in zip(observed, history(observed, debounce), strict=True):
        if record.state is HealthState.HEALTHY:
            assert record.finding is not None
        if letter in "DIL":
            assert reliable_verdict(record).unhealthy
