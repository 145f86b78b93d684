"""The command `scheduler`: what is required, and what is rejected before anything is watched."""

from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import pytest

from kube.configuration.document import ConfigurationError
from prebinder import cli
from prebinder.command_line.flags import settings_from
from prebinder.commands.run.scheduler import SCHEDULER_FLAGS, reject_unclear
from prebinder.config.scheduler_settings import SchedulerSettings, SchedulingSettings, lease_name
from prebinder.config.settings import LeaderElectionSettings
from prebinder.errors import UsageError
from prebinder.scheduler.plugin_failures import PluginFailures
from prebinder.scheduler.profiles import configuration_for
from tests.command_process import command

HEAD = "apiVersion: config.pvc-prebinder/v1alpha1\nkind: SchedulerConfiguration\nprofiles:\n"


def settings(*arguments: str) -> SchedulerSettings:
    return settings_from(SchedulerSettings(), SCHEDULER_FLAGS, arguments)


def configured(directory: Path, text: str) -> SchedulingSettings:
    file = directory / "scheduler.yaml"
    file.write_text(text)
    return SchedulingSettings(config=str(file))


def test_every_setting_has_one_flag() -> None:
    known = [flag for below in SCHEDULER_FLAGS.values() for flag in below]
    defaults = SchedulerSettings()
    groups = [group.name for group in fields(defaults) if group.name != "feature_gates"]
    # All gates are one flag, as in Kubernetes.
    expected = {(group, setting.name) for group in groups for setting in fields(getattr(defaults, group))}
    expected |= {("feature_gates", "")}
    assert sorted((flag.group, flag.field) for flag in known) == sorted(expected)


def test_the_bind_timeout_is_that_of_kube_scheduler_unless_set() -> None:
    assert settings("--name", "a").scheduling.bind_timeout == timedelta(seconds=600)
    assert settings("--name", "a", "--bind-timeout", "1m30s").scheduling.bind_timeout == timedelta(seconds=90)


def test_names_are_repeated_and_each_gets_the_default_profile() -> None:
    chosen = settings("--name", "a", "--name=b").scheduling
    reject_unclear(chosen)
    profiles = configuration_for(chosen, PluginFailures()).current.profiles
    assert {name: profile.scheduler_name for name, profile in profiles.items()} == {"a": "a", "b": "b"}
    assert all(profile.filters and profile.scores for profile in profiles.values())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param([], "one of --name or --config is required", id="no name"),
        pytest.param(["--name", "a", "--config", "f"], "--name and --config are mutually exclusive", id="both"),
        pytest.param(["--name", "Mine"], '--name: expected lower-case letters, digits, "-" and ".", found "Mine"'),
        pytest.param(["--name", "a,spec.nodeName=n"], 'found "a,spec.nodeName=n"', id="a selector"),
        pytest.param(["--name", "a", "--name", "a"], "--name: expected each name once, found a, a", id="twice"),
        pytest.param(["--name", "a" * 201], "--name: expected names of 200 characters together, found 201", id="long"),
        pytest.param(
            ["--name", "a", "--control-bind-address", "0.0.0.0:10270"],
            '--control-bind-address: the control port cannot listen on "0.0.0.0:10270"',
            id="a control port on all addresses",
        ),
        pytest.param(
            ["--name", "a", "--lease-name", "Mine"], "--lease-name: Lease name must be lower-case", id="lease"
        ),
        pytest.param(["--name", "a", "--lease-namespace", "a b"], "--lease-namespace: namespace must be lower-case"),
        pytest.param(
            ["--name", "a", "--annotation-prefix", "a b/"], 'must be a domain and "/", is "a b/"', id="prefix"
        ),
        pytest.param(
            ["--name", "a", "--bind-timeout", "900ms"], "--bind-timeout: bind timeout must be at least 1s, is 900ms"
        ),
        pytest.param(["--name", "a", "--bind-timeout", "10"], '--bind-timeout: "10" is not a duration', id="no unit"),
        pytest.param(["--name", "a", "--control-bind-address", "x"], "--control-bind-address: bind address must be"),
    ],
)
def test_what_is_unclear_is_rejected(arguments: list[str], complaint: str) -> None:
    with pytest.raises(UsageError) as rejected:
        cli.run(["scheduler", *arguments])
    assert complaint in str(rejected.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("kind: [", "invalid YAML", id="no yaml"),
        pytest.param(HEAD + "- schedulerName: Mine\n", "profiles[0].schedulerName: expected lower-case", id="name"),
        pytest.param(
            HEAD + "- schedulerName: a\n  scores: {BinPack: 1000}\n",
            "profiles[0].scores.BinPack: expected a whole number from 1 to 100, found 1000",
            id="weight",
        ),
    ],
)
def test_a_wrong_configuration_is_rejected_with_file_and_place(tmp_path: Path, text: str, complaint: str) -> None:
    chosen = configured(tmp_path, text)
    with pytest.raises(UsageError) as rejected:
        configuration_for(chosen, PluginFailures())
    assert str(rejected.value).startswith(f"configuration file {chosen.config}: ")
    assert complaint in str(rejected.value)


def test_a_configuration_that_cannot_be_read_is_named() -> None:
    with pytest.raises(UsageError, match="cannot read the configuration file /none: No such file"):
        configuration_for(SchedulingSettings(config="/none"), PluginFailures())


@pytest.mark.parametrize("from_file", [True, False], ids=["file", "names"])
async def test_the_schedulers_stay_the_same_until_a_restart(tmp_path: Path, from_file: bool) -> None:
    both = HEAD + "- schedulerName: a\n- schedulerName: b\n"
    chosen = configured(tmp_path, both) if from_file else SchedulingSettings(scheduler_names=("a", "b"))
    configuration = configuration_for(chosen, PluginFailures())
    await configuration.apply((HEAD + "- {schedulerName: b, scores: {BinPack: 7}}\n- schedulerName: a\n").encode())
    with pytest.raises(ConfigurationError, match="expected a, b, found a; changed scheduler names need a restart"):
        await configuration.apply((HEAD + "- schedulerName: a\n").encode())
    assert [score.weight for score in configuration.current.profiles["b"].scores] == [7]


@pytest.mark.parametrize(
    ("chosen", "schedulers", "expected"),
    [
        ("", ["demo"], "pvc-prebinder-scheduler-demo"),
        ("", ["b", "a"], "pvc-prebinder-scheduler-a.b"),
        ("mine", ["demo"], "mine"),
    ],
)
def test_each_scheduler_has_a_lease_of_its_own(chosen: str, schedulers: list[str], expected: str) -> None:
    assert lease_name(LeaderElectionSettings(name=chosen), schedulers) == expected


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["--name", "a", "--kubeconfig", "/none"], 1, "/none"),
        (["--nam", "a"], 2, 'unknown flag "--nam"; did you mean "--name"?'),
        ([], 2, "one of --name or --config is required"),
        (["--name", "a", "--feature-gates=Scheduler=false"], 1, "the feature gate Scheduler is off; remove"),
    ],
    ids=["no cluster", "no such flag", "no name", "feature gate off"],
)
async def test_a_fault_is_one_line(arguments: list[str], code: int, complaint: str) -> None:
    ended, out, errors = await command("scheduler", *arguments)
    assert (ended, out) == (code, "")
    assert complaint in errors
    assert len(errors.splitlines()) == 1
