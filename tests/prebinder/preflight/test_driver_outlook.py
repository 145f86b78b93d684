"""For each driver: who probes its volumes, and what it means if none does."""

from dataclasses import replace
from datetime import timedelta

import pytest

from binder.health.published_sweeps import PublishedSweep
from csi.health.capabilities import NEEDED, HealthProtocol, negotiate
from csi.health.complete_sweep import SweepReport
from csi.proto import csi_v1_pb2 as csi
from prebinder.preflight.doctor_checks import Check, CheckState
from prebinder.preflight.driver_outlook import driver_checks, response_check
from tests.builders import EPOCH, volume

DRIVER = "disk.csi.example"
NOW = EPOCH + timedelta(hours=1)
REPORT = SweepReport(DRIVER, NOW - timedelta(seconds=21), NOW - timedelta(seconds=20), timedelta(minutes=1), 50, 2)
OLD = replace(REPORT, began=EPOCH, ended=EPOCH)


def checks(*reports: SweepReport, responding: tuple[str, ...] = ()) -> list[Check]:
    sweeps = [PublishedSweep(report, "storage/agent") for report in reports]
    return list(driver_checks([volume("a"), volume("b")], responding, sweeps, NOW))


@pytest.mark.parametrize(
    ("reports", "state", "result", "meaning"),
    [
        pytest.param((REPORT,), CheckState.OK, "probed 20s ago, as reported on Lease storage/agent", "", id="probed"),
        pytest.param((OLD, REPORT), CheckState.OK, "20s ago", "", id="the latest of two counts"),
        pytest.param((replace(REPORT, unhealthy=1),), CheckState.OK, "20s ago", "1 unhealthy", id="unhealthy"),
        pytest.param((OLD,), CheckState.NOTE, "1h ago", "outdated", id="no longer probed"),
        pytest.param((replace(REPORT, unsupported=2),), CheckState.NOTE, "20s ago", "no volume health", id="no call"),
        pytest.param((replace(REPORT, driver="other"),), CheckState.NOTE, "not probed", "--csi-endpoint", id="another"),
        pytest.param((), CheckState.NOTE, "2 volumes, not probed", "components/csi-agent", id="none"),
    ],
)
def test_the_process_that_probes_a_driver_is_reported(
    reports: tuple[SweepReport, ...], state: CheckState, result: str, meaning: str
) -> None:
    (check,) = checks(*reports)
    assert (check.subject, check.state) == (f"CSI driver {DRIVER}", state)
    assert result in check.found
    assert meaning in check.meaning


def test_a_driver_that_is_probed_by_the_command_itself_has_no_second_line() -> None:
    assert checks(responding=(DRIVER,)) == []


def test_without_the_right_to_list_leases_no_process_is_reported_missing() -> None:
    (check,) = driver_checks([volume()], (), None, NOW)
    assert (check.state, check.found) == (CheckState.NOTE, "1 volume")
    assert "unknown" in check.meaning


def test_volumes_without_a_driver_are_counted_by_type() -> None:
    local, nfs = driver_checks([volume(source="local"), volume("b", source="nfs")], (), [], NOW)
    assert (local.subject, nfs.subject) == ("volumes of type local", "volumes of type nfs")
    assert local.meaning.endswith("reserved without a probe")


@pytest.mark.parametrize(
    ("protocol", "state", "meaning"),
    [
        (HealthProtocol.HEALTH_BY_LIST, CheckState.OK, ""),
        (HealthProtocol.CONDITION_BY_GET, CheckState.OK, ""),
        (HealthProtocol.EXISTENCE, CheckState.OK, "a deleted volume, and no other problem"),
        (None, CheckState.NOTE, "Unsupported"),
    ],
)
def test_what_a_driver_offers(protocol: HealthProtocol | None, state: CheckState, meaning: str) -> None:
    services = [csi.PluginCapability.Service.CONTROLLER_SERVICE]
    check = response_check(DRIVER, negotiate(services, NEEDED[protocol] if protocol else ()))
    assert check.state is state
    assert meaning in check.meaning
    assert protocol is None or protocol in check.found
