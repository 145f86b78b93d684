"""What the commands about volumes share: how to reach the cluster, which volumes are meant, and how a table looks."""

import argparse
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from msgspec import Raw
from rich import box
from rich.table import Table
from rich.text import Text

from binder.reservation import DEFAULT_PREFIX
from kube.api import KubeApi
from kube.connect import connect
from kube.decode import MalformedObject, decode_volume
from kube.errors import KubeconfigError, KubeError, NotFound
from kube.model import Volume
from kube.resource import VOLUMES
from prebinder.errors import CommandError

_FEW: Final = 20
"""Volumes that are read one by one; for more the whole list costs less."""


def add_cluster_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", metavar="FILE", help="default $KUBECONFIG, ~/.kube/config")
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig, default its current one")
    parser.add_argument(
        "--annotation-prefix", default=DEFAULT_PREFIX, metavar="PREFIX", help=f"default {DEFAULT_PREFIX}"
    )


@asynccontextmanager
async def cluster_api(arguments: argparse.Namespace) -> AsyncIterator[KubeApi]:
    """Connect to the cluster the flags name. What goes wrong inside becomes a CommandError."""
    try:
        async with await connect(arguments.kubeconfig, arguments.context) as transport:
            yield KubeApi(transport)
    except (KubeconfigError, KubeError) as error:
        raise CommandError(str(error)) from error


async def read_volumes(api: KubeApi, names: Sequence[str], prefix: str) -> list[Volume]:
    """Return the named volumes, or all of them, sorted by name. CommandError for a name that there is not."""

    def take(raw: Raw) -> Volume | None:
        try:
            return decode_volume(raw, prefix)
        except MalformedObject as error:
            sys.stderr.write(f"pvc-prebinder: left out {error}\n")
            return None

    if 0 < len(names) <= _FEW:
        found = [take(await _read(api, name)) for name in names]
        volumes = {volume.name: volume for volume in found if volume is not None}
    else:
        listing = await api.list_all(VOLUMES, take)
        volumes = {volume.name: volume for volume in listing.items if not names or volume.name in names}
        missing = sorted(set(names) - volumes.keys())
        if missing:
            raise CommandError(f'there is no PersistentVolume "{missing[0]}"')
    return [volumes[name] for name in sorted(volumes)]


def table_of(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table of plain texts; what is empty is shown as a dash."""
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
