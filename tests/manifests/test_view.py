"""The page's component: no rights, no token, nothing that listens but on loopback."""

from pathlib import Path
from typing import Any

import yaml

from kube.client.connect import SERVICE_ACCOUNT
from prebinder.commands.why.why import command

DIRECTORY = Path(__file__).parents[2] / "manifests" / "components" / "view"


def documents() -> list[dict[str, Any]]:
    return [each for file in sorted(DIRECTORY.glob("*.yaml")) for each in yaml.safe_load_all(file.read_text())]


def pod() -> dict[str, Any]:
    (deployment,) = (each for each in documents() if each["kind"] == "Deployment")
    return deployment["spec"]["template"]["spec"]  # type: ignore[no-any-return]


def container() -> dict[str, Any]:
    (only,) = pod()["containers"]
    return only  # type: ignore[no-any-return]


def test_it_has_no_rights_and_no_token() -> None:
    kinds = {each["kind"] for each in documents()}
    assert kinds == {"Component", "ServiceAccount", "Deployment", "NetworkPolicy"}
    (account,) = (each for each in documents() if each["kind"] == "ServiceAccount")
    assert account["automountServiceAccountToken"] is pod()["automountServiceAccountToken"] is False
    assert all(set(volume) <= {"name", "configMap", "emptyDir"} for volume in pod()["volumes"])


def test_it_answers_by_the_callers_token_and_finds_the_authority() -> None:
    context = command.make_context("why", list(container()["args"][1:]))
    assert context.params["serving"] is context.params["caller_token"] is True
    mounts = {mount["name"]: mount["mountPath"] for mount in container()["volumeMounts"]}
    assert mounts["kube-root-ca"] == str(SERVICE_ACCOUNT)


def test_the_pod_meets_the_restricted_standard() -> None:
    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert pod()["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container()["securityContext"]["allowPrivilegeEscalation"] is False
    assert container()["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container()["securityContext"]["readOnlyRootFilesystem"] is True


def test_nothing_but_its_probes_is_on_the_network() -> None:
    assert [port["name"] for port in container()["ports"]] == ["health"]
    (policy,) = (each for each in documents() if each["kind"] == "NetworkPolicy")
    assert policy["spec"]["ingress"] == []
