"""Records of the storage kinds: claims, volumes, classes, capacities, drivers, attachments.

A claim, a volume or an attachment without a spec is malformed; for the other kinds the spec is optional. A field that
is absent or null gets the value that the API server defaults it to.

A claim and its volume refer to each other by name: the two records share these strings.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import UNSET
from msgspec.json import Decoder

from kube.decoding import wire
from kube.decoding.decode_health import claim_health
from kube.decoding.decode_parts import (
    amount,
    decoded_part,
    identity,
    kept_annotations,
    label_selector,
    labels,
    mapping,
    present,
    volume_node_affinity,
)
from kube.decoding.interning import DecodedParts, shared, text, texts
from kube.objects import model
from kube.objects.labels import NodeSelector, NodeSelectorTerm, Pairs, Requirement

_FIELDS: Final = wire.VolumeSpec.__struct_fields__
_OTHER_SOURCES: Final = tuple(zip(_FIELDS, wire.VolumeSpec.__struct_encode_fields__, strict=True))[
    _FIELDS.index("csi") + 1 :
]


def claim(raw: wire.Claim, own_prefix: str) -> model.Claim:
    who = identity(raw.metadata)
    metadata, spec = present(raw.metadata, "$.metadata"), present(raw.spec, "$.spec")
    annotations = kept_annotations(metadata, own_prefix)
    requests = spec.resources.requests if spec.resources else None
    return model.Claim(
        namespace=who.namespace,
        name=who.name,
        uid=text(who.uid),
        resource_version=who.resource_version,
        storage_class=_effective_class(annotations, spec.storage_class_name),
        request=amount((requests or {}).get("storage"), "$.spec.resources.requests.storage"),
        access_modes=_modes(spec.access_modes),
        volume_mode=text(spec.volume_mode) or "Filesystem",
        selector=label_selector(spec.selector, "$.spec.selector"),
        attributes_class=text(spec.volume_attributes_class_name),
        volume_name=text(spec.volume_name),
        owner=_controller(metadata.owner_references or ()),
        phase=text(raw.status.phase if raw.status else None) or "Pending",
        deleting=metadata.deletion_timestamp is not None,
        created=shared(metadata.creation_timestamp),
        annotations=annotations,
        has_data_source=any(part is not UNSET and bytes(part) != b"null" for part in _data_sources(spec)),
        clone_of=next(filter(None, (_origin(_CLONES, part) for part in _data_sources(spec))), ""),
        snapshot=next(filter(None, (_origin(_SNAPSHOTS, part) for part in _data_sources(spec))), ""),
        health=claim_health(raw.status.health_status if raw.status else UNSET, metadata.annotations),
    )


def _data_sources(spec: wire.ClaimSpec) -> tuple[wire.RawPart, wire.RawPart]:
    return spec.data_source, spec.data_source_ref


def _origin(decoded: DecodedParts[str], part: wire.RawPart) -> str:
    return decoded_part(decoded, part, "$.spec.dataSource") or ""


def _cloned(part: bytes) -> str:
    source = _DATA_SOURCE.decode(part)
    is_claim = source.kind == "PersistentVolumeClaim" and not (source.api_group or source.namespace)
    return text(source.name) if is_claim else ""


def _snapshot(part: bytes) -> str:
    source = _DATA_SOURCE.decode(part)
    is_snapshot = (source.api_group, source.kind) == ("snapshot.storage.k8s.io", "VolumeSnapshot")
    return text(source.name) if is_snapshot and not source.namespace else ""


_DATA_SOURCE: Final = Decoder(wire.DataSource)
_CLONES: Final = DecodedParts(_cloned)
_SNAPSHOTS: Final = DecodedParts(_snapshot)


def _modes(modes: Sequence[str] | None) -> tuple[str, ...]:
    """Return access modes without repetitions, which the API server accepts: 60,000 fit into a claim."""
    return texts(dict.fromkeys(modes or ()))


def _controller(owners: Iterable[wire.OwnerReference]) -> str:
    return next((text(owner.uid) for owner in owners if owner.controller), "")


def volume(raw: wire.Volume, own_prefix: str) -> model.Volume:
    who = identity(raw.metadata)
    metadata, spec = present(raw.metadata, "$.metadata"), present(raw.spec, "$.spec")
    annotations = kept_annotations(metadata, own_prefix)
    reference = spec.claim_ref
    return model.Volume(
        name=who.name,
        uid=who.uid,
        resource_version=who.resource_version,
        storage_class=_effective_class(annotations, spec.storage_class_name),
        capacity=amount((spec.capacity or {}).get("storage"), "$.spec.capacity.storage"),
        access_modes=_modes(spec.access_modes),
        volume_mode=text(spec.volume_mode) or "Filesystem",
        attributes_class=text(spec.volume_attributes_class_name),
        node_affinity=volume_node_affinity(spec.node_affinity, "$.spec.nodeAffinity"),
        claim=None
        if reference is None
        else model.ClaimReference(text(reference.namespace), text(reference.name), text(reference.uid)),
        phase=text(raw.status.phase if raw.status else None),
        reclaim_policy=text(spec.persistent_volume_reclaim_policy) or "Retain",
        deleting=metadata.deletion_timestamp is not None,
        source=_source(spec),
        driver=text(spec.csi.driver) if spec.csi else "",
        handle=(spec.csi.volume_handle or "") if spec.csi else "",
        labels=labels(metadata),
        annotations=annotations,
        created=shared(metadata.creation_timestamp),
    )


def _effective_class(annotations: Pairs, storage_class: str | None) -> str | None:
    """Return the effective class as component-helpers does: the beta annotation takes precedence, even when it is
    empty.
    """
    from_annotation = model.value_of(annotations, model.BETA_CLASS_ANNOTATION)
    if from_annotation is not None:
        return from_annotation
    return None if storage_class is None else text(storage_class)


def _source(spec: wire.VolumeSpec) -> str:
    if spec.csi is not None:
        return "csi"
    return next((name for field, name in _OTHER_SOURCES if getattr(spec, field) is not None), "")


def storage_class(raw: wire.StorageClass, own_prefix: str) -> model.StorageClass:
    who = identity(raw.metadata)
    metadata = present(raw.metadata, "$.metadata")
    annotations = kept_annotations(metadata, own_prefix)
    return model.StorageClass(
        name=who.name,
        uid=who.uid,
        resource_version=who.resource_version,
        provisioner=text(raw.provisioner),
        binding_mode=text(raw.volume_binding_mode) or None,
        allowed_topologies=_topologies(raw.allowed_topologies),
        is_default=any(model.value_of(annotations, key) == "true" for key in model.DEFAULT_CLASS_ANNOTATIONS),
        created=metadata.creation_timestamp,
        annotations=annotations,
        parameters=mapping(raw.parameters, "$.parameters"),
    )


def _topologies(terms: Sequence[wire.TopologyTerm] | None) -> NodeSelector | None:
    """Return allowedTopologies as a node selector: any term suffices, and a term without labels matches nothing."""
    if not terms:
        return None
    return shared(NodeSelector(tuple(NodeSelectorTerm(_topology_labels(term)) for term in terms)))


def _topology_labels(term: wire.TopologyTerm) -> tuple[Requirement, ...]:
    labels = term.match_label_expressions or ()
    return tuple(Requirement(text(label.key), "In", texts(label.values)) for label in labels)


def capacity(raw: wire.CSIStorageCapacity) -> model.CSIStorageCapacity:
    who = identity(raw.metadata)
    largest, metadata = raw.maximum_volume_size, present(raw.metadata, "$.metadata")
    written = [entry.time for entry in metadata.managed_fields or () if entry.time is not None and _owns_report(entry)]
    return model.CSIStorageCapacity(
        namespace=who.namespace,
        name=who.name,
        uid=who.uid,
        resource_version=who.resource_version,
        storage_class=text(raw.storage_class_name),
        node_topology=label_selector(raw.node_topology, "$.nodeTopology"),
        capacity=None if raw.capacity is None else amount(raw.capacity, "$.capacity"),
        maximum_volume_size=None if largest is None else amount(largest, "$.maximumVolumeSize"),
        written=max(written, default=None),
    )


def _owns_report(entry: wire.ManagedFields) -> bool:
    """Whether the entry is about what the driver reported: an administrator's label makes no report newer."""
    owned = b"" if entry.fields_v1 is UNSET else bytes(entry.fields_v1)
    return b'"f:capacity"' in owned or b'"f:maximumVolumeSize"' in owned


def driver(raw: wire.CSIDriver) -> model.CSIDriver:
    who = identity(raw.metadata)
    spec = raw.spec or wire.CSIDriverSpec()
    return model.CSIDriver(
        name=who.name,
        uid=who.uid,
        resource_version=who.resource_version,
        attach_required=spec.attach_required is not False,
        storage_capacity=bool(spec.storage_capacity),
        prevent_pod_scheduling_if_missing=bool(spec.prevent_pod_scheduling_if_missing),
    )


def attachment(raw: wire.VolumeAttachment) -> model.VolumeAttachment:
    who = identity(raw.metadata)
    spec = present(raw.spec, "$.spec")
    return model.VolumeAttachment(
        name=who.name,
        uid=who.uid,
        resource_version=who.resource_version,
        attacher=text(spec.attacher),
        node_name=text(spec.node_name),
        volume_name=(spec.source.persistent_volume_name if spec.source else None) or "",
        attached=bool(raw.status and raw.status.attached),
    )
