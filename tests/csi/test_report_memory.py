"""What the reports of a driver take in memory: equal parts once, and no more than the limit in sum."""

from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from csi.health.health import Absence, Debounce
from csi.health.report_source import TOO_LARGE
from csi.health.verdict import HealthState, Segment, Verdict
from csi.records import HealthRecords
from csi.report_memory import LEFT_OUT, MAX_BYTES, Part, ReportMemory

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DRIVER, OTHER = "a.csi.example", "b.csi.example"
NUMBERS = count()


def verdict(
    state: HealthState = HealthState.HEALTHY, message: str = "", topology: tuple[Segment, ...] | None = None
) -> Verdict:
    return Verdict(state, "Reason", message, "driver", NOW, topology)


def segments(number: int) -> tuple[Segment, ...]:
    """Segments that no other volume has."""
    return tuple(Segment(((f"key-{next(NUMBERS)}", "value"),)) for _ in range(number))


def test_equal_reports_are_one_object() -> None:
    records = HealthRecords(Debounce())
    for handle in ("v", "w"):
        wide = tuple(Segment(((key, "a" + key),)) for key in "xyz")
        records.observe(DRIVER, handle, verdict(message="the volume " + "is well", topology=wide))
    first, second = (records.state(DRIVER, handle) for handle in ("v", "w"))
    assert first is not None
    assert second is not None
    assert first.last.message is second.last.message
    assert first.last.topology is second.last.topology


def test_a_driver_that_works_has_room_for_a_hundred_thousand_volumes() -> None:
    records, crowded = HealthRecords(Debounce()), list[str]()
    records.crowded.append(crowded.append)
    for number in range(100_000):
        zone = Segment((("topology.kubernetes.io/hostname", f"node-{number % 5000}"),))
        records.observe(DRIVER, f"v{number}", verdict(message=f"volume is well on {zone}", topology=(zone,)))
    assert not crowded


@pytest.mark.parametrize("state", HealthState)
def test_what_does_not_fit_is_left_out_and_a_volume_without_its_topology_is_not_healthy(state: HealthState) -> None:
    records, crowded = HealthRecords(Debounce()), list[str]()
    records.crowded.append(crowded.append)
    for number in range(1000):
        records.observe(DRIVER, f"v{number}", verdict(message=f"{number}", topology=segments(256)))
    assert set(crowded) == {DRIVER}
    new = records.observe(DRIVER, "new", verdict(state, "a message", segments(256))).last
    assert (new.message, new.topology) == (LEFT_OUT, None)
    assert new.state is (HealthState.UNKNOWN if state is HealthState.HEALTHY else state)
    assert new.reason == (TOO_LARGE if state is HealthState.HEALTHY else str(state) if new.unhealthy else "Reason")
    well = records.observe(OTHER, "v", verdict(message="a message", topology=segments(256))).last
    assert (well.state, well.message) == (HealthState.HEALTHY, "a message"), "the other driver has its own room"


def test_there_is_room_again_after_the_volumes_are_gone() -> None:
    records, crowded = HealthRecords(Debounce()), list[str]()
    records.crowded.append(crowded.append)
    for sweep in range(20):
        handles = [f"{sweep}-{number}" for number in range(100)]
        for handle in handles:
            records.observe(DRIVER, handle, verdict(HealthState.DEGRADED, handle * 100, segments(50)))
        records.keep(DRIVER, handles, NOW + timedelta(seconds=1))
    assert not crowded, "as many volumes as the last sweep had"
    assert len(dict(records.of_driver(DRIVER))) == 100


def test_a_volume_whose_report_changes_each_time_takes_no_more_memory() -> None:
    records, crowded = HealthRecords(Debounce()), list[str]()
    records.crowded.append(crowded.append)
    for number in range(2000):
        state = HealthState.DEGRADED if number % 2 else HealthState.HEALTHY
        records.observe(DRIVER, "v", verdict(state, f"{number}" * 100, segments(100)))
        records.observe(DRIVER, "v", Absence(verdict(HealthState.INACCESSIBLE, "gone")))
    assert not crowded


def test_volumes_beyond_the_number_remembered_take_no_memory() -> None:
    records, crowded = HealthRecords(Debounce(), remembered=10), list[str]()
    records.crowded.append(crowded.append)
    for number in range(5000):
        records.observe(DRIVER, f"v{number}", verdict(message=f"{number}" * 200, topology=segments(20)))
    assert not crowded


def test_the_memory_is_empty_when_everything_was_released() -> None:
    memory = ReportMemory()
    parts: list[Part] = ["a text", segments(3), "a text"]
    memory.hold(parts)
    assert 0 < memory.size < MAX_BYTES
    memory.release(parts)
    assert memory.size == 0


def test_what_comes_again_after_it_was_released_is_counted_again() -> None:
    memory = ReportMemory()
    memory.hold(["a text"])
    size = memory.size
    memory.release(["a text"])
    memory.hold(["a text"])
    assert memory.size == size
