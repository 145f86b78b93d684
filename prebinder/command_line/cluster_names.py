"""What the shell completes from the cluster: names of namespaces, pods, claims, volumes and workloads.

Offered is what is known within five seconds; an error leaves its kind out: a shell shows no message.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import click
import msgspec
from click.shell_completion import CompletionItem

from kube.errors import KubeError
from kube.objects.api_resource import CLAIMS, NAMESPACES, PODS, VOLUMES, Resource
from kube.plain_text import printable
from prebinder.command_line.cluster_access import ClusterAccess, cluster_connection
from prebinder.command_line.parameters import Completing, Completions

_NAMES_ONLY: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_MAX_NAMES: Final = 500
"""Names that are read of one kind: more are no help to choose from, and the next letter narrows them."""
_SECONDS: Final = 5.0
"""As long as kubectl waits."""

_WORKLOADS: Final = {
    "statefulset": Resource("apps", "v1", "statefulsets", "StatefulSet", namespaced=True),
    "deployment": Resource("apps", "v1", "deployments", "Deployment", namespaced=True),
    "job": Resource("batch", "v1", "jobs", "Job", namespaced=True),
}
_OF_WORD: Final[Mapping[str, Resource]] = {
    **dict.fromkeys(("pod", "pods", "po"), PODS),
    **dict.fromkeys(("pvc", "persistentvolumeclaim", "claim"), CLAIMS),
    **dict.fromkeys(("pv", "persistentvolume", "volume"), VOLUMES),
    **_WORKLOADS,
    "sts": _WORKLOADS["statefulset"],
    "deploy": _WORKLOADS["deployment"],
}


class _Metadata(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Metadata


def namespaces(ctx: click.Context, beginning: str) -> list[CompletionItem]:
    return _items(_read(ctx, (NAMESPACES,)), beginning)


def volumes(ctx: click.Context, beginning: str) -> list[CompletionItem]:
    return _items(_read(ctx, (VOLUMES,)), beginning)


def targets(ctx: click.Context, beginning: str) -> list[CompletionItem]:
    """Complete `KIND/NAME`, or a bare NAME of a pod or a claim, or of the kind that the word before it is."""
    word, slash, name = beginning.partition("/")
    before = next((target.name for target in ctx.params.get("targets") or () if not target.kind), "")
    if slash:
        resource = _OF_WORD.get(word.lower())
        names = _read(ctx, (resource,)) if resource is not None else ()
        return _items((f"{word}/{each}" for each in names if each.startswith(name)), beginning)
    kind = _OF_WORD.get(before.lower())
    return _items(_read(ctx, (kind,) if kind is not None else (PODS, CLAIMS)), beginning)


def name_type(completions: Completions) -> Completing:
    """Return the type of a name that is completed from the cluster."""
    return Completing("name", str, completions)


def _read(ctx: click.Context, resources: Sequence[Resource]) -> list[str]:
    given = ctx.params
    access = ClusterAccess(given.get("kubeconfig"), given.get("context"), request_timeout=timedelta(seconds=_SECONDS))
    try:
        return asyncio.run(_names(access, resources, given))
    except Exception:
        return []


async def _names(access: ClusterAccess, resources: Sequence[Resource], given: Mapping[str, Any]) -> list[str]:
    async with asyncio.timeout(_SECONDS), cluster_connection(access) as (api, own_namespace):
        names: list[str] = []
        for resource in resources:
            inside = "" if given.get("everywhere") else given.get("namespace") or own_namespace
            listed = replace(resource, only_namespace=inside) if resource.namespaced else resource
            with suppress(KubeError):
                page = await api.list_page(listed, limit=_MAX_NAMES, accept=_NAMES_ONLY)
                names += [msgspec.json.decode(item, type=_Named).metadata.name for item in page.items]
        return names


def _items(names: Iterable[str], beginning: str) -> list[CompletionItem]:
    return [CompletionItem(printable(name)) for name in sorted(set(names)) if name.startswith(beginning)]
