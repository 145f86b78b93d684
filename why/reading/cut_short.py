"""Whether a YAML file ends before its end, as one that `head` has cut off between two lines.

Such a file is valid YAML, and what is left of its last object looks like one in another state: a claim without a phase,
a class without a binding mode. What an API server returned has fields that are always there, late in the alphabet, by
which kubectl sorts them. Rules on values; no I/O.
"""

from collections.abc import Mapping
from typing import Final

_ALWAYS: Final[Mapping[str, tuple[str, ...]]] = {
    "Pod": ("status", "phase"),
    "PersistentVolumeClaim": ("status", "phase"),
    "PersistentVolume": ("status", "phase"),
    "Node": ("status", "nodeInfo"),
    "StorageClass": ("volumeBindingMode",),
    "Event": ("type",),
    "CSINode": ("spec",),
    "CSIDriver": ("spec",),
    "VolumeAttachment": ("status", "attached"),
    "CSIStorageCapacity": ("storageClassName",),
}
"""A late field that each object of the kind has which an API server returned."""


def lost_end(value: object) -> str:
    """Return what the last document of a file lacks at its end, empty if nothing.

    What a person has written has no time of creation, and need not be complete.
    """
    if not isinstance(value, dict):
        return ""
    if value.keys() == {"apiVersion"}:
        return "an apiVersion alone"
    if isinstance(value.get("items"), list) and "apiVersion" in value and "kind" not in value:
        return "a list without the kind that kubectl writes after its items"
    metadata, kind = value.get("metadata"), str(value.get("kind"))
    if not isinstance(metadata, dict) or not metadata.get("creationTimestamp"):
        return ""
    field: object = value
    for name in _ALWAYS.get(kind, ()):
        field = field.get(name) if isinstance(field, dict) else None
        if field is None:
            return f"{kind} {metadata.get('name') or 'without a name'} has no {'.'.join(_ALWAYS[kind])}"
    return ""
