"""What values decide about Deployments, and about the objects that come with each: budget, account, network policy."""

from typing import Any, Final

from manifests.chart_generator.documents import Document, indented, listed, replaced_once
from manifests.chart_generator.names import WORKLOADS

_PLACEMENT: Final = ("imagePullSecrets", "nodeSelector", "tolerations", "affinity")
_ARGUMENTS: Final = {
    "controller": "        - --config=/etc/pvc-prebinder/config.yaml\n",
    "extender": "        - extender\n",
    "scheduler": "        - scheduler\n",
    "view": "        - --serve\n",
    "kube-scheduler": "        - --config=/etc/kubernetes/config/config.yaml\n",
}
"""The argument of a component after which those that a value adds are put."""
_IMAGES: Final = {"kube-scheduler": "pvc-prebinder.kubeSchedulerImage"}
"""The component whose image is not ours -> the expression for it."""
_PREFIX: Final = (
    "        {{- with (.Values.config.binding).annotationPrefix }}\n"
    "        - --annotation-prefix={{ . }}\n"
    "        {{- end }}\n"
)
_PRIORITY: Final = "      {{- with .Values.priorityClassName }}\n      priorityClassName: {{ . }}\n      {{- end }}\n"
_DRY_RUN: Final = "        {{- if .Values.dryRun }}\n        - --dry-run\n        {{- end }}\n"
_CHECKSUMS: Final = {
    "controller": "        checksum/config: {{ toYaml .Values.config | sha256sum }}\n",
    "kube-scheduler": "        checksum/config: {{ toYaml .Values.secondKubeScheduler | sha256sum }}\n",
}
"""The components that read their configuration once: another one replaces the pods."""
_LABELS: Final = "    metadata:\n      labels:\n"
_EGRESS: Final = '  {{- with include "pvc-prebinder.egress" . }}\n  {{- . | nindent 2 }}\n%s  {{- end }}\n'
_TO_EXTENDER: Final = """\
  - ports:
    - port: 8443
    to:
    - podSelector:
        matchLabels:
          app.kubernetes.io/component: extender
          app.kubernetes.io/name: pvc-prebinder
"""


def workload_text(document: Document, text: str) -> str:
    """Return the template of an object with what values decide about its kind."""
    match document["kind"]:
        case "Deployment":
            return _deployment(document, text)
        case "PodDisruptionBudget":
            return _budget(document, text)
        case "ServiceAccount":
            return _account(document, text)
        case "NetworkPolicy":
            types = "  policyTypes:\n  - Ingress\n"
            egress = _EGRESS % (_TO_EXTENDER if _component(document) == "kube-scheduler" else "")
            return replaced_once(text, {types: types + egress}, document["metadata"]["name"])
    return text


def existence(document: Document) -> str | None:
    """Return the expression that decides whether such an object exists, beside that of its component."""
    values = WORKLOADS.get(_component(document), "")
    match document["kind"]:
        case "PodDisruptionBudget":
            return f"{values}.podDisruptionBudget.enabled"
        case "ServiceAccount" if values:
            return f"{values}.serviceAccount.create"
        case "NetworkPolicy":
            return ".Values.networkPolicy.enabled"
    return None


def _component(document: Document) -> str:
    return str(document["metadata"]["labels"]["app.kubernetes.io/component"])


def _deployment(document: Document, text: str) -> str:
    component = _component(document)
    values, pod = WORKLOADS[component], document["spec"]["template"]["spec"]
    changes = _metadata(component, values, document) | _container(component, values, pod) | _pod(component, values, pod)
    return replaced_once(text, changes, component)


def _metadata(component: str, values: str, document: Document) -> dict[str, str]:
    """Return the changes of replicas, strategy, annotations and labels."""
    replicas = f"  replicas: {document['spec']['replicas']}\n"
    put = {
        "controller": "  replicas: {{ ternary 1 .Values.replicas .Values.dryRun }}\n",
        "view": replicas,
    }.get(component, f"  replicas: {{{{ {values}.replicas }}}}\n")
    checksum = _CHECKSUMS.get(component, "")
    annotations = f"      annotations:\n{checksum}{listed('.Values.podAnnotations', 8)}"
    if not checksum:
        annotations = listed(".Values.podAnnotations", 6, key="annotations")
    labels = f"    metadata:\n{annotations}      labels:\n{listed('.Values.podLabels', 8)}"
    return {
        replicas: put + listed(f"{values}.strategy", 2, key="strategy"),
        _LABELS: labels,
    }


def _container(component: str, values: str, pod: Document) -> dict[str, str]:
    """Return the changes of the arguments, environment, resources and mounts."""
    (container,) = pod["containers"]
    resources = indented(container["resources"], 10)
    arguments, last = _ARGUMENTS[component], f"        - {container['args'][-1]}\n"
    after = {"controller": _DRY_RUN, "kube-scheduler": ""}.get(component, _PREFIX)
    added = {arguments: arguments + after}
    added[last] = added.get(last, last) + listed(f"{values}.extraArgs", 8)
    image = f'        image: {{{{ include "{_IMAGES.get(component, "pvc-prebinder.image")}" . }}}}\n'
    policy = "        {{- with .Values.image.pullPolicy }}\n        imagePullPolicy: {{ . }}\n        {{- end }}\n"
    mounts = indented(container["volumeMounts"], 8)
    return added | {
        f"        image: {container['image']}\n": listed(".Values.extraEnv", 8, key="env") + image + policy,
        f"        resources:\n{resources}": f"        resources:\n          {{{{- with {values}.resources }}}}\n"
        f"          {{{{- toYaml . | nindent 10 }}}}\n          {{{{- else }}}}\n{resources}          {{{{- end }}}}\n",
        mounts: mounts + listed(f"{values}.extraVolumeMounts", 8),
    }


def _pod(component: str, values: str, pod: Document) -> dict[str, str]:
    """Return the changes of the rights, the place and the volumes."""
    account = f"      serviceAccountName: {pod['serviceAccountName']}\n"
    security = indented({"securityContext": pod["securityContext"]}, 6)
    volumes = f"      volumes:\n{indented(pod['volumes'], 6)}"
    # No pod waits for the view.
    priority = "" if component == "view" else _PRIORITY
    changes = {
        account: account + priority + "".join(listed(f".Values.{key}", 6, key=key) for key in _PLACEMENT),
        security: "      securityContext:\n        {{- toYaml .Values.podSecurityContext | nindent 8 }}\n",
        volumes: volumes + listed(f"{values}.extraVolumes", 6),
    }
    spread = pod.get("topologySpreadConstraints")
    if spread:
        default = indented(spread, 6)
        changes[f"      topologySpreadConstraints:\n{default}"] = (
            f"      topologySpreadConstraints:\n      {{{{- with {values}.topologySpreadConstraints }}}}\n"
            f"        {{{{- toYaml . | nindent 8 }}}}\n      {{{{- else }}}}\n{default}      {{{{- end }}}}\n"
        )
    return changes


def _budget(document: Document, text: str) -> str:
    values = WORKLOADS[_component(document)]
    number: Any = document["spec"]["maxUnavailable"]
    budget = f"{values}.podDisruptionBudget"
    put = (
        f'  {{{{- if eq (toString {budget}.minAvailable) "" }}}}\n'
        f"  maxUnavailable: {{{{ {budget}.maxUnavailable }}}}\n  {{{{- else }}}}\n"
        f"  minAvailable: {{{{ {budget}.minAvailable }}}}\n  {{{{- end }}}}\n"
    )
    return replaced_once(text, {f"  maxUnavailable: {number}\n": put}, document["metadata"]["name"])


def _account(document: Document, text: str) -> str:
    values = WORKLOADS[_component(document)]
    annotations = listed(f"{values}.serviceAccount.annotations", 2, key="annotations")
    return replaced_once(text, {"metadata:\n": "metadata:\n" + annotations}, document["metadata"]["name"])
