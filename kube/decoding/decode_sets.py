"""StatefulSets with their templates, and ResourceQuotas, as records."""

from typing import Final

from msgspec.structs import replace

from kube.decoding import wire, wire_compute
from kube.decoding.decode_parts import amounts, identity, kept_annotations, present
from kube.decoding.decode_pod import pod
from kube.decoding.decode_storage import claim
from kube.objects.model import Claim
from kube.objects.stateful_set import ResourceQuota, StatefulSet

_MAX_TEMPLATES: Final = 64
"""Claims of a pod that are ever planned together; of more templates none is read."""


class Ordinals(wire.Wire):
    start: int | None = None


class PodTemplate(wire.Wire):
    metadata: wire.OwnedMetadata | None = None
    spec: wire_compute.PodSpec | None = None


class StatefulSetSpec(wire.Wire):
    replicas: int | None = None
    ordinals: Ordinals | None = None
    pod_management_policy: wire.Text = None
    template: PodTemplate | None = None
    volume_claim_templates: list[wire.Claim] | None = None


class StatefulSetObject(wire.Wire):
    metadata: wire.Metadata | None = None
    spec: StatefulSetSpec | None = None


class QuotaAmounts(wire.Wire):
    hard: wire.Amounts = None
    used: wire.Amounts = None


class QuotaObject(wire.Wire):
    metadata: wire.Metadata | None = None
    status: QuotaAmounts | None = None


def stateful_set(raw: StatefulSetObject, own_prefix: str) -> StatefulSet:
    """Read a set. One without a spec is malformed."""
    who = identity(raw.metadata)
    metadata, spec = present(raw.metadata, "$.metadata"), present(raw.spec, "$.spec")
    template = spec.template
    owned = (template.metadata if template else None) or wire.OwnedMetadata()
    as_pod = None
    if template is not None and template.spec is not None:
        named = replace(owned, name=who.name, namespace=who.namespace)
        as_pod = pod(wire_compute.Pod(metadata=named, spec=template.spec))
    templates = spec.volume_claim_templates or []
    return StatefulSet(
        namespace=who.namespace,
        name=who.name,
        uid=who.uid,
        resource_version=who.resource_version,
        replicas=1 if spec.replicas is None else spec.replicas,
        start=(spec.ordinals.start if spec.ordinals else None) or 0,
        ordered=spec.pod_management_policy != "Parallel",
        templates=tuple(_template(each, who.namespace, own_prefix) for each in templates[:_MAX_TEMPLATES]),
        pod=as_pod if len(templates) <= _MAX_TEMPLATES else None,
        deleting=metadata.deletion_timestamp is not None,
        annotations=kept_annotations(metadata, own_prefix),
    )


def resource_quota(raw: QuotaObject) -> ResourceQuota:
    who, status = identity(raw.metadata), raw.status or QuotaAmounts()
    return ResourceQuota(
        namespace=who.namespace,
        name=who.name,
        uid=who.uid,
        resource_version=who.resource_version,
        hard=tuple(sorted(amounts(status.hard, "$.status.hard").items())),
        used=tuple(sorted(amounts(status.used, "$.status.used").items())),
    )


def _template(raw: wire.Claim, namespace: str, own_prefix: str) -> Claim:
    return claim(replace(raw, metadata=replace(raw.metadata or wire.OwnedMetadata(), namespace=namespace)), own_prefix)
