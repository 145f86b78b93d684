"""Which binds are left to the PV controller: the oldest few, for a while, and no others."""

from binder.controllers.head_start import AT_LATEST, MAX_PODS_LEFT_TO_PV_CONTROLLER, PATIENCE, HeadStart
from tests.fake_clock import FakeClock

PODS = [f"default/web-{number}" for number in range(MAX_PODS_LEFT_TO_PV_CONTROLLER + 2)]


def begun() -> tuple[HeadStart, FakeClock]:
    clock = FakeClock()
    head_start = HeadStart(clock)
    for pod in PODS:
        head_start.noticed(pod)
    return head_start, clock


def ours(head_start: HeadStart) -> list[str]:
    return [pod for pod in PODS if head_start.seconds_left(pod) == 0]


def test_the_oldest_are_left_and_the_others_are_ours() -> None:
    head_start, _ = begun()
    assert ours(head_start) == PODS[MAX_PODS_LEFT_TO_PV_CONTROLLER:]


def test_the_next_one_is_left_when_one_is_finished() -> None:
    head_start, _ = begun()
    head_start.finished(PODS[0])
    assert ours(head_start) == [PODS[0], PODS[-1]]


def test_the_wait_lasts_while_the_pv_controller_makes_progress() -> None:
    head_start, clock = begun()
    clock.jump(PATIENCE / 2)
    head_start.finished(PODS[0])
    clock.jump(PATIENCE / 2)
    assert head_start.seconds_left(PODS[1]) == PATIENCE / 2
    head_start.forget(PODS[2])
    assert head_start.seconds_left(PODS[1]) == PATIENCE / 2


def test_no_pod_waits_for_ever() -> None:
    clock = FakeClock()
    head_start = HeadStart(clock)
    head_start.noticed("default/first")
    for number in range(int(AT_LATEST)):
        assert head_start.seconds_left("default/first") > 0
        clock.jump(1)
        head_start.noticed(f"default/later-{number}")
        head_start.finished(f"default/later-{number}")
    assert head_start.seconds_left("default/first") == 0


def test_the_wait_ends_and_is_not_restarted_by_another_check() -> None:
    head_start, clock = begun()
    clock.jump(PATIENCE / 2)
    head_start.noticed(PODS[0])
    assert head_start.seconds_left(PODS[0]) == PATIENCE / 2
    clock.jump(PATIENCE / 2)
    assert ours(head_start) == PODS
