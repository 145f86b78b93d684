"""Reads what is installed: pods, Lease, rights of the account, policies and alerts. Nothing is changed."""

import asyncio
from typing import Final
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from kube.client.transport import Transport
from prebinder.preflight.cluster_checks import is_allowed, read_as
from prebinder.preflight.doctor_checks import ADMISSION
from prebinder.preflight.installation_checks import (
    CONTROLLER,
    Installation,
    InstalledPod,
    Policies,
)
from prebinder.preflight.requirements import Need, Requirements
from why.facts import wire
from why.facts.decode_details import lease_details

_OURS: Final = {"labelSelector": "app.kubernetes.io/name=pvc-prebinder"}
_COMPONENT: Final = "app.kubernetes.io/component"
_VERSION: Final = "app.kubernetes.io/version"
_RULES: Final = "/apis/monitoring.coreos.com/v1/prometheusrules"


class _Meta(Struct, rename="camel"):
    name: str = ""
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Condition(Struct):
    type: str = ""
    status: str = ""


class _PodStatus(Struct):
    conditions: list[_Condition] | None = None


class _PodSpec(Struct, rename="camel"):
    service_account_name: str = "default"


class _Pod(Struct):
    metadata: _Meta
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _PodList(Struct):
    items: list[_Pod] = []


class _PolicySpec(Struct, rename="camel"):
    policy_name: str = ""


class _Policy(Struct):
    metadata: _Meta
    spec: _PolicySpec = msgspec.field(default_factory=_PolicySpec)


class _PolicyList(Struct):
    items: list[_Policy] = []


async def read_installation(transport: Transport, wanted: Requirements, namespace: str) -> Installation:
    """Return what is installed in the namespace. What the user may not read is None. Raises Unavailable."""
    pods = await read_as(transport, f"/api/v1/namespaces/{namespace}/pods?{urlencode(_OURS)}", _PodList)
    ours = None if pods is None else [_pod(pod) for pod in pods.items if pod.metadata.deletion_timestamp is None]
    lease = await read_as(
        transport, f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{wanted.lease}", wire.Lease
    )
    accounts = sorted({pod.account for pod in ours or () if pod.component == CONTROLLER})
    rights: dict[Need, bool | None] = {}
    if accounts:
        reviews = (is_allowed(transport, need, wanted.lease, namespace, accounts[0]) for need in wanted.rights)
        rights = dict(zip(wanted.rights, await asyncio.gather(*reviews), strict=True))
    rules = await read_as(transport, f"{_RULES}?{urlencode(_OURS)}", _PolicyList)
    return Installation(
        namespace=namespace,
        pods=ours,
        lease=None if lease is None else lease_details(lease),
        lease_name=wanted.lease,
        rights=rights,
        gate=await _policies(transport, "mutatingadmissionpolicies"),
        limits=await _policies(transport, "validatingadmissionpolicies"),
        alerts=None if rules is None else len(rules.items),
    )


def _pod(pod: _Pod) -> InstalledPod:
    labels = pod.metadata.labels or {}
    ready = any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions or ())
    account = pod.spec.service_account_name
    return InstalledPod(pod.metadata.name, labels.get(_COMPONENT, ""), labels.get(_VERSION, ""), account, ready)


async def _policies(transport: Transport, plural: str) -> Policies | None:
    policies = await read_as(transport, f"/apis/{ADMISSION}/{plural}?{urlencode(_OURS)}", _PolicyList)
    bindings = await read_as(
        transport, f"/apis/{ADMISSION}/{plural.removesuffix('ies')}ybindings?{urlencode(_OURS)}", _PolicyList
    )
    if policies is None or bindings is None:
        return None
    existing = frozenset(policy.metadata.name for policy in policies.items)
    return Policies(existing, existing & {binding.spec.policy_name for binding in bindings.items})
