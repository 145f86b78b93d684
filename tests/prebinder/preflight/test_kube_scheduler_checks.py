"""What is said of a KubeSchedulerConfiguration, one defect at a time; and the documented one has none."""

import re
from pathlib import Path

import pytest
import yaml

from prebinder.cli import main
from prebinder.preflight.doctor_checks import Check, CheckState
from prebinder.preflight.kube_scheduler_checks import scheduler_file_checks

TLS = {"caFile": "ca.crt", "serverName": "name", "certFile": "tls.crt", "keyFile": "tls.key"}
GOOD = {
    "urlPrefix": "https://10.96.0.42",
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "preemptVerb": "preempt",
    "weight": 5,
    "nodeCacheCapable": True,
    "ignorable": True,
    "httpTimeout": "500ms",
    "enableHTTPS": True,
    "tlsConfig": TLS,
}


def file(*extenders: object, **how: object) -> str:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return yaml.safe_dump({**head, "percentageOfNodesToScore": 100, "extenders": list(extenders), **how})


def complaints(text: str) -> list[Check]:
    return [check for check in scheduler_file_checks(text) if check.state is not CheckState.OK]


def test_a_file_as_it_should_be() -> None:
    assert complaints(file(GOOD)) == []
    assert [check.subject for check in scheduler_file_checks(file(GOOD))] == [
        "extenders[0]",
        "percentageOfNodesToScore",
    ]


@pytest.mark.parametrize(
    ("change", "subject", "state", "meaning"),
    [
        ({"urlPrefix": "10.96.0.42"}, "urlPrefix", CheckState.PROBLEM, "expected an address"),
        ({"urlPrefix": None}, "urlPrefix", CheckState.PROBLEM, "expected an address"),
        ({"urlPrefix": "https://10.96.0.42/v1"}, "urlPrefix", CheckState.PROBLEM, "served at the root"),
        ({"urlPrefix": "https://extender.ns.svc"}, "urlPrefix", CheckState.NOTE, "not resolved"),
        ({"urlPrefix": "http://10.96.0.42"}, "urlPrefix", CheckState.PROBLEM, "loopback only"),
        ({"tlsConfig": TLS | {"caFile": None}}, "tlsConfig", CheckState.PROBLEM, "not verified"),
        ({"tlsConfig": TLS | {"insecure": True}}, "tlsConfig", CheckState.PROBLEM, "not verified"),
        ({"tlsConfig": TLS | {"keyFile": None}}, "tlsConfig", CheckState.PROBLEM, "belong together"),
        ({"tlsConfig": TLS | {"serverName": ""}}, "tlsConfig.serverName", CheckState.NOTE, "certificate"),
        ({"tlsConfig": {"caFile": "x", "serverName": "x"}}, "tlsConfig", CheckState.NOTE, "--client-ca-file"),
        (
            {"enableHTTPS": False, "tlsConfig": TLS | {"caFile": ""}},
            "tlsConfig",
            CheckState.NOTE,
            "by the host's CAs",
        ),
        ({"filterVerb": None}, "filterVerb", CheckState.PROBLEM, "unhealthy and reserved"),
        ({"filterVerb": "predicates"}, "filterVerb", CheckState.PROBLEM, "404: expected filter"),
        ({"prioritizeVerb": None}, "prioritizeVerb", CheckState.PROBLEM, "no reserved zone"),
        ({"preemptVerb": None}, "preemptVerb", CheckState.PROBLEM, "evicted"),
        ({"bindVerb": "bind"}, "bindVerb", CheckState.PROBLEM, "binds nothing"),
        ({"weight": 0}, "weight", CheckState.PROBLEM, "does not start"),
        ({"nodeCacheCapable": False}, "nodeCacheCapable", CheckState.PROBLEM, "expected true"),
        ({"ignorable": None}, "ignorable", CheckState.NOTE, "down or slow"),
        ({"managedResources": [{"name": "a/b"}]}, "managedResources", CheckState.PROBLEM, "pods with volumes"),
        ({"httpTimeout": None}, "httpTimeout", CheckState.NOTE, "waits 5s"),
        ({"httpTimeout": "10s"}, "httpTimeout", CheckState.NOTE, "waits 10s"),
        ({"httpTimeout": "5ms"}, "httpTimeout", CheckState.NOTE, "dropped"),
        ({"httpTimeout": "soon"}, "httpTimeout", CheckState.PROBLEM, "not a duration"),
    ],
)
def test_each_defect_of_an_extender(change: dict[str, object], subject: str, state: CheckState, meaning: str) -> None:
    (complaint,) = complaints(file(GOOD | change))
    assert (complaint.subject, complaint.state) == (f"extenders[0].{subject}", state)
    assert meaning in complaint.meaning


def test_plain_http_on_loopback_is_fine() -> None:
    beside = GOOD | {"urlPrefix": "http://127.0.0.1:8443", "enableHTTPS": False, "tlsConfig": None}
    assert complaints(file(beside)) == []


def test_of_several_extenders_ours_is_judged() -> None:
    theirs = {"urlPrefix": "https://10.0.0.9", "filterVerb": "x"}
    ours = GOOD | {"tlsConfig": {**TLS, "serverName": "pvc-prebinder-extender.svc"}, "weight": 0}
    assert [check.subject for check in complaints(file(theirs, ours))] == ["extenders[1].weight"]


def test_a_profile_overrides_the_file() -> None:
    profiles = [{"schedulerName": "a"}, {"schedulerName": "b", "percentageOfNodesToScore": 30}]
    (complaint,) = complaints(file(GOOD, profiles=profiles))
    assert (complaint.subject, complaint.state) == ("profiles[1].percentageOfNodesToScore", CheckState.NOTE)
    assert complaint.found == "30 for b"
    (complaint,) = complaints(file(GOOD, percentageOfNodesToScore=None))
    assert "mode prebind" in complaint.meaning


@pytest.mark.parametrize(
    ("text", "subject", "expected"),
    [
        pytest.param("a: [", "file", "invalid YAML", id="no-yaml"),
        pytest.param("", "file", "expected a mapping", id="empty"),
        pytest.param(
            "kind: Pod", "apiVersion", 'expected "kubescheduler.config.k8s.io/v1", found nothing', id="another-kind"
        ),
        pytest.param(file(), "extenders", "none", id="no-extender"),
        pytest.param(
            file(GOOD | {"filterverb": "x"}),
            "extenders[0].filterverb",
            'unknown key; did you mean "filterVerb"?',
            id="unknown-key",
        ),
        pytest.param(file(GOOD | {"weight": "5"}), "extenders[0].weight", "expected a whole number", id="type"),
    ],
)
def test_what_cannot_be_checked_is_reported(text: str, subject: str, expected: str) -> None:
    complaint = complaints(text)[0]
    assert (complaint.subject, complaint.state) == (subject, CheckState.PROBLEM)
    assert expected in complaint.found


def test_the_documented_file_is_as_it_should_be() -> None:
    page = (Path(__file__).parents[3] / "docs" / "extender.md").read_text()
    (example,) = re.findall(r"^```yaml\n(apiVersion: kubescheduler.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert [check for check in scheduler_file_checks(example) if check.state is not CheckState.OK] == []


def test_the_command_reports_a_problem_and_needs_no_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(file(GOOD))
    assert main(["doctor", f"--scheduler-config={config}"]) == 0
    config.write_text(file(GOOD | {"preemptVerb": None}))
    assert main(["doctor", f"--scheduler-config={config}"]) == 3
    assert "extenders[0].preemptVerb" in capsys.readouterr().out
    assert main(["doctor", f"--scheduler-config={tmp_path}/none"]) == 1
    assert "none: No such file" in capsys.readouterr().err
