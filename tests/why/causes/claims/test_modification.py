"""A bound claim whose volume is to get another VolumeAttributesClass."""

from typing import Any

import pytest

from binder.matching.rejection import Reason
from tests.why.documents import (
    SCHEDULED,
    Document,
    assert_problem,
    claim,
    event,
    node,
    pod,
    storage_class,
    volume,
    why,
)
from why.facts.facts import Source

GOLD = {"volumeAttributesClassName": "gold"}
REJECTED = {"type": "ModifyVolumeError", "status": "True", "message": "iops above the limit"}


def modified(current: str | None, modification: str = "", **status: Any) -> list[Document]:
    """A claim for class gold, and its volume of the class `current`."""
    status |= {} if current is None else {"currentVolumeAttributesClassName": current}
    status |= {"modifyVolumeStatus": {"status": modification}} if modification else {}
    has = {} if current is None else {"volumeAttributesClassName": current}
    return [claim(volume="pv-1", spec=GOLD, status=status), volume(claim="data", spec=has), storage_class()]


@pytest.mark.parametrize(
    ("documents", "words", "step"),
    [
        (modified("silver", "Infeasible", conditions=[REJECTED]), "iops above the limit", "such as silver as before"),
        (modified("silver", "Pending"), "it does not exist", "create it, or name another one"),
        (modified("silver", "InProgress"), "the driver is at it", "it is tried again automatically"),
        (modified("silver"), "external-resizer-disk-csi-example", "does the driver's resizer run"),
        (modified(None), "external-resizer-disk-csi-example", "does the driver's resizer run"),
    ],
)
def test_a_volume_that_has_not_got_its_class(documents: list[Document], words: str, step: str) -> None:
    item = why("pvc/data", *documents)
    assert_problem(item, Reason.MODIFY_PENDING)
    assert words in f"{item.message} {item.evidence}"
    assert step in item.advice[0]


def test_the_resizers_event_says_it_if_no_condition_does() -> None:
    failed = event("PersistentVolumeClaim", "data", "VolumeModifyFailed", "the backend is busy", reporter="resizer")
    item = why("pvc/data", *modified("silver", "InProgress"), failed)
    assert "the backend is busy" in item.evidence[-1].found


@pytest.mark.parametrize("without", [(), (Source.VOLUMES,)])
def test_a_volume_that_has_it_is_bound(without: tuple[Source, ...]) -> None:
    assert why("pvc/data", *modified("gold"), without=without).code is Reason.BOUND


def test_no_pod_waits_for_it() -> None:
    item = why("pod/db-0", pod("db-0", "data", cpu="9"), *modified("silver", "Infeasible"), node("a1"), SCHEDULED)
    assert item.code is Reason.NO_NODE_FITS
