import json
from itertools import pairwise

import pytest

from prebinder.profile_report import LONGEST_TABLE, Function, Samples, Stack, collapsed, speedscope, table


def function(name: str, module: str = "scheduler.cycle", line: int = 1) -> Function:
    return Function(module, name, f"/lib/{module}.py", line)


RUN = function("BaseEventLoop.run_forever", "asyncio.base_events")
SELECT = function("EpollSelector.select", "selectors")
DECIDE = function("decide", line=131)
JUDGE = function("judge", line=79)
SAMPLES = Samples(2, 0.005, {(RUN, SELECT): 100, (RUN, DECIDE): 10, (RUN, DECIDE, JUDGE): 30})


def test_table_gives_shares_of_what_was_done() -> None:
    lines = table(SAMPLES).splitlines()
    assert lines[0] == "2 s, 140 samples, busy in 28.6%; shares are of the busy samples"
    own, whole = lines.index("functions by their own work"), lines.index("functions with all they call")
    assert lines[own + 1 : own + 4] == [
        "   OWN   TOTAL  FUNCTION",
        " 75.0%   75.0%  scheduler.cycle.judge:79",
        " 25.0%  100.0%  scheduler.cycle.decide:131",
    ]
    assert lines[whole + 2 :] == [
        " 25.0%  100.0%  scheduler.cycle.decide:131",
        " 75.0%   75.0%  scheduler.cycle.judge:79",
    ]
    assert "select" not in "".join(lines[1:])


def test_a_function_that_calls_itself_counts_once() -> None:
    assert "100.0%  100.0%  scheduler.cycle.judge:79" in table(Samples(1, 0.005, {(JUDGE, JUDGE, JUDGE): 4}))


@pytest.mark.parametrize(
    "samples",
    [
        pytest.param(Samples(1, 0.005, {}), id="nothing seen"),
        pytest.param(Samples(1, 0.005, {(RUN, SELECT): 9}), id="nothing done"),
    ],
)
def test_a_process_that_does_nothing_has_no_shares(samples: Samples) -> None:
    lines = table(samples).splitlines()
    assert "busy in 0.0%" in lines[0]
    assert not any(line.endswith("%") or "%  " in line for line in lines[1:])


def test_a_table_has_an_end() -> None:
    many: dict[Stack, int] = {(function(f"f{number}"),): 1 for number in range(3 * LONGEST_TABLE)}
    assert len(table(Samples(1, 0.005, many)).splitlines()) == 2 * LONGEST_TABLE + 7


def test_collapsed_stacks_are_one_a_line_the_most_frequent_first() -> None:
    assert collapsed(SAMPLES).splitlines() == [
        "asyncio.base_events.BaseEventLoop.run_forever:1;selectors.EpollSelector.select:1 100",
        "asyncio.base_events.BaseEventLoop.run_forever:1;scheduler.cycle.decide:131;scheduler.cycle.judge:79 30",
        "asyncio.base_events.BaseEventLoop.run_forever:1;scheduler.cycle.decide:131 10",
    ]


def test_speedscope_weighs_stacks_of_frames() -> None:
    document = json.loads(speedscope(SAMPLES))
    frames, profile = document["shared"]["frames"], document["profiles"][0]
    named = [[frames[number]["name"] for number in stack] for stack in profile["samples"]]
    assert named[1] == [one.title for one in (RUN, DECIDE, JUDGE)]
    assert [round(weight, 3) for weight in profile["weights"]] == [0.5, 0.15, 0.05]
    assert profile["endValue"] == pytest.approx(0.7)
    assert all(earlier >= later for earlier, later in pairwise(profile["weights"]))
    assert frames[2] == {"name": "scheduler.cycle.decide", "file": "/lib/scheduler.cycle.py", "line": 131}
