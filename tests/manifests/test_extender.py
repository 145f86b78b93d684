"""The extender's component: it only reads, runs restricted, and its parts name each other rightly."""

from pathlib import Path
from typing import Any

import yaml

from prebinder.command_line.flags import settings_from
from prebinder.commands.run.extender import EXTENDER_FLAGS
from prebinder.config.settings import Settings, parse_address
from scheduler.extender.extender import KINDS

DIRECTORY = Path(__file__).parents[2] / "manifests" / "components" / "extender"
NAME = "pvc-prebinder-extender"


def only(kind: str) -> dict[str, Any]:
    documents = [document for file in DIRECTORY.glob("*.yaml") for document in yaml.safe_load_all(file.read_text())]
    (selected,) = (document for document in documents if document["kind"] == kind)
    return selected  # type: ignore[no-any-return]


def pod() -> dict[str, Any]:
    return only("Deployment")["spec"]["template"]["spec"]  # type: ignore[no-any-return]


def container() -> dict[str, Any]:
    (single,) = pod()["containers"]
    return single  # type: ignore[no-any-return]


def settings() -> Settings:
    return settings_from(Settings(), EXTENDER_FLAGS, container()["args"][1:])


def test_it_may_read_what_it_watches_and_write_nothing() -> None:
    rules = only("ClusterRole")["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    granted = {(group, plural) for rule in rules for group in rule["apiGroups"] for plural in rule["resources"]}
    assert granted == {(resource.group, resource.plural) for resource in KINDS}


def test_the_binding_is_to_its_own_account() -> None:
    (subject,) = only("ClusterRoleBinding")["subjects"]
    assert subject["name"] == only("ServiceAccount")["metadata"]["name"] == pod()["serviceAccountName"] == NAME


def test_the_pod_meets_the_restricted_standard() -> None:
    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert pod()["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container()["securityContext"]["allowPrivilegeEscalation"] is False
    assert container()["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_its_arguments_are_valid_and_its_files_are_mounted() -> None:
    chosen = settings().extender
    (mount,) = (
        volume_mount["mountPath"] for volume_mount in container()["volumeMounts"] if volume_mount["name"] == "tls"
    )
    for file in (chosen.tls_cert_file, chosen.tls_key_file, chosen.client_ca_file):
        assert Path(file or "").parent == Path(mount)


def test_ports_are_those_it_serves() -> None:
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    serving = settings().serving
    addresses = {
        "extender": settings().extender.bind_address,
        "metrics": serving.metrics_bind_address,
        "health": serving.health_bind_address,
    }
    assert ports == {name: (parse_address(text) or ("", 0))[1] for name, text in addresses.items()}
    assert {port["targetPort"] for port in only("Service")["spec"]["ports"]} == {"extender", "metrics"}
    labels = only("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert only("Service")["spec"]["selector"].items() <= labels.items()


def test_the_certificate_that_is_copied_by_hand_lasts_a_year() -> None:
    """cert-manager renews a Secret, and not kube-scheduler's files: its default of 90 days would end unnoticed."""
    file = DIRECTORY.with_name("extender-cert-manager") / "certificates.yaml"
    specs = {document["metadata"]["name"]: document["spec"] for document in yaml.safe_load_all(file.read_text())}
    client = specs["pvc-prebinder-extender-client"]
    assert (client["duration"], client["renewBefore"]) == ("8760h", "2160h")
    page = (DIRECTORY.parents[2] / "docs" / "extender.md").read_text()
    assert "It is valid for a year, and the Secret has a new one three months before that" in page
