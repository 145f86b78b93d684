"""A pod is left to its scheduler for a while, and the oldest few binds to the PV controller."""

import pytest

from binder.controllers.deference import (
    COMMIT_AFTER,
    COMMIT_AT_LATEST,
    FINISH_AFTER,
    FINISH_AT_LATEST,
    HINT_AFTER,
    HINT_AT_LATEST,
    MAX_PODS_LEFT_TO_PV_CONTROLLER,
    Deference,
    HeadStart,
)
from binder.model.decision import Mode, Placement, Reserve
from kube.objects.model import Pod
from kube.store.store import Store
from tests.builders import claim, pod, volume
from tests.fake_clock import FakeClock

PODS = [f"default/web-{number}" for number in range(MAX_PODS_LEFT_TO_PV_CONTROLLER + 2)]


def begun() -> tuple[HeadStart, FakeClock]:
    clock = FakeClock()
    head_start = HeadStart(clock)
    for key in PODS:
        head_start.noticed(key)
    return head_start, clock


def ours(head_start: HeadStart) -> list[str]:
    return [key for key in PODS if head_start.seconds_left(key) == 0]


def test_the_oldest_are_left_and_the_others_are_ours() -> None:
    head_start, _ = begun()
    assert ours(head_start) == PODS[MAX_PODS_LEFT_TO_PV_CONTROLLER:]


def test_the_next_one_is_left_when_one_is_finished() -> None:
    head_start, _ = begun()
    head_start.finished(PODS[0])
    assert ours(head_start) == [PODS[0], PODS[-1]]


def test_the_wait_lasts_while_the_pv_controller_makes_progress() -> None:
    head_start, clock = begun()
    clock.jump(FINISH_AFTER / 2)
    head_start.finished(PODS[0])
    clock.jump(FINISH_AFTER / 2)
    assert head_start.seconds_left(PODS[1]) == FINISH_AFTER / 2
    head_start.forget(PODS[2])
    assert head_start.seconds_left(PODS[1]) == FINISH_AFTER / 2


def test_no_pod_waits_for_ever() -> None:
    clock = FakeClock()
    head_start = HeadStart(clock)
    head_start.noticed("default/first")
    for number in range(int(FINISH_AT_LATEST)):
        assert head_start.seconds_left("default/first") > 0
        clock.jump(1)
        head_start.noticed(f"default/later-{number}")
        head_start.finished(f"default/later-{number}")
    assert head_start.seconds_left("default/first") == 0


def test_the_wait_ends_and_is_not_restarted_by_another_check() -> None:
    head_start, clock = begun()
    clock.jump(FINISH_AFTER / 2)
    head_start.noticed(PODS[0])
    assert head_start.seconds_left(PODS[0]) == FINISH_AFTER / 2
    clock.jump(FINISH_AFTER / 2)
    assert ours(head_start) == PODS


HINTED, COMMITTED, GATED = pod(), pod(unschedulable=True), pod(scheduling_gates=("gate",))


def reserving(subject: Pod, claims: int) -> Reserve:
    placements = [Placement(claim(f"data-{number}"), volume(f"pv-{number}")) for number in range(claims)]
    return Reserve(subject, Mode.PREBIND, "", "", (), tuple(placements))


@pytest.mark.parametrize(
    ("subject", "claims", "seconds"),
    [
        pytest.param(HINTED, 1, HINT_AFTER, id="its scheduler may serve it"),
        pytest.param(GATED, 2, 0.0, id="no scheduler looks at it"),
        pytest.param(COMMITTED, 1, float("-inf"), id="one claim, no scheduler at work"),
        pytest.param(COMMITTED, 2, COMMIT_AFTER, id="several claims"),
    ],
)
def test_a_pod_is_left_to_its_scheduler_as_the_table_says(subject: Pod, claims: int, seconds: float) -> None:
    assert Deference(Store(), FakeClock()).seconds_left(subject, reserving(subject, claims)) == seconds


@pytest.mark.parametrize(
    ("subject", "claims", "quiet", "latest"),
    [
        pytest.param(HINTED, 1, HINT_AFTER, HINT_AT_LATEST, id="hint"),
        pytest.param(COMMITTED, 1, COMMIT_AFTER, COMMIT_AT_LATEST, id="commitment"),
        pytest.param(COMMITTED, 2, COMMIT_AFTER, COMMIT_AT_LATEST, id="commitment of several"),
    ],
)
def test_a_scheduler_at_work_postpones_it_and_not_for_ever(
    subject: Pod, claims: int, quiet: float, latest: float
) -> None:
    clock = FakeClock()
    deference = Deference(Store(), clock)
    waits = []
    for _ in range(round(latest)):
        deference.bind_begun(pod("other", unschedulable=True))
        waits.append(deference.seconds_left(subject, reserving(subject, claims)))
        clock.jump(1.0)
    assert waits[0] == quiet
    assert all(wait == quiet for wait in waits[: round(latest - quiet) + 1])
    assert deference.seconds_left(subject, reserving(subject, claims)) <= 0
