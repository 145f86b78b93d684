"""The Helm chart installs what kustomize installs: its templates are made from the same files."""

import json
import os
import subprocess
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.build.modules import control_plane
from tests.generators import generator
from tests.manifests.tools import HELM, MANIFESTS, Document, binary, by_name, overlay_of_base

CHART = MANIFESTS / "chart"
SYSTEM = "pvc-prebinder-system"
BY_LABEL = "app.kubernetes.io/managed-by"
needs_helm = pytest.mark.skipif(
    not os.environ.get("MANIFESTS_CHECK"), reason="`make manifests-check` runs it: it builds Helm, which takes minutes"
)


COMPONENTS: Mapping[str, str] = generator(CHART / "generate.py").COMPONENTS


@dataclass(frozen=True, slots=True)
class Helm:
    """Helm of one version."""

    name: str

    def run(self, *arguments: str | Path, fails: bool = False) -> str:
        command = [binary(HELM[self.name], self.name), *arguments]
        ended = subprocess.run(command, capture_output=True, check=False, text=True)
        assert (ended.returncode != 0) is fails, ended.stderr
        return ended.stderr if fails else ended.stdout

    def template(self, *flags: str, namespace: str = SYSTEM) -> list[Document]:
        text = self.run("template", "release", CHART, "--namespace", namespace, "--kube-version", "1.36", *flags)
        return [document for document in yaml.safe_load_all(text) if document]


@pytest.fixture(params=HELM)
def helm(request: pytest.FixtureRequest) -> Helm:
    return Helm(request.param)


def comparable(documents: list[Document]) -> dict[tuple[str, str, str], Any]:
    """Leave out what differs by design: the namespace, who manages, and how a new configuration restarts the pods."""
    kept: list[Document] = []
    for document in deepcopy(documents):
        if document["kind"] == "Namespace":
            continue
        document["metadata"]["labels"].pop(BY_LABEL)
        if document["kind"] == "ConfigMap" and document["metadata"]["name"].startswith("pvc-prebinder-config"):
            document["metadata"]["name"] = "pvc-prebinder-config"
            document["data"] = yaml.safe_load(document["data"]["config.yaml"])
        if document["kind"] == "Deployment":
            metadata, pod = document["spec"]["template"]["metadata"], document["spec"]["template"]["spec"]
            metadata["labels"].pop(BY_LABEL)
            metadata.pop("annotations", None)
            for volume in pod["volumes"]:
                if volume.get("configMap", {}).get("name", "").startswith("pvc-prebinder-config"):
                    volume["configMap"]["name"] = "pvc-prebinder-config"
        kept.append(document)
    return dict(by_name(kept))


def test_the_templates_are_those_that_the_manifests_make() -> None:
    """`python manifests/chart/generate.py` writes them again."""
    made = generator(CHART / "generate.py").templates([binary(control_plane(), "kubectl"), "kustomize"])
    for name, text in made.items():
        assert (CHART / "templates" / name).read_text() == text, name
    by_hand = {"_helpers.tpl", "config.yaml", "NOTES.txt"}
    assert {path.name for path in (CHART / "templates").iterdir()} == made.keys() | by_hand


def test_there_is_one_switch_for_each_component_and_all_are_off() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert {key: values[key] for key in COMPONENTS} == {key: {"enabled": False} for key in COMPONENTS}
    assert schema["properties"].keys() == values.keys() | {"global"}
    directories = {path.name for path in (MANIFESTS / "components").iterdir()}
    # The agent is added to somebody else's Deployment, and the priority is a value.
    assert set(COMPONENTS.values()) == directories - {"csi-agent", "csi-agent-limits", "cluster-critical"}
    assert values["config"] == yaml.safe_load((MANIFESTS / "base" / "config.yaml").read_text())


@needs_helm
def test_the_defaults_install_what_the_base_does(helm: Helm) -> None:
    assert comparable(helm.template()) == comparable(overlay_of_base())


@needs_helm
@pytest.mark.parametrize("key", COMPONENTS)
def test_a_switch_adds_what_its_component_does(helm: Helm, key: str) -> None:
    switches, components = {key}, [COMPONENTS[key]]
    if key == "extenderCertManager":
        switches, components = switches | {"extender"}, ["extender", *components]
    flags = [flag for name in sorted(switches) for flag in ("--set", f"{name}.enabled=true")]
    assert comparable(helm.template(*flags)) == comparable(overlay_of_base(components))


@needs_helm
def test_another_namespace_image_and_priority_are_used_everywhere(helm: Helm) -> None:
    everything = [flag for key in COMPONENTS for flag in ("--set", f"{key}.enabled=true")]
    documents = helm.template(
        *everything,
        "--set",
        f"image.repository=registry.example.com/ours,image.digest=sha256:{'0' * 64},priorityClassName=high",
        namespace="elsewhere",
    )
    text = yaml.safe_dump_all(documents)
    assert SYSTEM not in text
    images = [line for line in text.splitlines() if " image: " in line]
    assert {line.split("image: ")[1] for line in images} == {f"registry.example.com/ours@sha256:{'0' * 64}"}
    (controller,) = (
        deployment
        for deployment in documents
        if deployment["kind"] == "Deployment" and deployment["metadata"]["name"] == "pvc-prebinder"
    )
    assert controller["spec"]["template"]["spec"]["priorityClassName"] == "high"


@needs_helm
def test_a_value_that_there_is_not_is_refused_by_its_name(helm: Helm) -> None:
    refused = helm.run(
        "template", "release", CHART, "--kube-version", "1.36", "--set", "complte.enabled=true", fails=True
    )
    assert "complte" in refused


@needs_helm
def test_helm_has_nothing_to_complain_about(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm.run("lint", CHART)
