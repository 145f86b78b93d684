"""The value `csiAgents`: the same rights and the same container as the component for kustomize makes."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.manifests.chart.helm import CHART, Helm, needs_helm, notes
from tests.manifests.test_csi_agent import DRIVER, NAMESPACE, container, only
from tests.manifests.tools import HELM
from tests.scenarios.processes.agent import DRIVERS_ACCOUNT

KINDS = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
BY_HELM = {"app.kubernetes.io/managed-by", "app.kubernetes.io/instance", "helm.sh/chart"}


def flags(directory: Path) -> list[str]:
    """Return the flags for one agent, of the driver that the tests of the component have, in the chart's own image."""
    mount, environment = container()["volumeMounts"][0], {each["name"]: each["value"] for each in container()["env"]}
    agent = {
        "driver": DRIVER,
        "namespace": NAMESPACE,
        "serviceAccount": DRIVERS_ACCOUNT,
        "socketVolume": mount["name"],
        "socketFile": environment["CSI_SOCKET"],
    }
    file = directory / "values.yaml"
    file.write_text(yaml.safe_dump({"csiAgents": [agent]}))
    return ["--values", str(file)]


def without_manager(document: dict[str, Any]) -> dict[str, Any]:
    labels = {key: value for key, value in document["metadata"]["labels"].items() if key not in BY_HELM}
    return {**document, "metadata": {**document["metadata"], "labels": labels}}


@needs_helm
@pytest.mark.parametrize("version", HELM)
def test_an_agent_has_the_rights_that_the_component_grants(version: str, tmp_path: Path) -> None:
    added = [
        document
        for document in Helm(version).template(*flags(tmp_path))
        if document["metadata"].get("labels", {}).get("app.kubernetes.io/component") == "csi-agent"
    ]
    assert [document["kind"] for document in added] == list(KINDS)
    for document in added:
        assert without_manager(document) == without_manager(only(document["kind"]))


@needs_helm
@pytest.mark.parametrize("version", HELM)
def test_the_notes_have_the_container_that_the_component_adds(version: str, tmp_path: Path) -> None:
    printed = notes(Helm(version), tmp_path / "copy", *flags(tmp_path))
    block = printed[printed.index("- name: csi-agent") :].split("\n\n")[0]
    (agent,) = yaml.safe_load(block)
    assert {**agent, "image": ""} == {**container(), "image": ""}


@needs_helm
def test_an_agent_without_its_driver_is_rejected(tmp_path: Path) -> None:
    error = Helm("helm-4").run("template", "release", CHART, "--set", "csiAgents[0].driver=x", fails=True)
    assert "namespace" in error
