"""The configuration file is decoded strictly: what is wrong is named with its place and what was expected."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from binder.model.decision import Mode
from csi.client.endpoint import Endpoint
from kube.configuration.document import ConfigurationError, ConfigurationFile
from prebinder.config.config_file import AGENT, CONTROLLER, load
from prebinder.config.settings import BindingSettings, HealthSettings, Settings
from prebinder.errors import UsageError
from scheduler.framework.config import FILE

HEAD = "apiVersion: config.pvc-prebinder/v1alpha1\nkind: ControllerConfiguration\n"


def test_a_file_without_keys_has_the_defaults() -> None:
    assert CONTROLLER.parse(HEAD) == Settings()


def test_reads_every_kind_of_value() -> None:
    text = HEAD + (
        "cluster: {qps: 5, burst: 7, context: staging}\n"
        "binding: {mode: off, reservationTTL: 1m30s, dryRun: true}\n"
        "health:\n  endpoints: ['csi.example.com=unix:///csi/csi.sock']\n"
    )
    settings = CONTROLLER.parse(text)
    assert (settings.cluster.qps, settings.cluster.burst, settings.cluster.context) == (5.0, 7, "staging")
    assert settings.binding == BindingSettings(Mode.OFF, timedelta(seconds=90), dry_run=True)
    assert settings.health.endpoints == (Endpoint("csi.example.com", "/csi/csi.sock"),)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("", "expected a mapping with apiVersion and kind, found nothing", id="empty"),
        pytest.param("kind: X", 'apiVersion: expected "config.pvc-prebinder/v1alpha1", found nothing', id="no version"),
        pytest.param(
            "apiVersion: config.pvc-prebinder/v1alpha1\nkind: X",
            'kind: expected "ControllerConfiguration", found "X"',
            id="kind",
        ),
        pytest.param(HEAD + "bindin: {}", 'bindin: unknown key; did you mean "binding"?', id="unknown group"),
        pytest.param(
            HEAD + "binding: {reservationTtl: 5m}",
            'binding.reservationTtl: unknown key; did you mean "reservationTTL"?',
            id="unknown key",
        ),
        pytest.param(
            HEAD + "binding: {zzz: 5m}", "binding.zzz: unknown key; expected mode, reservationTTL,", id="nothing near"
        ),
        pytest.param(HEAD + "binding: 5", "binding: expected a mapping, found 5", id="group type"),
        pytest.param(
            HEAD + "binding: {concurrency: true}",
            "binding.concurrency: expected a whole number, found true",
            id="bool is no number",
        ),
        pytest.param(
            HEAD + "binding: {concurrency: '3'}",
            'binding.concurrency: expected a whole number, found "3"',
            id="text is no number",
        ),
        pytest.param(
            HEAD + "binding: {dryRun: yes}", 'binding.dryRun: expected true or false, found "yes"', id="yes is no bool"
        ),
        pytest.param(
            HEAD + "binding: {reservationTTL: 300}",
            "binding.reservationTTL: expected a duration like 5m, found 300",
            id="number is no duration",
        ),
        pytest.param(
            HEAD + "binding: {mode: prebnd}",
            'binding.mode: expected annotate, prebind, complete, off, found "prebnd"; did you mean "prebind"?',
            id="word",
        ),
        pytest.param(
            HEAD + "binding: {mode: null}",
            "binding.mode: expected annotate, prebind, complete, off, found nothing",
            id="null",
        ),
        pytest.param(HEAD + "binding: {concurrency: 0}", "binding: concurrency must be at least 1, is 0", id="range"),
        pytest.param(
            HEAD + "health: {endpoints: ['x=tcp://10.0.0.1:50051']}",
            "health: CSI endpoint x=tcp://10.0.0.1:50051: tcp without TLS is rejected",
            id="tcp",
        ),
        pytest.param(HEAD + "health: {endpoints: {}}", "health.endpoints: expected a list", id="list"),
        pytest.param(
            HEAD + "health: {endpoints: ['a=unix:///x', 'a=unix:///y']}", "several for a", id="driver given twice"
        ),
        pytest.param(HEAD + "logging: {level: info, level: debug}", 'duplicate key "level"', id="key twice"),
        pytest.param(HEAD + "binding: [", "invalid YAML", id="broken"),
        pytest.param(HEAD + "binding: !!python/object:os.system {}", "invalid YAML", id="tag"),
        pytest.param(
            HEAD + "serving: {metricsBindAddress: '8080'}", "bind address must be HOST:PORT, :PORT or 0", id="address"
        ),
    ],
)
def test_says_what_is_wrong_and_where(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        CONTROLLER.parse(text)


def test_what_is_written_reads_back() -> None:
    settings = replace(
        Settings(),
        binding=BindingSettings(Mode.OFF, timedelta(minutes=7), annotation_prefix="x.example/"),
        health=HealthSettings((Endpoint("a", "/a.sock"), Endpoint("b", "/b.sock"))),
    )
    assert CONTROLLER.parse(CONTROLLER.dump(settings)) == settings


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(HEAD + "binding:\n  dryRun: true\n  mode: prebnd\n", 5, id="a value"),
        pytest.param(HEAD + "health:\n  endpoints:\n  - a=unix:///a\n  - b\n", 6, id="an entry of a list"),
        pytest.param(HEAD + "binding:\n  dryRun: true\n  concurrency: 0\n", 3, id="a group"),
        pytest.param("kind: X\napiVersion: v9\n", 2, id="the head"),
    ],
)
def test_says_on_which_line(text: str, line: int) -> None:
    with pytest.raises(ConfigurationError) as raised:
        CONTROLLER.parse(text)
    assert raised.value.line == line
    assert str(raised.value).endswith(f"(line {line})")


def test_the_agent_has_a_file_of_its_own() -> None:
    text = "apiVersion: config.pvc-prebinder/v1alpha1\nkind: AgentConfiguration\n"
    settings = AGENT.parse(text + "health: {endpoints: ['a=unix:///a'], sweepInterval: 10s}\n")
    assert (settings.health.endpoints, settings.health.sweep_interval) == (
        (Endpoint("a", "/a"),),
        timedelta(seconds=10),
    )
    assert AGENT.parse(AGENT.dump(settings)) == settings
    with pytest.raises(ConfigurationError, match=r"health\.quarantine: unknown key"):
        AGENT.parse(text + "health: {quarantine: true}\n")


@pytest.mark.parametrize("file", [CONTROLLER, AGENT, FILE], ids=lambda file: file.kind)
def test_the_schema_describes_every_key(file: "ConfigurationFile[object]") -> None:
    schema = file.schema()
    assert schema["properties"]["kind"] == {"const": file.kind}
    for name, part in schema["$defs"].items():
        for key, described in part.get("properties", {}).items():
            assert "additionalProperties" not in part or part["additionalProperties"] is False, name
            assert described, key


def test_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(HEAD + "x: 1")
    with pytest.raises(UsageError, match=rf"{file}: x: unknown key; expected cluster, .* \(line 3\)"):
        load(CONTROLLER, str(file))


def test_a_missing_file_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"/nowhere/c\.yaml: No such file"):
        load(CONTROLLER, "/nowhere/c.yaml")


def test_a_binary_file_is_a_usage_error(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot read"):
        load(CONTROLLER, str(file))


@pytest.mark.parametrize("file", [CONTROLLER, AGENT], ids=lambda file: file.kind)
def test_a_duration_has_one_form_in_schema_and_file(file: ConfigurationFile[object]) -> None:
    assert "PT" not in json.dumps(file.schema())
    head = f"apiVersion: config.pvc-prebinder/v1alpha1\nkind: {file.kind}\n"
    assert "PT" not in file.dump(file.parse(head))


@pytest.mark.parametrize("text", ["10m", "PT10M", "600s"])
def test_every_form_of_a_duration_is_printed_in_one(text: str) -> None:
    content = f"binding: {{reservationTTL: {text}}}\nextender: {{shutdownDelayDuration: {text}}}\n"
    dumped = CONTROLLER.dump(CONTROLLER.parse(HEAD + content))
    assert "reservationTTL: 10m\n" in dumped
    assert "shutdownDelayDuration: 10m\n" in dumped
