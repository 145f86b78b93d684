"""NodePools of Karpenter as records (karpenter.sh_nodepools.yaml of Karpenter 1.14, version v1)."""

from typing import Final

import msgspec
from msgspec import DecodeError, Raw, ValidationError

from kube.decoding.decode_parts import FieldError, amounts, identity, labels, requirements
from kube.decoding.interning import text
from kube.decoding.wire import Amounts, Metadata, Requirement, Text, Wire
from kube.decoding.wire_compute import Taint
from kube.objects import model
from kube.objects.node_pool import NodePool


class _TemplateSpec(Wire):
    requirements: list[Requirement] | None = None
    taints: list[Taint] | None = None


class _Template(Wire):
    metadata: Metadata | None = None
    spec: _TemplateSpec | None = None


class _Spec(Wire):
    template: _Template | None = None
    limits: Amounts = None
    replicas: int | None = None


class _Condition(Wire):
    type: Text = None
    status: Text = None
    message: Text = None
    reason: Text = None


class _Status(Wire):
    resources: Amounts = None
    conditions: list[_Condition] | None = None


class _NodePool(Wire):
    metadata: Metadata | None = None
    spec: _Spec | None = None
    status: _Status | None = None


_NODE_POOL: Final = msgspec.json.Decoder(_NodePool)


def decode_node_pool(raw: bytes | Raw) -> NodePool | None:
    """Return the NodePool; None if it cannot be read, so that no node is expected of it."""
    try:
        return _node_pool(_NODE_POOL.decode(raw))
    except (FieldError, DecodeError, ValidationError, UnicodeDecodeError, RecursionError):
        return None


def _node_pool(raw: _NodePool) -> NodePool:
    spec, status = raw.spec or _Spec(), raw.status or _Status()
    template = spec.template or _Template()
    nodes = template.spec or _TemplateSpec()
    return NodePool(
        name=identity(raw.metadata).name,
        labels=labels(template.metadata or Metadata()),
        requirements=requirements(nodes.requirements),
        taints=tuple(model.Taint(text(each.key), text(each.effect), text(each.value)) for each in nodes.taints or ()),
        limits=tuple(sorted(amounts(spec.limits, "$.spec.limits").items())),
        used=tuple(sorted(amounts(status.resources, "$.status.resources").items())),
        fault=_fault(raw, spec, status),
    )


def _fault(raw: _NodePool, spec: _Spec, status: _Status) -> str:
    """Return why the pool adds no nodes for pods."""
    if raw.metadata is not None and raw.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    if spec.replicas is not None:
        return "it has a fixed number of nodes (spec.replicas)"
    ready = next((condition for condition in status.conditions or () if condition.type == "Ready"), None)
    if ready is None:
        return "it has no condition Ready yet"
    if ready.status != "True":
        return f"it is not Ready: {' '.join((ready.message or ready.reason or 'no reason is given').split())}"
    return ""
