"""The chart as Helm renders it, of every version that is supported."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import yaml

from manifests.chart_generator.templates import COMPONENTS
from tests.manifests.tools import HELM, MANIFESTS, Document, binary

CHART: Final = MANIFESTS / "chart"
SYSTEM: Final = "pvc-prebinder-system"
needs_helm = pytest.mark.skipif(
    not os.environ.get("MANIFESTS_CHECK"), reason="`make manifests-check` runs it: it builds Helm, which takes minutes"
)
_QUOTED: Final = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: notes
data:
  notes: {{ include "notes" . | quote }}
"""
EVERYTHING: Final = tuple(flag for key in COMPONENTS for flag in ("--set", f"{key}.enabled=true"))


@dataclass(frozen=True, slots=True)
class Helm:
    """Helm of one version."""

    name: str

    def run(self, *arguments: str | Path, fails: bool = False) -> str:
        command = [binary(HELM[self.name], self.name), *arguments]
        ended = subprocess.run(command, capture_output=True, check=False, text=True)
        assert (ended.returncode != 0) is fails, ended.stderr
        return ended.stderr if fails else ended.stdout

    def template(self, *flags: str, namespace: str = SYSTEM, kubernetes: str = "1.36") -> list[Document]:
        version = ("--kube-version", kubernetes)
        text = self.run("template", "release", CHART, "--namespace", namespace, *version, *flags)
        return [document for document in yaml.safe_load_all(text) if document]


def notes(helm: Helm, directory: Path, *flags: str, kubernetes: str = "1.36") -> str:
    """Return what `helm install` prints: `helm template` leaves it out, and a dry run wants a cluster for a version."""
    chart = directory / "pvc-prebinder"
    shutil.copytree(CHART, chart)
    text = (chart / "templates" / "NOTES.txt").read_text()
    (chart / "templates" / "notes.yaml").write_text(f'{{{{- define "notes" -}}}}{text}{{{{- end -}}}}\n' + _QUOTED)
    rendered = helm.run("template", "release", chart, "--kube-version", kubernetes, *flags)
    documents = [each for each in yaml.safe_load_all(rendered) if each]
    (printed,) = (each["data"]["notes"] for each in documents if each["metadata"]["name"] == "notes")
    return str(printed)


def pods_of(documents: list[Document]) -> dict[str, Document]:
    """Return the pods' specs by component."""
    pods = [document["spec"]["template"] for document in documents if document["kind"] == "Deployment"]
    return {pod["metadata"]["labels"]["app.kubernetes.io/component"]: pod["spec"] for pod in pods}
