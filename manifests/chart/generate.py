"""Generates the templates of the Helm chart from manifests/base and its components, so that both install the same.

`python manifests/chart/generate.py` writes them; a test fails if they are outdated.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml

Document = dict[str, Any]

CHART: Final = Path(__file__).parent
MANIFESTS: Final = CHART.parent
COMPONENTS: Final[Mapping[str, str]] = {
    "complete": "complete",
    "schedulingGate": "scheduling-gate",
    "gatePolicy": "gate-policy",
    "accountLimits": "account-limits",
    "extender": "extender",
    "extenderCertManager": "extender-cert-manager",
    "scheduler": "scheduler",
    "alerts": "alerts",
    "dashboard": "dashboard",
    "view": "view",
}
"""The key in values.yaml that turns a component on -> its directory."""

_NAMESPACE: Final = "pvc-prebinder-system"
_REPLACED: Final = {
    _NAMESPACE: "{{ .Release.Namespace }}",
    "app.kubernetes.io/managed-by: kustomize": "app.kubernetes.io/managed-by: {{ .Release.Service }}",
    "image: pvc-prebinder:0.1.0": 'image: {{ include "pvc-prebinder.image" . }}',
}


def templates(kustomize: Sequence[str | Path]) -> dict[str, str]:
    """Return the templates by file name. `kustomize` is the command that builds a directory."""
    base = _built(kustomize, ())
    made = {"controller.yaml": _controller(base)}
    known = {_key(document) for document in base}
    for key, directory in COMPONENTS.items():
        needed = ("extender", directory) if directory.startswith("extender-") else (directory,)
        before = known | {_key(document) for document in _built(kustomize, needed[:-1])}
        added = [document for document in _built(kustomize, needed) if _key(document) not in before]
        condition = f"{{{{- if .Values.{key}.enabled }}}}\n"
        made[f"{directory}.yaml"] = condition + _text(added) + "{{- end }}\n"
    return made


def _controller(base: Sequence[Document]) -> str:
    """Return the base, with what values.yaml decides: replicas, configuration, and what is added to the pod."""
    kept = [document for document in base if document["kind"] not in {"Namespace", "ConfigMap"}]
    (hashed,) = (document["metadata"]["name"] for document in base if document["kind"] == "ConfigMap")
    text = _text(kept).replace(hashed, "pvc-prebinder-config")
    text = text.replace("  replicas: 2\n", "  replicas: {{ .Values.replicas }}\n", 1)
    annotations = (
        "      annotations:\n        checksum/config: {{ toYaml .Values.config | sha256sum }}\n      labels:\n"
    )
    text = text.replace("      labels:\n", annotations, 1)
    return text.replace(
        "      serviceAccountName: pvc-prebinder\n",
        "      serviceAccountName: pvc-prebinder\n"
        "      {{- with .Values.priorityClassName }}\n      priorityClassName: {{ . }}\n      {{- end }}\n",
        1,
    )


def _built(kustomize: Sequence[str | Path], components: Sequence[str]) -> list[Document]:
    with TemporaryDirectory(dir=MANIFESTS) as temporary:
        kustomization = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": ["../base"],
            "components": [f"../components/{name}" for name in components],
        }
        (Path(temporary) / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        built = subprocess.run([*kustomize, temporary], capture_output=True, check=True, text=True)
    return list(yaml.safe_load_all(built.stdout))


def _key(document: Document) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


def _text(documents: Sequence[Document]) -> str:
    # What Prometheus expands when an alert fires must not be expanded by Helm.
    text = yaml.safe_dump_all(documents, sort_keys=False, width=1000).replace("{{", '{{ "{{" }}')
    for original, put in _REPLACED.items():
        text = text.replace(original, put)
    return f"---\n{text}" if documents else ""


if __name__ == "__main__":
    command = sys.argv[1:] or ["kubectl", "kustomize"]
    for name, text in templates(command).items():
        (CHART / "templates" / name).write_text(text, encoding="utf-8")
