from datetime import UTC, datetime, timedelta

import pytest

from csi.sources import ADDONS_PREFIX, addons_verdicts, claim_verdicts, combined, native_verdict
from csi.verdict import HealthState, Segment, Verdict
from kube.decode import decode_claim
from kube.model import HealthCondition
from tests.fake_clock import START

CHECKED = datetime(2026, 6, 24, 10, tzinfo=UTC)


def condition(status: str) -> HealthCondition:
    return HealthCondition(status, f"Reason{status}", f"message {status}")


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        pytest.param([], None, id="nothing said"),
        pytest.param(["Degraded"], "Degraded", id="one"),
        pytest.param(["Degraded", "DataLoss", "Inaccessible"], "DataLoss", id="the worst"),
        pytest.param(["Exploded", "Degraded"], "Degraded", id="beside one that nobody knows"),
        pytest.param(["Exploded", "Healthy", "Unknown"], None, id="only such that say nothing"),
    ],
)
def test_the_native_field(statuses: list[str], expected: str | None) -> None:
    verdict = native_verdict([condition(status) for status in statuses], START)
    assert (verdict and str(verdict.state)) == expected
    if verdict is not None:
        assert (verdict.reason, verdict.message) == (f"Reason{expected}", f"message {expected}")
        assert (verdict.source, verdict.observed_at) == ("status.healthStatus of the claim", START)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param('{"state":"unhealthy","lastChecked":"2026-06-24T10:00:00Z","node":"n1"}', "Degraded", id="sick"),
        pytest.param('{"state":"healthy","lastChecked":"2026-06-24T10:00:00Z","node":"n1"}', "Healthy", id="well"),
        pytest.param('{"state":"odd","lastChecked":"2026-06-24T10:00:00Z"}', None, id="a state nobody knows"),
        pytest.param('{"state":"healthy"}', None, id="no time"),
        pytest.param('{"state":"healthy","lastChecked":"2026-06-24T10:00:00"}', None, id="a time without a zone"),
        pytest.param("unhealthy", None, id="no JSON"),
        pytest.param("[]", None, id="no object"),
    ],
)
def test_annotations_of_csi_addons(value: str, expected: str | None) -> None:
    verdicts = list(addons_verdicts((("other", "x"), (f"{ADDONS_PREFIX}uid-1", value))))
    assert [str(verdict.state) for verdict in verdicts] == ([expected] if expected else [])
    for verdict in verdicts:
        assert (verdict.source, verdict.observed_at) == ("csi-addons on n1", CHECKED)


def verdict(state: HealthState, source: str) -> Verdict:
    return Verdict(state, "R", f"said by {source}", source, START, (Segment(()),) if source == "driver" else None)


@pytest.mark.parametrize(
    ("driver", "others", "state", "message"),
    [
        pytest.param("Healthy", [], "Healthy", "said by driver", id="alone"),
        pytest.param("Healthy", ["Healthy"], "Healthy", "said by driver", id="agreed"),
        pytest.param(
            "Healthy", ["Degraded"], "Degraded", "said by other-0; but driver says Healthy (R)", id="the other is worse"
        ),
        pytest.param(
            "DataLoss", ["Healthy", "DataLoss"], "DataLoss", "said by driver; but other-0 says Healthy (R)",
            id="the driver is worse",
        ),
        pytest.param(
            "Unsupported", ["Healthy"], "Healthy", "said by other-0; but driver says Unsupported (R)",
            id="who cannot say outranks nobody",
        ),
        pytest.param(
            "Unknown", ["Healthy"], "Unknown", "said by driver; but other-0 says Healthy (R)",
            id="a driver that fails is not outvoted by who says well",
        ),
    ],
)  # fmt: skip
def test_the_worse_wins_and_both_are_named(driver: str, others: list[str], state: str, message: str) -> None:
    found = combined(
        verdict(HealthState(driver), "driver"),
        [verdict(HealthState(one), f"other-{number}") for number, one in enumerate(others)],
    )
    assert (str(found.state), found.message) == (state, message)
    assert found.topology == (Segment(()),)


def test_a_claim_as_the_api_server_sends_it() -> None:
    claim = decode_claim(
        b'{"metadata":{"name":"c","resourceVersion":"1"},"spec":{},"status":{"healthStatus":{"healthConditions":'
        b'[{"status":"Inaccessible","reason":"PathDown","message":"both paths"},{"reason":"NoStatus"}]}}}'
    )
    assert claim.health_conditions == (HealthCondition("Inaccessible", "PathDown", "both paths"),)
    (said,) = claim_verdicts(claim, START + timedelta(hours=1))
    assert (said.state, said.reason) == (HealthState.INACCESSIBLE, "PathDown")
