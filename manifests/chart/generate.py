"""Generates the templates of the Helm chart from manifests/base and its components, so that both install the same.

`python manifests/chart/generate.py` writes them, and into the schema of the values those of the configuration files; a
test fails if they are outdated.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent
from typing import Any, Final

import yaml

from prebinder.config.config_file import CONTROLLER
from scheduler.framework.config import FILE as SCHEDULER

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
_CONDITIONS: Final = {"accountLimits": 'include "pvc-prebinder.accountLimits" .'}
"""What decides about a component if it is not its key alone."""

_NAMESPACE: Final = "pvc-prebinder-system"
_REPLACED: Final = {
    _NAMESPACE: "{{ .Release.Namespace }}",
    "app.kubernetes.io/managed-by: kustomize": "app.kubernetes.io/managed-by: {{ .Release.Service }}",
    "image: pvc-prebinder:0.1.0": 'image: {{ include "pvc-prebinder.image" . }}',
    "scheduler.cloud.example/": '{{ include "pvc-prebinder.annotationPrefix" . }}',
}
_VALUES: Final[Mapping[str, str]] = {
    "controller": ".Values",
    **{name: f".Values.{name}" for name in ("extender", "scheduler", "view")},
}
"""The component of a Deployment -> where values.yaml has its resources, and its replicas if it may have several."""
_PLACEMENT: Final = ("imagePullSecrets", "nodeSelector", "tolerations", "affinity")
_SCHEDULER_CONFIG: Final = "pvc-prebinder-scheduler-config"
_EXTENDER_SERVICE: Final = ("Service", "pvc-prebinder-extender")


def templates(kustomize: Sequence[str | Path]) -> dict[str, str]:
    """Return the templates by file name. `kustomize` is the command that builds a directory."""
    base = _built(kustomize, ())
    made = {"controller.yaml": _controller(base, _built(kustomize, (), resource="overlays/try"))}
    known = {_key(document) for document in base}
    for key, directory in COMPONENTS.items():
        needed = ("extender", directory) if directory.startswith("extender-") else (directory,)
        before = known | {_key(document) for document in _built(kustomize, needed[:-1])}
        added = [document for document in _built(kustomize, needed) if _key(document) not in before]
        condition = f"{{{{- if {_CONDITIONS.get(key, f'.Values.{key}.enabled')} }}}}\n"
        text = _text(added)
        if key == "alerts":
            labels = (
                "  labels:\n    {{- with .Values.alerts.labels }}\n    {{- toYaml . | nindent 4 }}\n    {{- end }}\n"
            )
            text = text.replace("  labels:\n    app.", f"{labels}    app.")
        made[f"{directory}.yaml"] = condition + text + "{{- end }}\n"
    return made


def schema() -> str:
    """Return the schema of the values: written by hand, and of the configuration files as the programs read them."""
    made = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    controller, scheduler = dict(CONTROLLER.schema()), dict(SCHEDULER.schema())
    made["$defs"] = controller.pop("$defs") | scheduler.pop("$defs")
    for file in (controller, scheduler):
        del file["$schema"]
    made["properties"]["config"] = controller
    made["properties"]["scheduler"]["properties"]["config"] = scheduler
    return json.dumps(made, indent=2) + "\n"


def _controller(base: Sequence[Document], dry_run: Sequence[Document]) -> str:
    """Return the base without its configuration, which is a value; a change of that replaces the pods.

    With the value `dryRun` it is what the overlay for a trial makes of the base, which is `dry_run`.
    """
    kept = [document for document in base if document["kind"] not in {"Namespace", "ConfigMap"}]
    (hashed,) = (document["metadata"]["name"] for document in base if document["kind"] == "ConfigMap")
    tried = {_key(document): document for document in dry_run}
    text = "".join(_unless_tried(document, tried.get(_key(document))) for document in kept)
    text = text.replace(hashed, "pvc-prebinder-config")
    annotations = (
        "      annotations:\n        checksum/config: {{ toYaml .Values.config | sha256sum }}\n      labels:\n"
    )
    return text.replace("      labels:\n", annotations, 1)


def _unless_tried(document: Document, tried: Document | None) -> str:
    """Return the template of a document, and of what replaces it in a dry run; None if nothing does."""
    text = _text([document])
    if tried is None:
        return f"{{{{- if not .Values.dryRun }}}}\n{text}{{{{- end }}}}\n"
    # Values decide what a Deployment says, this one among them.
    if document == tried or document["kind"] == "Deployment":
        return text
    return f"{{{{- if .Values.dryRun }}}}\n{_text([tried])}{{{{- else }}}}\n{text}{{{{- end }}}}\n"


def _deployment(document: Document, text: str) -> str:
    """Return a Deployment with what values.yaml decides: replicas, resources, where and with which rights pods run."""
    component = document["metadata"]["labels"]["app.kubernetes.io/component"]
    values, pod = _VALUES[component], document["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    account = f"      serviceAccountName: {pod['serviceAccountName']}\n"
    # No pod waits for the view.
    keys = _PLACEMENT if component == "view" else ("priorityClassName", *_PLACEMENT)
    security, resources = (
        _indented({"securityContext": pod["securityContext"]}, 6),
        _indented(container["resources"], 10),
    )
    replaced = {
        account: account + "".join(map(_optional, keys)),
        security: "      securityContext:\n        {{- toYaml .Values.podSecurityContext | nindent 8 }}\n",
        f"        resources:\n{resources}": f"        resources:\n          {{{{- with {values}.resources }}}}\n"
        f"          {{{{- toYaml . | nindent 10 }}}}\n          {{{{- else }}}}\n{resources}          {{{{- end }}}}\n",
    }
    if component != "view":
        replaced["  replicas: 2\n"] = f"  replicas: {{{{ {values}.replicas }}}}\n"
    if component == "controller":
        replaced["  replicas: 2\n"] = "  replicas: {{ ternary 1 .Values.replicas .Values.dryRun }}\n"
        config = "        - --config=/etc/pvc-prebinder/config.yaml\n"
        replaced[config] = (
            f"{config}        {{{{- if .Values.dryRun }}}}\n        - --dry-run\n        {{{{- end }}}}\n"
        )
    if component != "controller":
        command = f"        - {component}\n" if component != "view" else "        - --serve\n"
        prefix = "        - --annotation-prefix={{ . }}\n"
        replaced[command] = f"{command}        {{{{- with (.Values.config.binding).annotationPrefix }}}}\n{prefix}"
        replaced[command] += "        {{- end }}\n"
    for original, put in replaced.items():
        if text.count(original) != 1:
            raise ValueError(f"{component}: expected once: {original}")
        text = text.replace(original, put)
    return text


def _optional(key: str) -> str:
    value = " {{ . }}" if key == "priorityClassName" else "\n        {{- toYaml . | nindent 8 }}"
    return f"      {{{{- with .Values.{key} }}}}\n      {key}:{value}\n      {{{{- end }}}}\n"


def _indented(value: object, spaces: int) -> str:
    return indent(_yaml(value), " " * spaces)


def _built(kustomize: Sequence[str | Path], components: Sequence[str], *, resource: str = "base") -> list[Document]:
    with TemporaryDirectory() as temporary:
        manifests = os.path.relpath(MANIFESTS.resolve(), Path(temporary).resolve())
        kustomization = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [f"{manifests}/{resource}"],
            "components": [f"{manifests}/components/{name}" for name in components],
        }
        (Path(temporary) / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        built = subprocess.run([*kustomize, temporary], capture_output=True, check=True, text=True)
    return list(yaml.safe_load_all(built.stdout))


def _key(document: Document) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


def _text(documents: Sequence[Document]) -> str:
    return "".join(f"---\n{_template(document)}" for document in documents)


def _template(document: Document) -> str:
    if document["metadata"]["name"] == _SCHEDULER_CONFIG and document["kind"] == "ConfigMap":
        content = "    {{- toYaml .Values.scheduler.config | nindent 4 }}\n"
        text = _yaml(document | {"data": {}}).replace("data: {}\n", f"data:\n  config.yaml: |\n{content}")
    else:
        # What Prometheus expands when an alert fires must not be expanded by Helm.
        text = _yaml(document).replace("{{", '{{ "{{" }}')
    text = _deployment(document, text) if document["kind"] == "Deployment" else text
    if _key(document) == _EXTENDER_SERVICE:
        address = "  {{- with .Values.extender.clusterIP }}\n  clusterIP: {{ . }}\n  {{- end }}\n"
        text = text.replace("spec:\n", f"spec:\n{address}", 1)
    for original, put in _REPLACED.items():
        text = text.replace(original, put)
    return text


def _yaml(value: object) -> str:
    return yaml.safe_dump(value, sort_keys=False, width=1000)


if __name__ == "__main__":
    command = sys.argv[1:] or ["kubectl", "kustomize"]
    for name, text in templates(command).items():
        (CHART / "templates" / name).write_text(text, encoding="utf-8")
    (CHART / "values.schema.json").write_text(schema(), encoding="utf-8")
