"""What is reported about storage is read if it can be, and never makes its object malformed."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from kube.decoding.decode import decode_claim, decode_csi_node
from kube.decoding.decode_health import ADDONS_PREFIX, MAX_REPORTS
from kube.objects.reports import ClaimHealth, HealthCondition, NodeReport, StorageCondition, StorageReports

SINCE = "2026-06-24T10:00:00Z"
AT = datetime(2026, 6, 24, 10, tzinfo=UTC)
PATH_DOWN = {"status": "Inaccessible", "reason": "PathDown", "message": "both paths"}


def claim_health(status: Any = None, **annotations: str) -> ClaimHealth | None:
    written = {f"{ADDONS_PREFIX}{uid}": value for uid, value in annotations.items()}
    document = {
        "metadata": {"name": "c", "resourceVersion": "1", "annotations": written | {"other": "x"}},
        "spec": {},
        "status": {"phase": "Bound", "healthStatus": status},
    }
    claim = decode_claim(msgspec.json.encode(document))
    assert claim.phase == "Bound"
    return claim.health


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(None, None, id="not written"),
        pytest.param({}, ClaimHealth(()), id="written and empty"),
        pytest.param({"healthConditions": [], "lastTransitionTime": SINCE}, ClaimHealth((), AT), id="no condition"),
        pytest.param(
            {"healthConditions": [PATH_DOWN], "lastTransitionTime": SINCE, "new": 1},
            ClaimHealth((HealthCondition("Inaccessible", "PathDown", "both paths"),), AT),
            id="one condition",
        ),
        pytest.param(
            {"healthConditions": [{"reason": "NoStatus"}, 7, PATH_DOWN, {"status": 3}]},
            ClaimHealth((HealthCondition("Inaccessible", "PathDown", "both paths"),), unreadable=3),
            id="odd conditions beside one that can be read",
        ),
        pytest.param(
            {"healthConditions": [{"reason": "NoStatus"}, 7], "lastTransitionTime": SINCE},
            ClaimHealth(since=AT, unreadable=2),
            id="odd conditions alone do not make it healthy",
        ),
        pytest.param("well", ClaimHealth(unreadable=1), id="no object"),
        pytest.param({"healthConditions": {"status": "DataLoss"}}, ClaimHealth(unreadable=1), id="no list"),
        pytest.param({"lastTransitionTime": "soon"}, ClaimHealth(unreadable=1), id="a time that is none"),
    ],
)
def test_the_native_field_of_a_claim(status: Any, expected: ClaimHealth | None) -> None:
    assert claim_health(status) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(
            '{"state":"unhealthy","node":"n1"}', ClaimHealth(nodes=(NodeReport("n1", False),)), id="unhealthy"
        ),
        pytest.param(
            f'{{"state":"healthy","since":"{SINCE}","lastChecked":"{SINCE}","node":"n1"}}',
            ClaimHealth(nodes=(NodeReport("n1", True, AT),)),
            id="well",
        ),
        pytest.param('{"state":"unhealthy"}', ClaimHealth(nodes=(NodeReport("uid", False),)), id="by the node's uid"),
        pytest.param('{"state":"odd","node":"n1"}', ClaimHealth(unreadable=1), id="an unknown state"),
        pytest.param('{"node":"n1"}', ClaimHealth(unreadable=1), id="no state"),
        pytest.param("unhealthy", ClaimHealth(unreadable=1), id="no JSON"),
        pytest.param("[" * 5000, ClaimHealth(unreadable=1), id="nested too deeply"),
    ],
)
def test_an_annotation_of_csi_addons(value: str, expected: ClaimHealth) -> None:
    assert claim_health(uid=value) == expected


def test_a_tick_of_csi_addons_changes_nothing() -> None:
    first, second = (f'{{"state":"healthy","node":"n1","lastChecked":"2026-06-24T10:0{n}:00Z"}}' for n in (1, 2))
    assert claim_health(uid=first) == claim_health(uid=second)


def test_both_at_once_and_a_bad_one_spoils_neither() -> None:
    health = claim_health({"healthConditions": [PATH_DOWN]}, a='{"state":"unhealthy","node":"n2"}', b="?")
    assert health is not None
    assert (len(health.conditions or ()), health.nodes, health.unreadable) == (1, (NodeReport("n2", False),), 1)


def test_what_is_kept_is_bounded() -> None:
    many = [{"status": "Degraded", "reason": "r" * 5000, "message": "m" * 5000}] * (MAX_REPORTS + 5)
    health = claim_health({"healthConditions": many})
    assert health is not None
    assert health.conditions is not None
    assert len(health.conditions) == MAX_REPORTS
    assert max(len(condition.message) + len(condition.reason) for condition in health.conditions) == 2048


def storage(status: Any) -> StorageReports | None:
    document = {"metadata": {"name": "n1", "resourceVersion": "1"}, "spec": {"drivers": []}, "status": status}
    return decode_csi_node(msgspec.json.encode(document)).storage


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(None, None, id="no status"),
        pytest.param({}, None, id="an empty status"),
        pytest.param({"storageHealth": [{"name": "d", "healthConditions": []}]}, None, id="a driver that is well"),
        pytest.param(
            {
                "storageHealth": [
                    {
                        "name": "d",
                        "healthConditions": [
                            {"status": "StorageUnreachable", "reason": "Net", "lastTransitionTime": SINCE},
                            {"status": "StorageDegraded", "volumeMode": "Block", "accessMode": "ReadWriteMany"},
                        ],
                    }
                ]
            },
            StorageReports(
                (
                    StorageCondition("d", "StorageUnreachable", "Net", since=AT),
                    StorageCondition("d", "StorageDegraded", volume_mode="Block", access_mode="ReadWriteMany"),
                )
            ),
            id="two conditions",
        ),
        pytest.param(
            {"storageHealth": [{"healthConditions": []}, {"name": "d", "healthConditions": [{}, 1]}, None]},
            StorageReports((), unreadable=4),
            id="none that can be read",
        ),
        pytest.param({"storageHealth": "fine"}, StorageReports((), unreadable=1), id="no list"),
        pytest.param(["odd"], StorageReports((), unreadable=1), id="no object"),
    ],
)
def test_what_a_csi_node_says_of_storage(status: Any, expected: StorageReports | None) -> None:
    assert storage(status) == expected
