"""The templates of the chart of pvc-prebinder, by file name."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import yaml

from manifests.chart_generator import csi_agents
from manifests.chart_generator.documents import (
    Command,
    Document,
    built,
    condition,
    dump,
    indented,
    key,
    labelled,
    replaced_once,
)
from manifests.chart_generator.names import NAMESPACE, expanded, marked
from manifests.chart_generator.workloads import existence, workload_text

COMPONENTS: Final[Mapping[str, str]] = {
    "complete": "complete",
    "holds": "holds",
    "schedulingGate": "scheduling-gate",
    "karpenter": "karpenter",
    "snapshots": "snapshots",
    "gatePolicy": "gate-policy",
    "accountLimits": "account-limits",
    "extender": "extender",
    "extenderCertManager": "extender-cert-manager",
    "secondKubeScheduler": "second-kube-scheduler",
    "scheduler": "scheduler",
    "alerts": "alerts",
    "dashboard": "dashboard",
    "view": "view",
}
"""The key in values.yaml that turns a component on -> its directory."""
_CONDITIONS: Final = {"accountLimits": 'include "pvc-prebinder.accountLimits" .'}
"""What decides about a component if it is not its key alone."""
_REPLACED: Final = {
    NAMESPACE: "{{ .Release.Namespace }}",
    "scheduler.cloud.example/": '{{ include "pvc-prebinder.annotationPrefix" . }}',
    "_url: docs/": "_url: {{ .Values.alerts.runbookBaseURL }}/",
    '"query": "docs"': '"query": {{ .Values.alerts.runbookBaseURL | quote }}',
}
_SCHEDULER_CONFIG: Final = "FULLNAME-scheduler-config"
_KUBE_SCHEDULER_CONFIG: Final = "FULLNAME-kube-scheduler-config"
_PROFILES: Final = "    {{- toYaml .Values.secondKubeScheduler.profiles | nindent 4 }}\n"
_HASH: Final = re.compile(r"-[bcdfghkmt2456789]{10}$")
"""What kustomize adds to the name of a ConfigMap by its content; with Helm an annotation replaces the pods."""
_EXTENDER_SERVICE: Final = ("Service", "FULLNAME-extender")
_ALERT_LABELS: Final = (
    "  labels:\n    {{- with .Values.alerts.labels }}\n    {{- toYaml . | nindent 4 }}\n    {{- end }}\n"
)


def templates(kustomize: Command) -> dict[str, str]:
    """Return the templates by file name. `kustomize` is the command that builds a directory."""
    base = built(kustomize, ())
    made = {
        "controller.yaml": _controller(base, built(kustomize, (), resource="overlays/try")),
        "csi-agents.yaml": csi_agents.rights(),
        "_csi-agents.tpl": csi_agents.container(),
    }
    known = {key(document) for document in base}
    for name, directory in COMPONENTS.items():
        needed = ("extender", directory) if directory.startswith("extender-") else (directory,)
        before = known | {key(document) for document in built(kustomize, needed[:-1])}
        added = [document for document in built(kustomize, needed) if key(document) not in before]
        text = _text(_unhashed(added))
        if name == "alerts":
            text = text.replace("  labels:\n    app.", f"{_ALERT_LABELS}    app.")
        made[f"{directory}.yaml"] = condition(_CONDITIONS.get(name, f".Values.{name}.enabled"), text)
    return made


def _controller(base: Sequence[Document], dry_run: Sequence[Document]) -> str:
    """Return the base without its configuration, which is a value; a change of that replaces the pods.

    With the value `dryRun` it is what the overlay for a trial makes of the base, which is `dry_run`.
    """
    kept = [document for document in base if document["kind"] not in {"Namespace", "ConfigMap"}]
    (hashed,) = (document["metadata"]["name"] for document in base if document["kind"] == "ConfigMap")
    tried = {key(document): document for document in dry_run}
    text = "".join(_unless_tried(document, tried.get(key(document))) for document in kept)
    return text.replace(hashed, expanded("FULLNAME-config"))


def _unless_tried(document: Document, tried: Document | None) -> str:
    """Return the template of a document, and of what replaces it in a dry run; None if nothing does."""
    text = _text([document])
    if tried is None:
        return condition("not .Values.dryRun", text)
    # Values decide what a Deployment says, this one among them.
    if document == tried or document["kind"] == "Deployment":
        return text
    return f"{{{{- if .Values.dryRun }}}}\n{_text([tried])}{{{{- else }}}}\n{text}{{{{- end }}}}\n"


def _text(documents: Sequence[Document]) -> str:
    return "".join(_template(document) for document in documents)


def _unhashed(documents: Sequence[Document]) -> list[Document]:
    """Return the objects with the names of ConfigMaps as they are in the files of kustomize."""
    text = dump(list(documents))
    for name in (document["metadata"]["name"] for document in documents if document["kind"] == "ConfigMap"):
        text = text.replace(name, _HASH.sub("", name))
    return list(yaml.safe_load(text))


def _kube_scheduler_config(document: Document) -> str:
    """Return the template of the file of the second kube-scheduler: names are this release's, profiles a value."""
    content = yaml.safe_load(document["data"]["config.yaml"])
    changes = {
        indented({"profiles": content["profiles"]}, 4): f"    profiles:\n{_PROFILES}",
        "pvc-prebinder-extender.": "FULLNAME-extender.",
    }
    text = replaced_once(indented(content, 4), changes, _KUBE_SCHEDULER_CONFIG)
    return dump(document | {"data": {}}).replace("data: {}\n", f"data:\n  config.yaml: |\n{text}")


def _template(original: Document) -> str:
    document = marked(original)
    if key(document) == ("ConfigMap", _KUBE_SCHEDULER_CONFIG):
        text = _kube_scheduler_config(document)
    elif document["metadata"]["name"] == _SCHEDULER_CONFIG and document["kind"] == "ConfigMap":
        content = "    {{- toYaml .Values.scheduler.config | nindent 4 }}\n"
        text = dump(document | {"data": {}}).replace("data: {}\n", f"data:\n  config.yaml: |\n{content}")
    else:
        # What Prometheus and Grafana expand must not be expanded by Helm.
        text = dump(document).replace("{{", '{{ "{{" }}')
    text = workload_text(document, text)
    if key(document) == _EXTENDER_SERVICE:
        address = "  {{- with .Values.extender.clusterIP }}\n  clusterIP: {{ . }}\n  {{- end }}\n"
        text = text.replace("spec:\n", f"spec:\n{address}", 1)
    for part, put in _REPLACED.items():
        text = text.replace(part, put)
    text = labelled(expanded(f"---\n{text}"))
    decides = existence(document)
    return text if decides is None else condition(decides, text)
