"""Durations are read as Kubernetes users write them, and written as they can be read."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.rules.duration import age_text, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("5m", 300),
        ("1h30m", 5400),
        ("500ms", 0.5),
        ("1.5h", 5400),
        ("0s", 0),
        ("1m1s1ms", 61.001),
        ("PT10M", 600),
        ("P1DT1.5S", 86401.5),
    ],
)
def test_reads(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    ["", "5", "m", "5 m", "-5m", "5d", "5m ", "1e3s", "٣s", "1y", "1us", "P", "PTX", "-PT5S", "P5", f"{'9' * 30}h"],
)
def test_rejects(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(600, "10m"), (90, "1m30s"), (0, "0s"), (1.5, "1.5s"), (0.5, "500ms"), (172800, "48h")]
)
def test_writes_as_kubernetes_does(seconds: float, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text


@given(st.integers(0, 10**10))
def test_what_is_written_reads_back(milliseconds: int) -> None:
    duration = timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0s"), (59, "59s"), (60, "1m"), (3_599, "59m"), (3_600, "1h"), (86_400, "24h"), (172_799, "47h"),
        (172_800, "2d"), (31_536_000, "365d"),
    ],
)  # fmt: skip
def test_an_age_is_printed_as_kubectl_does(seconds: float, text: str) -> None:
    assert age_text(timedelta(seconds=seconds)) == text
