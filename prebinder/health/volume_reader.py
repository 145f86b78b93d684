"""Reads the volumes that a command is about and what the cluster reports about their health, with the user's rights."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Final

from msgspec import Raw

from kube.client.api import KubeApi, Listing
from kube.decoding.decode import MalformedObject, decode_claim, decode_volume, decoders, tolerant
from kube.errors import Forbidden, NotFound
from kube.objects.api_resource import CLAIMS, CSI_NODES, NODES, VOLUMES, Resource
from kube.objects.model import Record, Volume
from kube.store.snapshot import Snapshot
from kube.store.store import snapshot_of
from prebinder.errors import CommandError
from why.rendering.lines import warn

_FEW: Final = 20
"""Volumes that are read individually; for more, the whole list costs less."""


async def read_volumes(api: KubeApi, names: Sequence[str], prefix: str) -> list[Volume]:
    """Return the named volumes, or all of them, sorted by name. CommandError for a name that does not exist."""
    take = tolerant(partial(decode_volume, own_prefix=prefix), _skip)
    if 0 < len(names) <= _FEW:
        records = [take(await _read(api, name)) for name in names]
        volumes = {volume.name: volume for volume in records if volume is not None}
    else:
        listing = await api.list_all(VOLUMES, take)
        volumes = {volume.name: volume for volume in listing.items if not names or volume.name in names}
        missing = sorted(set(names) - volumes.keys())
        if missing:
            raise CommandError(f'there is no PersistentVolume "{missing[0]}"; list them: kubectl get pv')
    return [volumes[name] for name in sorted(volumes)]


async def read_reports(api: KubeApi, volumes: Sequence[Volume], prefix: str) -> tuple[Snapshot, frozenset[Resource]]:
    """Return the volumes with everything in the cluster that reports their health: claims, CSINodes and nodes.

    Also return the kinds that the user may not read: what they report is missing, and a note states that.
    """
    claims = partial(_list, api, CLAIMS, prefix)
    if len(volumes) <= _FEW:
        claims = partial(_read_claims, api, volumes, prefix)
    lists = {
        CLAIMS: await _allowed(CLAIMS, claims),
        CSI_NODES: await _allowed(CSI_NODES, partial(_list, api, CSI_NODES, prefix)),
    }
    if snapshot_of(lists[CSI_NODES] or ()).csi_nodes_by_unhealthy_driver:
        lists[NODES] = await _allowed(NODES, partial(_list, api, NODES, prefix))
    records = chain(volumes, *(read or () for read in lists.values()))
    return snapshot_of(records, prefix), frozenset(kind for kind, read in lists.items() if read is None)


async def _read(api: KubeApi, name: str) -> Raw:
    try:
        return await api.get(VOLUMES, name)
    except NotFound as error:
        raise CommandError(f'there is no PersistentVolume "{name}"; list them: kubectl get pv') from error


async def _allowed(resource: Resource, read: Callable[[], Awaitable[list[Record]]]) -> list[Record] | None:
    try:
        return await read()
    except Forbidden:
        warn(f"you are not permitted to read {resource.plural}; health reported there is omitted")
        return None


async def read_kinds(
    api: KubeApi, resources: Iterable[Resource], prefix: str
) -> Mapping[Resource, Sequence[Record] | None]:
    """Return all objects of these kinds; None for a kind that the user may not read, which a note states."""
    return {resource: await _allowed(resource, partial(_list, api, resource, prefix)) for resource in resources}


async def _list(api: KubeApi, resource: Resource, prefix: str) -> list[Record]:
    listing: Listing[Record] = await api.list_all(resource, tolerant(decoders(prefix)[resource.kind], _skip))
    return list(listing.items)


async def _read_claims(api: KubeApi, volumes: Iterable[Volume], prefix: str) -> list[Record]:
    take = tolerant(partial(decode_claim, own_prefix=prefix), _skip)
    claims: list[Record | None] = []
    for reference in [volume.claim for volume in volumes if volume.claim is not None]:
        with suppress(NotFound):
            raw = await api.get(CLAIMS, reference.name, reference.namespace)
            claims.append(take(raw))
    return [claim for claim in claims if claim is not None]


def _skip(error: MalformedObject) -> None:
    warn(f"skipped {error}")
