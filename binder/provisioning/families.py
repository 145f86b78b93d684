"""Which classes share storage.

Classes of one driver provision from the same place if they differ only in how a volume is formatted, mounted or named,
which is what the parameters left out here are about; the driver's own parameters may choose between places, and then
only the administrator knows. That several classes report the same storage is documented for topolvm
(topolvm/topolvm#117), and each report then counts it as if it were alone.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from binder.reservation.contract import Annotations
from kube.objects.labels import Pairs
from kube.objects.model import StorageClass, value_of

SIDECAR_PREFIX: Final = "csi.storage.k8s.io/"
"""Parameters that the sidecars read: file system type, secrets."""


def families_of(classes: Iterable[StorageClass], annotations: Annotations) -> Mapping[str, str]:
    """Return for each class that provisions the first, by name, of those with which it shares storage.

    They are joined by equal parameters, or by an equal annotation `pool`, also over several steps.
    """
    first: dict[str, str] = {}
    by_mark: dict[tuple[object, ...], str] = {}
    for storage_class in sorted(classes, key=lambda storage_class: storage_class.name):
        if not storage_class.provisions:
            continue
        first[storage_class.name] = storage_class.name
        for mark in _marks(storage_class, annotations):
            known = by_mark.setdefault(mark, storage_class.name)
            _join(first, known, storage_class.name)
    return {name: _root(first, name) for name in first}


def _marks(storage_class: StorageClass, annotations: Annotations) -> Iterable[tuple[object, ...]]:
    yield storage_class.provisioner, _own(storage_class.parameters)
    name = value_of(storage_class.annotations, annotations.pool)
    if name:
        yield storage_class.provisioner, name


def _own(parameters: Pairs) -> Pairs:
    return tuple(
        (key, value) for key, value in parameters if not key.startswith(SIDECAR_PREFIX) and key.lower() != "fstype"
    )


def _join(first: dict[str, str], name: str, other: str) -> None:
    roots = sorted((_root(first, name), _root(first, other)))
    first[roots[1]] = roots[0]


def _root(first: Mapping[str, str], name: str) -> str:
    while first[name] != name:
        name = first[name]
    return name
