from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from csi.health.health import HealthFinding
from csi.health.sources import addons_findings, combined, combined_finding, native_finding, storage_finding
from csi.health.verdict import HealthState, Segment, Verdict
from kube.objects.reports import ClaimHealth, HealthCondition, NodeReport, StorageCondition
from tests.fake_clock import START

EARLIER = START - timedelta(hours=1)


def condition(status: str) -> HealthCondition:
    return HealthCondition(status, f"Reason{status}", f"message {status}")


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        pytest.param(None, None, id="not written"),
        pytest.param([], "Healthy", id="no adverse condition"),
        pytest.param(["Degraded"], "Degraded", id="one"),
        pytest.param(["Degraded", "DataLoss", "Inaccessible"], "DataLoss", id="the worst"),
        pytest.param(["Exploded", "Degraded"], "Degraded", id="beside an unknown one"),
        pytest.param(["Exploded", "Healthy", "Unknown"], None, id="only such that say nothing"),
    ],
)
def test_the_native_field(statuses: Sequence[str] | None, expected: str | None) -> None:
    conditions = None if statuses is None else tuple(condition(status) for status in statuses)
    finding = native_finding(ClaimHealth(conditions, EARLIER), START)
    assert (finding and str(finding.state)) == expected
    if finding is not None and finding.unhealthy:
        assert (finding.reason, finding.message) == (f"Reason{expected}", f"message {expected}")
        assert (finding.source, finding.since) == ("status.healthStatus of the claim", EARLIER)


def test_reports_of_csi_addons() -> None:
    health = ClaimHealth(nodes=(NodeReport("n1", False, EARLIER), NodeReport("n2", True)))
    reports = [(str(finding.state), finding.source, finding.since) for finding in addons_findings(health, START)]
    assert reports == [("Degraded", "csi-addons on n1", EARLIER), ("Healthy", "csi-addons on n2", START)]


@pytest.mark.parametrize(
    ("status", "state"),
    [("StorageUnreachable", "Inaccessible"), ("StorageDegraded", "Degraded"), ("StorageOdd", None)],
)
def test_storage_of_a_node(status: str, state: str | None) -> None:
    finding = storage_finding(StorageCondition("d", status), "n1", START)
    assert (finding and str(finding.state)) == state
    if finding is not None:
        assert (finding.reason, finding.source) == (status, "status.storageHealth of CSINode n1")


def verdict(state: HealthState, source: str) -> Verdict:
    return Verdict(state, "R", f"said by {source}", source, START, (Segment(()),))


def finding(state: str, source: str) -> HealthFinding:
    return HealthFinding(HealthState(state), "R", f"said by {source}", source, EARLIER)


@pytest.mark.parametrize(
    ("driver", "others", "state", "source", "message"),
    [
        pytest.param("Healthy", [], "Healthy", "driver", "said by driver", id="alone"),
        pytest.param("Healthy", ["Healthy"], "Healthy", "driver", "said by driver", id="agreed"),
        pytest.param(
            "Healthy", ["Degraded"], "Degraded", "other-0", "said by other-0; but driver reports Healthy (R)",
            id="the other is worse",
        ),
        pytest.param(
            "DataLoss", ["Healthy", "DataLoss"], "DataLoss", "driver",
            "said by driver; but other-0 reports Healthy (R)",
            id="the driver is worse",
        ),
        pytest.param(
            "Unsupported", ["Healthy"], "Healthy", "other-0", "said by other-0",
            id="a source that cannot report outranks and contradicts none",
        ),
        pytest.param(
            "Unknown", ["Healthy"], "Unknown", "driver", "said by driver; but other-0 reports Healthy (R)",
            id="a driver that fails is not outvoted by who says well",
        ),
    ],
)  # fmt: skip
def test_the_worse_wins_and_both_are_named(
    driver: str, others: list[str], state: str, source: str, message: str
) -> None:
    findings = [finding(state, f"other-{number}") for number, state in enumerate(others)]
    result = combined(verdict(HealthState(driver), "driver"), findings)
    assert (str(result.state), result.source, result.message) == (state, source, message)
    assert (result.topology, result.observed_at) == ((Segment(()),), START)


def test_findings_without_a_verdict() -> None:
    assert combined_finding([]) is None
    alone = finding("Degraded", "a")
    assert combined_finding([alone]) is alone
    result = combined_finding([finding("Healthy", "a"), finding("Inaccessible", "b"), finding("Degraded", "c")])
    assert result is not None
    assert (str(result.state), result.source, result.since) == ("Inaccessible", "b", EARLIER)
    assert result.message == "said by b; but a reports Healthy (R); but c reports Degraded (R)"


@pytest.mark.parametrize(("since", "expected"), [(EARLIER, EARLIER), (None, START)], ids=["dated", "undated"])
def test_an_undated_condition_of_a_node_is_new(since: datetime | None, expected: datetime) -> None:
    reported = storage_finding(StorageCondition("d", "StorageUnreachable", since=since), "n1", START)
    assert reported is not None
    assert reported.since == expected
