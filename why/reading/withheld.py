"""What a dump withholds: what may be secret, and without the right to all namespaces, their names.

Rules on documents, as the API returns them. Nothing that a check reads is withheld from a dump of all namespaces.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Document = dict[str, Any]

_COPIES: Final = ("kubectl.kubernetes.io/last-applied-configuration",)
"""Annotations that hold the object once more, with everything that is withheld below."""

_OF_STORAGE: Final = ("pv.kubernetes.io/", "volume.kubernetes.io/", "volume.beta.kubernetes.io/", "storageclass.")
"""Beginnings of annotations that the PV controller, provisioners and the scheduler write and read."""

_IN_EVERY_CLUSTER: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
_OTHER: Final = "other-namespace"
_METADATA: Final = ("name", "uid", "creationTimestamp", "resourceVersion", "annotations")
_VOLUME_FIELDS: Final = (
    "accessModes",
    "capacity",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
)
"""The fields of a volume that decide about its class, its size and its place, and hold no name of its owner's."""


@dataclass(slots=True)
class Withholding:
    """Decides for one dump. `namespace` is the only one that may be named, or empty for all.

    `redacting` drops annotations that Kubernetes does not need, the environment and arguments of containers, and what
    drivers noted of volumes; `prefix` is that of our own annotations, which are kept. Volumes have to come before
    nodes.
    """

    namespace: str
    redacting: bool
    prefix: str
    _handles: set[str] = field(default_factory=set)

    def withheld(self, kind: str, document: Document) -> Document:
        """Return what the dump has of an object. The document may be changed."""
        metadata = document.setdefault("metadata", {})
        metadata.pop("managedFields", None)
        self._annotations(metadata, only_storage=self._is_limited and not metadata.get("namespace"))
        if kind == "Pod" and self.redacting:
            _without_environment(document.get("spec") or {})
        if kind == "PersistentVolume" and self.redacting:
            ((document.get("spec") or {}).get("csi") or {}).pop("volumeAttributes", None)
        if kind == "Node":
            self._node(document)
        if self._is_limited and kind == "PersistentVolume":
            document = self._volume(document)
        if self._is_limited and metadata.get("namespace") and not self._is_named(metadata["namespace"]):
            metadata["namespace"] = _OTHER
            metadata.pop("ownerReferences", None)
            metadata.pop("labels", None)
        return document

    @property
    def _is_limited(self) -> bool:
        return bool(self.namespace)

    def _is_named(self, namespace: str | None) -> bool:
        return namespace in {self.namespace, None, ""} or namespace in _IN_EVERY_CLUSTER

    def _annotations(self, metadata: Document, *, only_storage: bool) -> None:
        annotations: Mapping[str, str] = metadata.get("annotations") or {}
        kept = {key: value for key, value in annotations.items() if key not in _COPIES}
        if self.redacting or only_storage:
            kept = {key: value for key, value in kept.items() if self._is_kept(key, value or "", only_storage)}
        metadata["annotations"] = kept

    def _is_kept(self, key: str, value: str, only_storage: bool) -> bool:
        if key.startswith(self.prefix):
            return not only_storage or "/" not in value or value.startswith(f"{self.namespace}/")
        return key.startswith(_OF_STORAGE) or (not only_storage and key.partition("/")[0].endswith("kubernetes.io"))

    def _node(self, node: Document) -> None:
        status = node.get("status") or {}
        status.pop("images", None)
        if self._is_limited:
            for name in ("volumesInUse", "volumesAttached"):
                entries = status.get(name) or []
                names = ((each, each.get("name", "") if isinstance(each, dict) else each) for each in entries)
                status[name] = [each for each, text in names if text.rpartition("^")[2] in self._handles]

    def _volume(self, volume: Document) -> Document:
        """Return a volume; of one that another namespace's claim has, only what shows that it is taken."""
        spec = volume.get("spec") or {}
        claim = spec.get("claimRef") or {}
        csi = spec.get("csi") or {}
        if not claim or claim.get("namespace") == self.namespace:
            self._handles.add(csi.get("volumeHandle", ""))
            return volume
        metadata = volume["metadata"]
        volume["metadata"] = {key: metadata[key] for key in _METADATA if key in metadata}
        volume["spec"] = {key: spec[key] for key in _VOLUME_FIELDS if key in spec} | {
            "claimRef": {"namespace": _OTHER, "name": "other-claim", "uid": claim.get("uid", "")}
        }
        if csi:
            volume["spec"]["csi"] = {"driver": csi.get("driver", ""), "volumeHandle": "withheld"}
        (volume.get("status") or {}).pop("message", None)
        return volume


def _without_environment(spec: Document) -> None:
    for name in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(name) or []:
            for part in ("env", "envFrom", "args", "command"):
                container.pop(part, None)
