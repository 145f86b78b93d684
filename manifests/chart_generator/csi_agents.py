"""The agents beside CSI drivers: the rights of each, and its container, which belongs into the driver's own pod.

No chart can add a container to the Deployment of another one; the notes print it for the driver's values.
"""

from typing import Final

import yaml

from manifests.chart_generator.documents import MANIFESTS, Document, condition, dump, labelled
from manifests.chart_generator.names import expanded, marked

_COMPONENT: Final = MANIFESTS / "components" / "csi-agent"
_RIGHTS: Final = {
    "pvc-prebinder-csi-agent-DRIVER": "pvc-prebinder-csi-agent-{{ lower .driver }}",
    "name: DRIVER": "name: {{ .serviceAccount }}",
    "namespace: DRIVER": "namespace: {{ .namespace }}",
}
"""What stands in the component's files for what kustomize replaces -> the expression within the list of agents."""
_CONTAINER: Final = {
    "value: DRIVER": "value: {{ .driver }}",
    "value: SOCKET": "value: {{ .socketFile }}",
    "name: SOCKET": "name: {{ .socketVolume }}",
    "image: pvc-prebinder\n": 'image: {{ include "pvc-prebinder.image" $ }}\n',
    "- --log-format=json\n": "- --log-format=json\n"
    "  {{- with ($.Values.config.binding).annotationPrefix }}\n  - --annotation-prefix={{ . }}\n  {{- end }}\n",
}


def rights() -> str:
    """Return the template of the objects: one ClusterRole, and for each agent its bindings and its Lease's role."""
    files = [(_COMPONENT / name).read_text(encoding="utf-8") for name in ("cluster_role.yaml", "lease_role.yaml")]
    documents = [document for text in files for document in yaml.safe_load_all(text)]
    (shared,) = (document for document in documents if document["kind"] == "ClusterRole")
    own = "".join(_of_an_agent(document) for document in documents if document is not shared)
    text = (
        condition(".Values.csiAgents", _object(shared)) + f"{{{{- range .Values.csiAgents }}}}\n{own}{{{{- end }}}}\n"
    )
    return labelled(text)


def container() -> str:
    """Return the template `pvc-prebinder.csiAgents`: for each agent the container, with where it belongs."""
    sidecar = yaml.safe_load((_COMPONENT / "sidecar.yaml").read_text(encoding="utf-8"))
    text = dump(sidecar["spec"]["template"]["spec"]["containers"])
    for original, put in _CONTAINER.items():
        text = text.replace(original, put)
    heading = "# Beside {{ .driver }}, in the pod of its controller in namespace {{ .namespace }}\n"
    return (
        '{{- define "pvc-prebinder.csiAgents" -}}\n{{- range .Values.csiAgents }}\n'
        f"{heading}{text}{{{{- end }}}}\n{{{{- end -}}}}\n"
    )


def _object(document: Document) -> str:
    return expanded(f"---\n{dump(marked(document))}").replace(
        '"pvc-prebinder.fullname" .', '"pvc-prebinder.fullname" $'
    )


def _of_an_agent(document: Document) -> str:
    text = _object(document)
    for original, put in _RIGHTS.items():
        text = text.replace(original, put)
    return text
