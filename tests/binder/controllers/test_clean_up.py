"""When annotations of kept reservations go: after the burst, not for ever after, and not all at once."""

from binder.controllers.clean_up import AT_LATEST, AT_ONCE, CALM, PER_SECOND, CleanUp
from tests.fake_clock import START, FakeClock

FIRST, SECOND = ("volume", "pv-1"), ("volume", "pv-2")


def test_a_bind_puts_off_the_clean_up_of_those_before() -> None:
    clock = FakeClock()
    clean_up = CleanUp(clock)
    assert clean_up.seconds_left(FIRST) == CALM
    clock.jump(CALM - 1)
    clean_up.seconds_left(SECOND)
    clock.jump(1)
    assert clean_up.seconds_left(FIRST) > 0
    clock.jump(CALM - 1)
    assert clean_up.seconds_left(FIRST) == clean_up.seconds_left(SECOND) == 0
    assert clean_up.kept_since(FIRST) == START


def test_a_long_burst_does_not_put_it_off_for_ever() -> None:
    clock = FakeClock()
    clean_up = CleanUp(clock)
    clean_up.seconds_left(FIRST)
    for number in range(int(AT_LATEST)):
        clean_up.seconds_left(("volume", f"later-{number}"))
        assert clean_up.seconds_left(FIRST) > 0
        clock.jump(1)
    assert clean_up.seconds_left(FIRST) == 0


def test_the_rate_is_bounded() -> None:
    clock = FakeClock()
    clean_up = CleanUp(clock)
    kept = [("volume", f"pv-{number}") for number in range(100)]
    for subject in kept:
        clean_up.seconds_left(subject)
    clock.jump(CALM)
    waits = sorted(clean_up.seconds_left(subject) for subject in kept)
    assert waits[:AT_ONCE] == [0.0] * AT_ONCE
    assert waits[-1] == (len(kept) - AT_ONCE) / PER_SECOND
    clock.jump(waits[-1])
    assert {clean_up.seconds_left(subject) for subject in kept} == {0.0}


def test_what_is_forgotten_waits_again() -> None:
    clock = FakeClock()
    clean_up = CleanUp(clock)
    clean_up.seconds_left(FIRST)
    clock.jump(CALM)
    assert clean_up.seconds_left(FIRST) == 0
    clean_up.forget(FIRST)
    assert clean_up.seconds_left(FIRST) == CALM
