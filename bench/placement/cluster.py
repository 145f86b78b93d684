"""A cluster as returned by its API server, in plain JSON, for a checker that shares nothing with what it checks."""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Protocol

Document = Mapping[str, Any]

PATHS: Final = {
    "nodes": "/api/v1/nodes",
    "pods": "/api/v1/pods",
    "namespaces": "/api/v1/namespaces",
    "volumes": "/api/v1/persistentvolumes",
    "claims": "/api/v1/persistentvolumeclaims",
    "csi_nodes": "/apis/storage.k8s.io/v1/csinodes",
    "attachments": "/apis/storage.k8s.io/v1/volumeattachments",
}
_QUANTITY: Final = re.compile(r"([+-]?[0-9.]+)(?:([eE][+-]?[0-9]+)|([A-Za-z]{0,2}))")
_UNITS: Final = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


class Reader(Protocol):
    """Gets JSON from the API server."""

    async def get(self, path: str) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Cluster:
    """The objects that decide whether a placement is right, as they are now."""

    nodes: Sequence[Document] = ()
    pods: Sequence[Document] = ()
    namespaces: Sequence[Document] = ()
    volumes: Sequence[Document] = ()
    claims: Sequence[Document] = ()
    csi_nodes: Sequence[Document] = ()
    attachments: Sequence[Document] = ()

    def placed(self) -> list[Document]:
        """Pods that use resources of a node: assigned, and neither succeeded nor failed."""
        return [pod for pod in self.pods if node_of(pod) and phase_of(pod) not in {"Succeeded", "Failed"}]


async def read(reader: Reader) -> Cluster:
    """Read everything; the lists are of slightly different moments."""
    answers = await asyncio.gather(*(reader.get(path) for path in PATHS.values()))
    return Cluster(**{kind: answer["items"] for kind, answer in zip(PATHS, answers, strict=True)})


def by_name(documents: Iterable[Document]) -> dict[str, Document]:
    return {document["metadata"]["name"]: document for document in documents}


def by_key(documents: Iterable[Document]) -> dict[str, Document]:
    return {key_of(document): document for document in documents}


def key_of(document: Document) -> str:
    return f"{document['metadata']['namespace']}/{document['metadata']['name']}"


def labels_of(document: Document) -> Mapping[str, str]:
    return document["metadata"].get("labels") or {}


def node_of(pod: Document) -> str:
    return str(pod["spec"].get("nodeName") or "")


def phase_of(document: Document) -> str:
    return str((document.get("status") or {}).get("phase") or "")


def placed_at(pod: Document) -> str:
    """Return when the API server accepted the Binding, empty if unknown. In UTC: texts compare as times do."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    times = (condition.get("lastTransitionTime") for condition in conditions if condition["type"] == "PodScheduled")
    return str(next(times, None) or "")


def was_so(since: object, pod: Document) -> bool:
    """Whether a state that has existed since then existed when the pod was placed, as far as known: in doubt it did."""
    placed = placed_at(pod)
    return not (since and placed) or str(since) < placed


def amount(text: object) -> Fraction:
    """Return the value of a quantity: `100m`, `1.5Gi`, `2e3`; ValueError if it is none."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{text!r} is not a quantity")
    number, exponent, unit = match.groups()
    if exponent:
        return Fraction(number + exponent)
    if unit in _BINARY:
        return Fraction(number) * (1 << _BINARY[unit])
    if unit not in _UNITS:
        raise ValueError(f"{text!r} is not a quantity")
    return Fraction(f"{number}e{_UNITS[unit]}")
