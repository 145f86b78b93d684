"""What answers mean. The frame: a volume `v`, probed at NOW; real messages, no server."""

from datetime import UTC, datetime

import grpc
import pytest

from csi.client.channel import canonical_name
from csi.health import interpret
from csi.health.capabilities import Negotiation, negotiate
from csi.health.report_source import MAX_MESSAGE_CHARACTERS, ReportSource
from csi.health.verdict import HealthState, Segment, Verdict
from csi.proto import csi_v1_pb2 as csi
from tests.csi.scripted_driver import volume_answer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WITNESS = ReportSource("CSI driver a", NOW)
CONDITION = negotiate({1, 2}, {11, 12})
EXISTENCE = negotiate({1, 2}, {12})
NO_TOPOLOGY = negotiate({1}, {11, 12})


def judge(answer: csi.ControllerGetVolumeResponse, negotiation: Negotiation = CONDITION) -> Verdict:
    return interpret.volume(WITNESS, negotiation, "v", answer)


@pytest.mark.parametrize(
    ("answer", "negotiation", "state", "reason"),
    [
        pytest.param(volume_answer("v"), CONDITION, "Healthy", "VolumeConditionNormal", id="normal"),
        pytest.param(
            volume_answer("v", abnormal=True, message="disk on fire"),
            CONDITION, "Degraded", "VolumeConditionAbnormal", id="abnormal",
        ),
        pytest.param(
            volume_answer("v", abnormal=True, message="rpc error: code = NotFound desc = volume id v does not exist"),
            CONDITION, "Inaccessible", "VolumeNotFound", id="abnormal not found, as csi-driver-host-path says it",
        ),
        pytest.param(
            volume_answer("v", abnormal=True, message="Volume not found"),
            CONDITION, "Inaccessible", "VolumeNotFound", id="abnormal not found, as the mock driver says it",
        ),
        pytest.param(
            volume_answer("v", abnormal=True, message="directory /v is gone"),
            CONDITION, "Inaccessible", "VolumeNotFound", id="abnormal and gone",
        ),
        pytest.param(
            volume_answer("v", abnormal=True, message="stat /v: no such file or directory"),
            CONDITION, "Inaccessible", "VolumeNotFound", id="abnormal, as the kernel says it",
        ),
        pytest.param(
            volume_answer("v", message="fault not found"), CONDITION, "Healthy", "VolumeConditionNormal",
            id="normal stays normal whatever it says",
        ),
        pytest.param(volume_answer("v", abnormal=None), CONDITION, "Unknown", "MalformedAnswer", id="left out"),
        pytest.param(volume_answer("v", abnormal=None), EXISTENCE, "Healthy", "VolumeExists", id="exists"),
        pytest.param(volume_answer("v"), EXISTENCE, "Healthy", "VolumeExists", id="exists, unasked normal"),
        pytest.param(
            volume_answer("v", abnormal=True), EXISTENCE, "Degraded", "VolumeConditionAbnormal", id="unasked abnormal"
        ),
        pytest.param(volume_answer("w"), CONDITION, "Unknown", "MalformedAnswer", id="another volume"),
        pytest.param(volume_answer(""), CONDITION, "Unknown", "MalformedAnswer", id="no volume id"),
        pytest.param(
            volume_answer("w", abnormal=True), CONDITION, "Unknown", "MalformedAnswer", id="another volume is unhealthy"
        ),
        pytest.param(csi.ControllerGetVolumeResponse(), EXISTENCE, "Unknown", "MalformedAnswer", id="empty answer"),
    ],
)  # fmt: skip
def test_answers(answer: csi.ControllerGetVolumeResponse, negotiation: Negotiation, state: str, reason: str) -> None:
    verdict = judge(answer, negotiation)
    assert (verdict.state, verdict.reason) == (state, reason)
    assert (verdict.source, verdict.observed_at) == ("CSI driver a", NOW)


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
def test_a_failed_call_says_nothing_about_the_volume(code: grpc.StatusCode) -> None:
    name = canonical_name(code)
    assert interpret.failed_call(WITNESS, name, "why").state is HealthState.UNKNOWN
    verdict = interpret.failed_get(WITNESS, name, "why")
    if code is grpc.StatusCode.NOT_FOUND:
        assert (verdict.state, verdict.reason) == (HealthState.INACCESSIBLE, "VolumeNotFound")
        assert verdict.message == "the driver does not know the volume: why"
    else:
        assert (verdict.state, verdict.reason, verdict.message) == (HealthState.UNKNOWN, name, "why")


@pytest.mark.parametrize(("given", "reason"), [("DiskSlow", "DiskSlow"), ("", "Degraded"), ("a\n b", "a b")])
def test_the_reason_is_the_drivers_own_or_the_state(given: str, reason: str) -> None:
    entry = csi.VolumeHealth.VolumeHealthEntry(status=csi.DEGRADED, reason=given, message="why")
    verdict = interpret.health(WITNESS, "v", csi.VolumeHealth(volume_id="v", health_statuses=[entry]))
    assert (verdict.state, verdict.reason, verdict.message) == (HealthState.DEGRADED, reason, "why")


def test_unsupported_is_not_unhealthy() -> None:
    verdict = interpret.unsupported(WITNESS)
    assert (verdict.state, verdict.reason, verdict.unhealthy) == (HealthState.UNSUPPORTED, "NoHealthCapability", False)


def test_topology_is_kept_for_unhealthy_volumes_too() -> None:
    expected = (Segment((("zone", "a"),)), Segment((("zone", "b"),)))
    assert judge(volume_answer("v", zones=["b", "a", "b"])).topology == expected
    assert judge(volume_answer("v", abnormal=True, zones=["a", "b"])).topology == expected


def test_an_empty_topology_differs_from_a_missing_one() -> None:
    assert judge(volume_answer("v")).topology == ()
    assert judge(volume_answer("v", zones=["a"]), NO_TOPOLOGY).topology is None


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("  two\n lines\t", "two lines"),
        ("x" * MAX_MESSAGE_CHARACTERS, "x" * MAX_MESSAGE_CHARACTERS),
        ("x" * 10_000_000, "x" * (MAX_MESSAGE_CHARACTERS - 1) + "…"),
        ("\x1b[31mred\x00", "\N{REPLACEMENT CHARACTER}[31mred\N{REPLACEMENT CHARACTER}"),
    ],
    ids=["one line", "longest", "10 MB", "control characters"],
)
def test_messages_are_made_safe_to_show(message: str, shown: str) -> None:
    assert judge(volume_answer("v", abnormal=True, message=message)).message == shown


def test_an_unknown_field_of_a_newer_driver_is_ignored() -> None:
    newer = volume_answer("v").SerializeToString() + b"\xfa\x3e\x03abc"
    assert judge(csi.ControllerGetVolumeResponse.FromString(newer)).state is HealthState.HEALTHY
