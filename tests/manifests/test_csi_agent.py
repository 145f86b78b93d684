"""What the component csi-agent makes of a driver's Deployment: the least rights, a container under `restricted`."""

import os
import re
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from devcluster.build import binaries
from devcluster.build.modules import control_plane
from prebinder.command_line.flags import settings_from
from prebinder.commands.run.csi_agent import AGENT_FLAGS, controller_settings
from prebinder.config.settings import AgentSettings, parse_address
from tests.manifests.test_base import documents, rights
from tests.scenarios.processes.agent import COMPONENT, DRIVERS_ACCOUNT, driver_documents, write_overlay

NAMESPACE, DRIVER = "storage", "disk-a.csi.example.com"
LEASE = f"pvc-prebinder-csi-agent-{DRIVER}"


def kustomize(directory: Path) -> subprocess.CompletedProcess[str]:
    kubectl = binaries.ensure([control_plane()])["kubectl"]
    return subprocess.run([kubectl, "kustomize", directory], capture_output=True, check=False, text=True)


@cache
def rendered() -> tuple[dict[str, Any], ...]:
    with TemporaryDirectory() as directory:
        overlay = Path(directory) / "overlay"
        write_overlay(overlay, NAMESPACE, DRIVER)
        built = kustomize(overlay)
    assert built.returncode == 0, built.stderr
    return tuple(yaml.safe_load_all(built.stdout))


def only(kind: str) -> dict[str, Any]:
    (selected,) = (document for document in rendered() if document["kind"] == kind)
    return selected


def container() -> dict[str, Any]:
    containers: list[dict[str, Any]] = pod()["containers"]
    (agent,) = (container for container in containers if container["name"] == "csi-agent")
    return agent


def pod() -> dict[str, Any]:
    spec: dict[str, Any] = only("Deployment")["spec"]["template"]["spec"]
    return spec


def test_the_agent_may_do_what_it_does_and_nothing_else() -> None:
    assert rights(only("ClusterRole")["rules"]) == {
        ("", "persistentvolumes"): {"get", "list", "watch", "patch"},
        ("events.k8s.io", "events"): {"create", "patch"},
    }
    create, rest = only("Role")["rules"]
    assert (create["verbs"], create["resources"]) == (["create"], ["leases"])
    assert (rest["resources"], rest["resourceNames"]) == (["leases"], [LEASE])
    assert set(rest["verbs"]) == {"get", "patch"}


def test_the_rights_go_to_the_drivers_service_account() -> None:
    for kind, role in (("ClusterRoleBinding", only("ClusterRole")), ("RoleBinding", only("Role"))):
        binding = only(kind)
        assert binding["metadata"]["name"] == LEASE
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == (role["kind"], role["metadata"]["name"])
        (subject,) = binding["subjects"]
        assert subject == {"kind": "ServiceAccount", "name": DRIVERS_ACCOUNT, "namespace": NAMESPACE}
    assert {only(kind)["metadata"]["namespace"] for kind in ("Role", "RoleBinding")} == {NAMESPACE}


def test_nothing_of_the_template_is_left_over_and_the_words_are_not_sent() -> None:
    assert not [
        document for document in rendered() if re.search(r"\b(DRIVER|SOCKET)\b", yaml.safe_dump(document["metadata"]))
    ]
    assert "DRIVER" not in {variable["value"] for variable in container()["env"]}
    assert "ConfigMap" not in {document["kind"] for document in rendered()}
    assert "ServiceAccount" not in {document["kind"] for document in rendered()}


def test_the_container_meets_the_restricted_standard() -> None:
    security = container()["securityContext"]
    assert security.pop("runAsUser") > 0
    assert security.pop("runAsGroup") > 0
    assert security == {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_the_arguments_are_understood_and_lead_to_the_socket_and_the_lease() -> None:
    words = {variable["name"]: variable["value"] for variable in container()["env"]}
    arguments = [re.sub(r"\$\((\w+)\)", lambda match: words[match[1]], argument) for argument in container()["args"]]
    settings = controller_settings(settings_from(AgentSettings(), AGENT_FLAGS, arguments[1:]))
    assert settings.leader_election.name == LEASE
    (endpoint,) = settings.health.endpoints
    (mount,) = container()["volumeMounts"]
    assert (endpoint.driver, endpoint.path) == (DRIVER, f"{mount['mountPath']}/driver.sock")
    assert mount["name"] in {volume["name"] for volume in pod()["volumes"]}
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert parse_address(settings.serving.metrics_bind_address) == ("", ports["agent-metrics"])
    assert parse_address(settings.serving.health_bind_address) == ("", ports["agent-health"])
    assert container()["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "agent-health"}


def test_the_driver_itself_is_left_as_it_is() -> None:
    (given,) = (document for document in driver_documents(NAMESPACE, DRIVER) if document["kind"] == "Deployment")
    mine = [container for container in pod()["containers"] if container["name"] != "csi-agent"]
    assert pod() | {"containers": mine} == given["spec"]["template"]["spec"]


@pytest.mark.parametrize("missing", ["serviceAccountName", "namespace"])
def test_a_deployment_that_does_not_say_enough_is_an_error(missing: str, tmp_path: Path) -> None:
    overlay = tmp_path / "overlay"
    write_overlay(overlay, NAMESPACE, DRIVER)
    file = overlay / "driver.yaml"
    file.write_text(re.sub(rf"\n *{missing}: .*", "", file.read_text(), count=1))
    built = kustomize(overlay)
    assert built.returncode != 0
    assert missing in built.stderr


def test_the_example_of_the_documentation_works(tmp_path: Path) -> None:
    text = (COMPONENT.parents[2] / "docs" / "csi-agent.md").read_text()
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    for name, block in re.findall(r"```yaml\n# (\S+)\n(.*?)```", text, re.DOTALL):
        path = os.path.relpath(COMPONENT, overlay.resolve())
        (overlay / name).write_text(block.replace("../pvc-prebinder/manifests/components/csi-agent", path))
    deployment, _ = driver_documents(NAMESPACE, "csi.example.com")
    (overlay / "driver.yaml").write_text(yaml.safe_dump(deployment))
    built = kustomize(overlay)
    assert built.returncode == 0, built.stderr
    assert "value: csi.example.com" in built.stdout
    assert "pvc-prebinder-csi-agent-csi.example.com" in built.stdout
    assert "image: registry.example.com/pvc-prebinder:0.1.0" in built.stdout


def test_the_image_is_the_controllers() -> None:
    (mine,) = next(document for document in documents("components/csi-agent") if document["kind"] == "Component")[
        "images"
    ]
    (base,) = next(document for document in documents() if document["kind"] == "Kustomization")["images"]
    assert mine == base
    assert COMPONENT.is_dir()
