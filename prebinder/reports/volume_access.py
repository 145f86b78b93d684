"""What the commands about volumes share: how to reach the cluster, which volumes are meant, and the style of tables."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial, wraps
from itertools import chain
from typing import TYPE_CHECKING, Final

import cloup
from msgspec import Raw
from rich import box
from rich.table import Table
from rich.text import Text

from binder.reservation.contract import DEFAULT_PREFIX
from kube.client.api import KubeApi, Listing
from kube.client.dry_run import DryRun
from kube.decoding.decode import MalformedObject, decode_volume, decoders
from kube.errors import Forbidden, KubeconfigError, KubeError, NotFound, Unauthorized
from kube.objects.api_resource import CLAIMS, CSI_NODES, NODES, VOLUMES, Resource
from kube.objects.model import Record, Volume
from kube.store.snapshot import Snapshot
from kube.store.store import snapshot_of
from prebinder.command_line.parameters import FILE
from prebinder.config.annotation_prefix import AnnotationPrefix
from prebinder.errors import CommandError

if TYPE_CHECKING:
    from kube.client.connect import KubernetesTransport

_FEW: Final = 20
"""Volumes that are read individually; for more, the whole list costs less."""


@dataclass(frozen=True, slots=True)
class ClusterAccess(AnnotationPrefix):
    """How a command reaches the cluster, and the prefix of the annotations it reads there."""

    kubeconfig: str | None = None
    context: str | None = None
    annotation_prefix: str = DEFAULT_PREFIX

def access_flags(function: Callable[..., int]) -> Callable[..., int]:
    """Add the flags of ClusterAccess to a command; it receives them as `access`."""

    @wraps(function)
    def with_access(kubeconfig: str | None, context: str | None, annotation_prefix: str, **others: object) -> int:
        return function(access=ClusterAccess(kubeconfig, context, annotation_prefix), **others)

    flags = cloup.option_group(
        "Cluster",
        cloup.option("--kubeconfig", type=FILE, metavar="FILE", help="default $KUBECONFIG, then ~/.kube/config"),
        cloup.option("--context", metavar="NAME", help="kubeconfig context, default the current one"),
        cloup.option("--annotation-prefix", default=DEFAULT_PREFIX, metavar="PREFIX", help=f"default {DEFAULT_PREFIX}"),
    )
    return flags(with_access)


@asynccontextmanager
async def cluster_api(access: ClusterAccess, *, dry_run: bool = False) -> AsyncIterator[KubeApi]:
    """Connect to the cluster that the flags name; in a dry run nothing is written. Errors become a CommandError."""
    async with cluster_connection(access, dry_run=dry_run) as (api, _):
        yield api


@asynccontextmanager
async def cluster_connection(access: ClusterAccess, *, dry_run: bool = False) -> AsyncIterator[tuple[KubeApi, str]]:
    """As `cluster_api`, and the namespace of the context beside it."""
    async with connection(access.kubeconfig, access.context) as transport:
        yield KubeApi(DryRun(transport) if dry_run else transport), transport.namespace


@asynccontextmanager
async def connection(kubeconfig: str | None, context: str | None) -> AsyncIterator["KubernetesTransport"]:
    """Connect to the cluster. Errors of the connection and of what is done with it become a CommandError."""
    try:
        from kube.client.connect import connect  # noqa: PLC0415 - what reads files only does without it

        async with await connect(kubeconfig, context) as transport:
            yield transport
    except Forbidden as error:
        raise CommandError(f"{error}; request that permission, or choose another --context") from error
    except Unauthorized as error:
        raise CommandError(f"{error}; credentials rejected; log in again") from error
    except (KubeconfigError, KubeError) as error:
        raise CommandError(str(error)) from error


async def read_volumes(api: KubeApi, names: Sequence[str], prefix: str) -> list[Volume]:
    """Return the named volumes, or all of them, sorted by name. CommandError for a name that does not exist."""

    def take(raw: Raw) -> Volume | None:
        try:
            return decode_volume(raw, prefix)
        except MalformedObject as error:
            sys.stderr.write(f"pvc-prebinder: skipped {error}\n")
            return None

    if 0 < len(names) <= _FEW:
        records = [take(await _read(api, name)) for name in names]
        volumes = {volume.name: volume for volume in records if volume is not None}
    else:
        listing = await api.list_all(VOLUMES, take)
        volumes = {volume.name: volume for volume in listing.items if not names or volume.name in names}
        missing = sorted(set(names) - volumes.keys())
        if missing:
            raise CommandError(f'there is no PersistentVolume "{missing[0]}"')
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
    if snapshot_of(lists[CSI_NODES] or ()).csi_nodes_by_ailing_driver:
        lists[NODES] = await _allowed(NODES, partial(_list, api, NODES, prefix))
    records = chain(volumes, *(read or () for read in lists.values()))
    return snapshot_of(records, prefix), frozenset(kind for kind, read in lists.items() if read is None)


def table_of(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table of plain texts; empty cells are shown as a dash."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell or "-") for cell in row))
    return table


async def _read(api: KubeApi, name: str) -> Raw:
    try:
        return await api.get(VOLUMES, name)
    except NotFound as error:
        raise CommandError(f'there is no PersistentVolume "{name}"') from error


async def _allowed(resource: Resource, read: Callable[[], Awaitable[list[Record]]]) -> list[Record] | None:
    try:
        return await read()
    except Forbidden:
        sys.stderr.write(
            f"pvc-prebinder: you are not permitted to read {resource.plural}; health reported there is omitted\n"
        )
        return None


async def _list(api: KubeApi, resource: Resource, prefix: str) -> list[Record]:
    take: Callable[[Raw], Record | None] = partial(_decoded, resource, prefix)
    listing: Listing[Record] = await api.list_all(resource, take)
    return list(listing.items)


async def _read_claims(api: KubeApi, volumes: Iterable[Volume], prefix: str) -> list[Record]:
    claims: list[Record | None] = []
    for reference in [volume.claim for volume in volumes if volume.claim is not None]:
        with suppress(NotFound):
            raw = await api.get(CLAIMS, reference.name, reference.namespace)
            claims.append(_decoded(CLAIMS, prefix, raw))
    return [claim for claim in claims if claim is not None]


def _decoded(resource: Resource, prefix: str, raw: Raw) -> Record | None:
    try:
        return decoders(prefix)[resource.kind](raw)
    except MalformedObject as error:
        sys.stderr.write(f"pvc-prebinder: skipped {error}\n")
        return None
