"""The measurement of the scheduler measures what it says."""

import pytest

from bench.scheduling.contest import Contender, Outcome, Size, run
from bench.scheduling.scheduler_bench import DEFAULT, LIFTED, OURS, OURS_LIFTED, contenders, rows
from bench.usage import Usage

SIZE = Size(nodes=5, pods=10)


def outcome(*, per_second: float, p99: float = 1.0, placed: int = 10, violations: tuple[str, ...] = ()) -> Outcome:
    used = Usage(processor=1.0, memory=80.0, peak=90.0)
    return Outcome(
        placed, per_second, p50=0.5, p99=p99, seconds=2.0, scheduler=used, api_server=3.0, violations=list(violations)
    )


def test_ours_is_compared_with_kube_scheduler_at_the_same_limits() -> None:
    with_volumes = {DEFAULT: 5.0, OURS: 20.0, LIFTED: 50.0, OURS_LIFTED: 60.0}
    by_name = {
        row.name: row for row in rows(SIZE, {who: [outcome(per_second=rate)] for who, rate in with_volumes.items()})
    }
    assert by_name[f"{SIZE.title}: ours to kube-scheduler, default limits: pods/s"].value == 4.0
    assert by_name[f"{SIZE.title}: ours to kube-scheduler, limits lifted: pods/s"].value == 1.2
    assert all(row.met is not False for row in by_name.values())


def test_goals_are_missed_by_being_slow_or_wrong() -> None:
    slow = outcome(per_second=10.0, p99=2.0, placed=9, violations=("p on n: wrong",))
    results = rows(SIZE, {DEFAULT: [outcome(per_second=5.0)], OURS: [slow], LIFTED: [outcome(per_second=20.0)]})
    missed = {row.name.removeprefix(f"{SIZE.title}: ") for row in results if row.met is False}
    assert missed == {
        "pvc-prebinder beside default limits: not placed",
        "pvc-prebinder beside default limits: violations",
        *(
            f"ours to kube-scheduler, {limits}: {what}"
            for limits in ("default limits", "limits lifted")
            for what in ("pods/s", "p99")
        ),
    }


@pytest.mark.parametrize("volumes", [False, True])
def test_each_contender_has_a_name_of_its_own(volumes: bool) -> None:
    chosen = contenders(Size(5, 5, volumes=volumes))
    assert len({each.title for each in chosen}) == len(chosen)


@pytest.mark.cluster
@pytest.mark.parametrize("contender", [LIFTED, OURS_LIFTED], ids=lambda contender: contender.title)
async def test_a_scheduler_is_timed_on_a_control_plane(contender: Contender) -> None:
    result = await run(Size(nodes=3, pods=5, volumes=True), contender)
    assert result.placed == 5
    assert result.violations == []
    assert 0 < result.p50 <= result.p99 <= result.seconds
    assert result.api_server > 0
    assert result.scheduler.memory > 0
