"""The annotation contract: what is written is read back, and garbage holds nothing and is named."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from binder.reservation.contract import (
    Annotations,
    ClaimReservation,
    Holder,
    Parsed,
    VolumeReservation,
    format_time,
    parse_time,
)
from kube.objects.model import Claim, ClaimReference
from kube.store.store import snapshot_of
from tests import builders

AT = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
ON_VOLUME = VolumeReservation("ns/data", "uid-1", AT, AT + timedelta(minutes=5), Holder("host_1", 7))
ON_CLAIM = ClaimReservation("pv-1", AT, AT + timedelta(minutes=5), "zone-a", ("n1", "n2"))


def pairs(annotations: dict[str, str] | dict[str, str | None]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key, value) for key, value in annotations.items() if value is not None))


@pytest.mark.parametrize("annotations", [Annotations(), Annotations("other.example/")])
def test_what_is_written_is_read_back(annotations: Annotations) -> None:
    assert annotations.parse_volume(pairs(annotations.for_volume(ON_VOLUME))) == Parsed(ON_VOLUME)
    placed = replace(ON_VOLUME, zone="zone-a", nodes=("n1", "n2"))
    assert annotations.parse_volume(pairs(annotations.for_volume(placed))) == Parsed(placed)
    assert annotations.parse_claim(pairs(annotations.for_claim(ON_CLAIM))) == Parsed(ON_CLAIM)


def test_another_prefix_is_not_ours() -> None:
    assert Annotations().parse_volume(pairs(Annotations("other.example/").for_volume(ON_VOLUME))) == Parsed(None)


def test_what_a_reservation_does_not_say_is_removed_from_the_claim() -> None:
    written = Annotations().for_claim(ClaimReservation("pv-1", AT, AT))
    assert written["scheduler.cloud.example/reserved-zone"] is None
    assert written["scheduler.cloud.example/reserved-nodes"] is None


OWN = {"scheduler.cloud.example/reserved-volume": "pv-2"} | {
    f"scheduler.cloud.example/{key}": format_time(AT) for key in ("bound-at", "expires-at")
}


@pytest.mark.parametrize(
    ("on_claim", "named", "held"),
    [
        pytest.param({}, builders.reference("ns/data", "uid-1"), "pv-1", id="the volume alone"),
        pytest.param(OWN, builders.reference("ns/data", "uid-1"), "pv-2", id="the claim's own side comes first"),
        pytest.param({}, builders.reference("ns/data", "uid-2"), None, id="committed to an earlier claim"),
        pytest.param({}, builders.reference("ns/data"), None, id="committed to the name, the claim is still written"),
        pytest.param({}, None, None, id="a hint whose other side is missing"),
    ],
)
def test_a_reservation_is_read_from_the_side_that_has_it(
    on_claim: dict[str, str], named: ClaimReference | None, held: str | None
) -> None:
    annotations = Annotations()
    placed = annotations.for_volume(replace(ON_VOLUME, zone="zone-a", nodes=("n1",)))
    claim = builders.claim("data", namespace="ns", uid="uid-1", annotations=on_claim)
    reservation = annotations.held_for(
        claim, snapshot_of([claim, builders.volume("pv-1", annotations=placed, claim=named)])
    )
    assert (reservation.volume if reservation else None) == held
    assert held != "pv-1" or reservation == ClaimReservation("pv-1", AT, AT + timedelta(minutes=5), "zone-a", ("n1",))


def test_unknown_keys_are_ignored() -> None:
    annotations = pairs({**Annotations().for_volume(ON_VOLUME), "scheduler.cloud.example/colour": "blue", "a": "b"})
    assert Annotations().parse_volume(annotations) == Parsed(ON_VOLUME)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("reserved-for", "data", id="claim without namespace"),
        pytest.param("reserved-for", "/data", id="empty namespace"),
        pytest.param("reserved-for", "ns/", id="empty name"),
        pytest.param("reserved-for", "ns/data/more", id="three parts"),
        pytest.param("reserved-for-uid", "", id="empty uid"),
        pytest.param("bound-at", "yesterday", id="no time"),
        pytest.param("expires-at", "2026-01-01T12:00:00", id="time without offset"),
        pytest.param("expires-at", "2026-01-01", id="date only"),
        pytest.param("expires-at", "0001-01-01T00:00:00+14:00", id="time before the calendar"),
        pytest.param("reserved-by", "host", id="holder without transition"),
        pytest.param("reserved-by", "host/-1", id="negative transition"),
        pytest.param("reserved-by", "/3", id="holder without identity"),
        pytest.param("reserved-by", "host/²", id="transition in no decimal digits"),
        pytest.param("reserved-by", "host/" + "9" * 5000, id="transition beyond reason"),
    ],
)
def test_one_unparsable_value_breaks_the_reservation_and_is_named(key: str, value: str) -> None:
    annotations = pairs({**Annotations().for_volume(ON_VOLUME), f"scheduler.cloud.example/{key}": value})
    assert Annotations().parse_volume(annotations) == Parsed(None, (key,))


@pytest.mark.parametrize("key", ["reserved-volume", "bound-at", "expires-at"])
def test_a_claim_that_lacks_a_required_key_has_no_reservation(key: str) -> None:
    annotations = {**Annotations().for_claim(ON_CLAIM), f"scheduler.cloud.example/{key}": None}
    parsed = Annotations().parse_claim(pairs(annotations))
    assert (parsed.reservation, parsed.garbage) == (None, (key,))


def test_keys_that_are_present_are_named_even_if_they_say_nothing() -> None:
    annotations = {"scheduler.cloud.example/bound-at": "?", "x": "y"}
    assert Annotations().keys_on_volume(builders.volume(annotations=annotations)) == (
        "scheduler.cloud.example/bound-at",
    )
    assert Annotations().keys_on_claim(builders.claim(annotations=annotations)) == ("scheduler.cloud.example/bound-at",)


def test_a_reservation_ends_at_its_instant() -> None:
    assert ON_VOLUME.in_force(ON_VOLUME.expires_at - timedelta(seconds=1))
    assert not ON_VOLUME.in_force(ON_VOLUME.expires_at)


@pytest.mark.parametrize("reservation", [ON_VOLUME, ON_CLAIM])
@pytest.mark.parametrize(
    ("ahead", "expired"),
    [
        pytest.param(timedelta(seconds=30), False, id="another replica's clock"),
        pytest.param(timedelta(minutes=5), False, id="set back by as long as it lasts"),
        pytest.param(timedelta(minutes=5, seconds=1), True, id="set back by longer than it lasts"),
        pytest.param(timedelta(days=400), True, id="set back by a year"),
    ],
)
def test_a_clock_that_is_set_back_makes_no_reservation_last_twice_as_long(
    reservation: VolumeReservation | ClaimReservation, ahead: timedelta, expired: bool
) -> None:
    assert reservation.in_force(AT - ahead) is not expired


def test_a_reservation_to_the_end_of_the_calendar_can_be_judged() -> None:
    endless = ClaimReservation("pv-1", AT, datetime.max.replace(tzinfo=UTC))
    assert endless.in_force(AT)
    assert not ClaimReservation("pv-1", endless.expires_at, AT).in_force(AT - timedelta(days=1))


def test_a_recreated_claim_is_another_claim() -> None:
    assert ON_VOLUME.is_for(Claim("ns", "data", "uid-1", 1))
    assert not ON_VOLUME.is_for(Claim("ns", "data", "uid-2", 1))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        pytest.param("2026-01-01T12:00:00Z", AT, id="UTC"),
        pytest.param("2026-01-01T13:00:00+01:00", AT, id="offset"),
        pytest.param("2026-01-01T12:00:00.5Z", AT + timedelta(seconds=0.5), id="fraction"),
        pytest.param(None, None, id="absent"),
    ],
)
def test_times(text: str | None, moment: datetime | None) -> None:
    assert parse_time(text) == moment


def test_times_are_written_in_utc_with_seconds() -> None:
    assert format_time(AT + timedelta(microseconds=5)) == "2026-01-01T12:00:00Z"


def test_a_reservation_holds_the_volume_for_its_claim_and_excludes_all_others_as_long_as_it_is_in_force() -> None:
    mine, recreated = Claim("ns", "data", "uid-1", 1), Claim("ns", "data", "uid-2", 1)
    over = ON_VOLUME.expires_at
    assert ON_VOLUME.holds(AT, mine)
    assert not ON_VOLUME.holds(AT, recreated)
    assert not ON_VOLUME.holds(over, mine)
    assert ON_VOLUME.excludes(AT, recreated)
    assert ON_VOLUME.excludes(AT)
    assert not ON_VOLUME.excludes(AT, recreated, mine)
    assert not ON_VOLUME.excludes(over, recreated)
