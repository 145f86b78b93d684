"""Objects of the API as records: bytes in, one frozen record out, or MalformedObject for this object alone.

Each item of a list is decoded separately, so that a malformed one does not affect the others. Documents from files are
decoded the same way.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar

import msgspec
from msgspec import DecodeError, Raw, Struct

from kube.decoding import decode_node, decode_pod, decode_sets, decode_storage, wire, wire_compute
from kube.decoding.decode_parts import OWN_PREFIX, FieldError, field_error
from kube.objects.model import (
    Claim,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Namespace,
    Node,
    Pod,
    Record,
    StorageClass,
    Volume,
    VolumeAttachment,
)
from kube.objects.stateful_set import ResourceQuota, StatefulSet
from kube.rules.disruption import DisruptionBudget

W = TypeVar("W", bound=wire.Wire)
R = TypeVar("R", bound=Record)

_CLAIM: Final = msgspec.json.Decoder(wire.Claim)
_VOLUME: Final = msgspec.json.Decoder(wire.Volume)
_CLASS: Final = msgspec.json.Decoder(wire.StorageClass)
_CAPACITY: Final = msgspec.json.Decoder(wire.CSIStorageCapacity)
_DRIVER: Final = msgspec.json.Decoder(wire.CSIDriver)
_ATTACHMENT: Final = msgspec.json.Decoder(wire.VolumeAttachment)
_BUDGET: Final = msgspec.json.Decoder(wire.PodDisruptionBudget)
_POD: Final = msgspec.json.Decoder(wire_compute.Pod)
_NODE: Final = msgspec.json.Decoder(wire_compute.Node)
_NAMESPACE: Final = msgspec.json.Decoder(wire_compute.Namespace)
_CSI_NODE: Final = msgspec.json.Decoder(wire_compute.CSINode)
_STATEFUL_SET: Final = msgspec.json.Decoder(decode_sets.StatefulSetObject)
_QUOTA: Final = msgspec.json.Decoder(decode_sets.QuotaObject)


class MalformedObject(ValueError):
    """An object that cannot be read. `name` is its key, or `?`; `resource_version` is empty if that is unknown too."""

    def __init__(self, kind: str, name: str, resource_version: str, path: str, problem: str) -> None:
        super().__init__(f"{kind} {name}: {path}: {problem}")
        self.kind = kind
        self.name = name
        self.resource_version = resource_version
        self.path = path
        self.problem = problem


def decode_claim(raw: bytes | Raw, own_prefix: str = OWN_PREFIX) -> Claim:
    return _decode("PersistentVolumeClaim", raw, _CLAIM, partial(decode_storage.claim, own_prefix=own_prefix))


def decode_volume(raw: bytes | Raw, own_prefix: str = OWN_PREFIX) -> Volume:
    return _decode("PersistentVolume", raw, _VOLUME, partial(decode_storage.volume, own_prefix=own_prefix))


def decode_class(raw: bytes | Raw, own_prefix: str = OWN_PREFIX) -> StorageClass:
    return _decode("StorageClass", raw, _CLASS, partial(decode_storage.storage_class, own_prefix=own_prefix))


def decode_capacity(raw: bytes | Raw) -> CSIStorageCapacity:
    return _decode("CSIStorageCapacity", raw, _CAPACITY, decode_storage.capacity)


def decode_driver(raw: bytes | Raw) -> CSIDriver:
    return _decode("CSIDriver", raw, _DRIVER, decode_storage.driver)


def decode_attachment(raw: bytes | Raw) -> VolumeAttachment:
    return _decode("VolumeAttachment", raw, _ATTACHMENT, decode_storage.attachment)


def decode_budget(raw: bytes | Raw) -> DisruptionBudget:
    return _decode("PodDisruptionBudget", raw, _BUDGET, decode_pod.disruption_budget)


def decode_pod_record(raw: bytes | Raw) -> Pod:
    return _decode("Pod", raw, _POD, decode_pod.pod)


def decode_node_record(raw: bytes | Raw) -> Node:
    return _decode("Node", raw, _NODE, decode_node.node)


def decode_namespace(raw: bytes | Raw) -> Namespace:
    return _decode("Namespace", raw, _NAMESPACE, decode_node.namespace)


def decode_csi_node(raw: bytes | Raw) -> CSINode:
    return _decode("CSINode", raw, _CSI_NODE, decode_node.csi_node)


def decode_stateful_set(raw: bytes | Raw, own_prefix: str = OWN_PREFIX) -> StatefulSet:
    return _decode("StatefulSet", raw, _STATEFUL_SET, partial(decode_sets.stateful_set, own_prefix=own_prefix))


def decode_resource_quota(raw: bytes | Raw) -> ResourceQuota:
    return _decode("ResourceQuota", raw, _QUOTA, decode_sets.resource_quota)


Decode = Callable[[bytes | Raw], Record]


def decoders(own_prefix: str) -> Mapping[str, Decode]:
    """Return the decoder of each kind, which keeps the annotations with this prefix of our own."""
    return {
        "PersistentVolumeClaim": partial(decode_claim, own_prefix=own_prefix),
        "PersistentVolume": partial(decode_volume, own_prefix=own_prefix),
        "StorageClass": partial(decode_class, own_prefix=own_prefix),
        "Pod": decode_pod_record,
        "Node": decode_node_record,
        "Namespace": decode_namespace,
        "CSINode": decode_csi_node,
        "CSIDriver": decode_driver,
        "CSIStorageCapacity": decode_capacity,
        "VolumeAttachment": decode_attachment,
        "PodDisruptionBudget": decode_budget,
        "StatefulSet": partial(decode_stateful_set, own_prefix=own_prefix),
        "ResourceQuota": decode_resource_quota,
    }


DECODERS: Final[Mapping[str, Decode]] = decoders(OWN_PREFIX)
"""Kind -> decoder, with the default prefix."""


def tolerant(decode: Callable[[Raw], R], report: Callable[[MalformedObject], None]) -> Callable[[Raw], R | None]:
    """Return the decoder for a list of which malformed objects are reported, and then None."""

    def decoded(raw: Raw) -> R | None:
        try:
            return decode(raw)
        except MalformedObject as error:
            report(error)
            return None

    return decoded


def _decode(kind: str, raw: bytes | Raw, decoder: msgspec.json.Decoder[W], project: Callable[[W], R]) -> R:
    try:
        return project(decoder.decode(raw))
    except FieldError as error:
        raise _malformed(kind, raw, error.path, error.problem) from error
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        fault = field_error(error)
        raise _malformed(kind, raw, fault.path, fault.problem) from error


class _AnyMetadata(Struct):
    name: object = None
    namespace: object = None
    resourceVersion: object = None  # noqa: N815  the API's spelling


class _AnyObject(Struct):
    metadata: _AnyMetadata | None = None


def _malformed(kind: str, raw: bytes | Raw, path: str, problem: str) -> MalformedObject:
    """Identify the malformed object as far as its remains allow."""
    try:
        metadata = msgspec.json.decode(raw, type=_AnyObject).metadata or _AnyMetadata()
    except (DecodeError, UnicodeDecodeError, RecursionError):
        metadata = _AnyMetadata()
    name = "/".join(part for part in (metadata.namespace, metadata.name) if isinstance(part, str) and part) or "?"
    version = metadata.resourceVersion if isinstance(metadata.resourceVersion, str) else ""
    return MalformedObject(kind, name[:300], version[:40], path, problem)
