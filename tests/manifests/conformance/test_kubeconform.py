"""kubeconform: everything that is installed has the fields that the API server knows, and no others."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from devcluster.build.modules import Module
from devcluster.cluster import DevCluster
from manifests.chart_generator.templates import COMPONENTS as SWITCHES
from tests.manifests.chart.helm import Helm
from tests.manifests.conformance.schemas import LOCATION, file_name, write_schemas
from tests.manifests.test_rendering import OVERLAYS, agent, everything
from tests.manifests.tools import HELM, KUSTOMIZE_VERSIONS, MANIFESTS, Document, binary, built

KUBECONFORM = Module("kubeconform", {"kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform"})
OTHERS = ("Certificate", "Issuer", "PodMonitor", "PrometheusRule")
"""Kinds that cert-manager and the Prometheus Operator define; promtool reads the rules (test_alert_stories)."""
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "a"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "containers": [
                    {
                        "name": "a",
                        "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
                        "livenessProbe": {"httpGet": {"port": "health"}},
                        "readinessProbe": {"httpGet": {"port": 80}},
                    }
                ]
            },
        },
    },
}
needs_kubeconform = pytest.mark.skipif(
    not os.environ.get("MANIFESTS_CHECK"), reason="`make manifests-check` runs it: it builds kubeconform and Helm"
)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def schemas(cluster: DevCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The schemas of all kinds of the API server of this version."""
    directory = tmp_path_factory.mktemp("schemas")
    write_schemas(json.loads(await cluster.run_kubectl("get", "--raw", "/openapi/v2")), directory)
    return directory


def complaints(documents: Sequence[Document], schemas: Path) -> list[str]:
    """Return what kubeconform has to complain about, and assert that it looked at every document."""
    command: list[str | Path] = [
        binary(KUBECONFORM, "kubeconform"),
        *("-strict", "-output", "json", "-summary", "-schema-location", f"{schemas}/{LOCATION}"),
        *("-skip", ",".join(OTHERS)),
    ]
    ended = subprocess.run(command, input=yaml.safe_dump_all(documents), capture_output=True, check=False, text=True)
    report = json.loads(ended.stdout)
    summary = report["summary"]
    assert sum(summary.values()) == len(documents), ended.stderr
    assert summary["skipped"] == sum(document["kind"] in OTHERS for document in documents)
    return [f"{each['kind']} {each['name']}: {each['msg']}" for each in report.get("resources") or ()]


@needs_kubeconform
@pytest.mark.parametrize("version", KUSTOMIZE_VERSIONS)
@pytest.mark.parametrize("directory", ["base", "uninstall", *(f"overlays/{name}" for name in OVERLAYS)])
def test_what_kustomize_makes_conforms(schemas: Path, directory: str, version: str) -> None:
    """dist/install.yaml is `base`, as kustomize 5.0 makes it."""
    assert complaints(built(MANIFESTS / directory, version), schemas) == []


@needs_kubeconform
def test_all_components_conform(schemas: Path) -> None:
    assert complaints([*everything(), *agent()], schemas) == []


@needs_kubeconform
@pytest.mark.parametrize("name", HELM)
@pytest.mark.parametrize("switches", [(), tuple(SWITCHES)], ids=["defaults", "everything"])
def test_what_helm_makes_conforms(schemas: Path, name: str, switches: tuple[str, ...]) -> None:
    flags = [flag for key in switches for flag in ("--set", f"{key}.enabled=true")]
    assert complaints(Helm(name).template(*flags), schemas) == []


@needs_kubeconform
def test_a_misspelled_field_is_found(schemas: Path) -> None:
    assert complaints([DEPLOYMENT], schemas) == []
    misspelled = DEPLOYMENT | {"spec": DEPLOYMENT["spec"] | {"replica": 2}}  # type: ignore[operator]
    (complaint,) = complaints([misspelled], schemas)
    assert "replica" in complaint


def test_schemas_are_strict_complete_and_named_as_kubeconform_expects(tmp_path: Path) -> None:
    spec = {
        "type": "object",
        "properties": {"port": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.util.intstr.IntOrString"}},
    }
    kind = {"group": "networking.k8s.io", "version": "v1", "kind": "NetworkPolicy"}
    definitions = {
        "policy": {
            "properties": {
                "spec": {"$ref": "#/definitions/spec"},
                "labels": {"additionalProperties": {"type": "string"}},
            },
            "x-kubernetes-group-version-kind": [kind],
        },
        "spec": spec,
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": "string", "format": "int-or-string"},
        "unrelated": {"type": "object"},
    }
    write_schemas({"definitions": definitions}, tmp_path)
    (file,) = tmp_path.iterdir()
    assert file.name == "networkpolicy-networking-v1.json" == file_name(**kind)
    assert file_name("", "v1", "Service") == "service-v1.json"
    schema = json.loads(file.read_text())
    assert schema["definitions"].keys() == definitions.keys() - {"unrelated"}
    assert schema["definitions"]["policy"]["additionalProperties"] is False
    assert schema["definitions"]["spec"]["additionalProperties"] is False
    assert schema["definitions"]["policy"]["properties"]["labels"] == {"additionalProperties": {"type": "string"}}
    assert schema["definitions"]["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] == {"type": ["string", "integer"]}
