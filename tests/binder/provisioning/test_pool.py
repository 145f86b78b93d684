"""What fits into what is left of a pool."""

import pytest

from binder.provisioning.pool import InFlight, PoolKey, PoolRoom, report_of
from kube.objects.labels import LabelSelector
from tests.builders import EPOCH, capacity

HERE = PoolKey("disk.csi.example", "fast", LabelSelector())
OTHER = InFlight("other", "default/other", 30, EPOCH)


@pytest.mark.parametrize(
    ("room", "sizes", "fits", "may_fit"),
    [
        (PoolRoom(100), (60, 40), True, True),
        (PoolRoom(100), (60, 41), False, False),
        (PoolRoom(100), (), True, True),
        (PoolRoom(-1, -1), (0,), False, False),
        (PoolRoom(None), (10**18,), True, True),
        (PoolRoom(100, largest=50), (30, 20), True, True),
        (PoolRoom(100, largest=50), (30, 21), False, True),
        (PoolRoom(100, largest=50), (50,), True, True),
        (PoolRoom(100, largest=50), (51,), False, False),
        (PoolRoom(70, largest=50, in_flight=(OTHER,)), (20,), True, True),
        (PoolRoom(70, largest=50, in_flight=(OTHER,)), (21,), False, True),
    ],
    ids=[
        "all that is left",
        "more than is left",
        "nothing wanted",
        "no capacity reported",
        "no limit known",
        "several parts: what fits the largest",
        "several parts: more than the largest has",
        "several parts: one volume beside nothing",
        "several parts: larger than any",
        "several parts: beside what is in flight, in the largest",
        "several parts: beside what is in flight, perhaps in another",
    ],
)
def test_sizes_fit_together_or_do_not(room: PoolRoom, sizes: tuple[int, ...], fits: bool, may_fit: bool) -> None:
    assert (room.fits(*sizes), room.may_fit(*sizes)) == (fits, may_fit)


@pytest.mark.parametrize(
    ("size", "largest", "free", "limit"),
    [
        ("4Ki", None, 4096, None),
        ("4Ki", "4Ki", 4096, None),
        ("4Ki", "1Ki", 4096, 1024),
        (None, "1Ki", 1024, None),
        (None, None, -1, None),
    ],
    ids=["capacity", "one part", "several parts", "only the largest volume", "neither"],
)
def test_a_report_is_read_as_kube_scheduler_reads_it(
    size: str | None, largest: str | None, free: int, limit: int | None
) -> None:
    report = report_of(capacity(size=size, largest=largest), HERE)

    assert (report.free, report.largest) == (free, limit)
