"""The flags of `pvc-prebinder csi-agent`, and what they amount to."""

from dataclasses import fields
from datetime import timedelta

import pytest

from binder.model.decision import Mode
from csi.client.endpoint import Endpoint
from prebinder import cli
from prebinder.command_line.flags import FLAGS
from prebinder.commands.run.csi_agent import AGENT_FLAGS, controller_settings
from prebinder.config.settings import AgentSettings, LeaderElectionSettings, ProbeSettings
from prebinder.errors import ExitCode, UsageError

DRIVER = Endpoint("Disk.csi.example.com", "/csi/csi.sock")


def settings(*endpoints: Endpoint, lease: str = "") -> AgentSettings:
    return AgentSettings(health=ProbeSettings(endpoints), leader_election=LeaderElectionSettings(name=lease))


def test_each_driver_has_a_lease_of_its_own() -> None:
    assert controller_settings(settings(DRIVER)).leader_election.name == "pvc-prebinder-csi-agent-disk.csi.example.com"
    assert controller_settings(settings(DRIVER, lease="mine")).leader_election.name == "mine"


def test_an_agent_binds_nothing() -> None:
    assert controller_settings(settings(DRIVER)).binding.mode is Mode.OFF


@pytest.mark.parametrize("endpoints", [[], [DRIVER, Endpoint("b", "/b.sock")]], ids=["none", "two"])
def test_an_agent_serves_one_driver(endpoints: list[Endpoint]) -> None:
    with pytest.raises(UsageError, match=f"expected one --csi-endpoint NAME=unix:///PATH, found {len(endpoints)}"):
        controller_settings(settings(*endpoints))


def test_every_setting_of_probes_is_the_agents() -> None:
    chosen = ProbeSettings(
        (Endpoint("a", "/a.sock"),),
        tls_ca="ca",
        tls_certificate="certificate",
        tls_key="key",
        sweep_interval=timedelta(seconds=7),
        sweep_rate=7.0,
        in_use_interval=timedelta(seconds=3),
        unhealthy_after=2,
        healthy_after=3,
    )
    settled = controller_settings(AgentSettings(health=chosen)).health
    values = {field.name: getattr(chosen, field.name) for field in fields(ProbeSettings)}
    assert [name for name in values if getattr(ProbeSettings(), name) == values[name]] == []
    assert {name: getattr(settled, name) for name in values} == values


def test_its_flags_are_those_of_the_controller() -> None:
    of_the_controller = {flag.name for flags in FLAGS.values() for flag in flags}
    own = {flag.name for flags in AGENT_FLAGS.values() for flag in flags}
    assert own < of_the_controller
    assert not own & {"--mode", "--quarantine", "--dry-run", "--health-max-age", "--unknown-health"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["csi-agent"], "csi-agent serves one driver: expected one --csi-endpoint NAME=unix:///PATH, found 0"),
        (["csi-agent", "--csi-endpoint", "a=tcp://h:1"], "a=tcp://h:1: tcp without TLS is rejected"),
        (["csi-agent", "--quarantine"], 'unknown flag "--quarantine"'),
    ],
)
def test_a_usage_fault_is_one_line(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1
