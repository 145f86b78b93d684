"""`pvc-prebinder quarantine`: which volumes are kept from claims because of their health, and a way out for them."""

import argparse
import asyncio
import sys
from typing import Final

import msgspec

from binder.live import FASTER, patch_as_seen
from binder.matching import class_of
from binder.quarantine import QUARANTINE, QUARANTINED_AT, Step, end_patch, has_placeholder, holds, marks
from kube.api import KubeApi
from kube.model import Volume, value_of
from kube.resource import VOLUMES
from prebinder.errors import CommandError, ExitCode, UsageError
from prebinder.match_report import console_for
from prebinder.volume_access import add_cluster_flags, cluster_api, read_volumes, table_of

DESCRIPTION = """\
A controller that runs with --quarantine keeps free volumes that their driver calls Inaccessible or DataLoss from every
claim, by a claimRef to a claim that does not exist. It lets them out when the driver calls them healthy.
"""

RELEASE = """\
Lets volumes out by hand: when the driver cannot say that they are well, or no controller looks after them any more.
A controller with --quarantine whose driver still calls the volume sick puts it back. A claimRef to anything but the
placeholder quarantine-VOLUME is left alone; a placeholder counts with or without the annotations of our quarantine.
"""

EPILOG = """\
examples:
  pvc-prebinder quarantine list
  pvc-prebinder quarantine release pv-17

exit codes:
  0 fine   1 error   2 usage
"""

_TRIES: Final = 5
_UNMARKED: Final = "unknown: the annotations were removed"


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command `quarantine` with its two verbs."""
    parser = subparsers.add_parser(
        "quarantine", usage="%(prog)s list|release [flags]", description=DESCRIPTION, epilog=EPILOG
    )
    verbs = parser.add_subparsers(metavar="list|release", prog="pvc-prebinder quarantine")
    listing = verbs.add_parser("list", help="list the volumes in quarantine, with the reason", description=DESCRIPTION)
    listing.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default table")
    add_cluster_flags(listing)
    listing.set_defaults(run=run_list)
    release = verbs.add_parser("release", help="let volumes out", description=RELEASE)
    release.add_argument("volumes", nargs="*", metavar="VOLUME", help="names of PersistentVolumes")
    release.add_argument("--all", action="store_true", help="all that are in quarantine")
    add_cluster_flags(release)
    release.set_defaults(run=run_release)


def run_list(arguments: argparse.Namespace) -> int:
    return asyncio.run(_list(arguments))


def run_release(arguments: argparse.Namespace) -> int:
    if bool(arguments.volumes) == arguments.all:
        raise UsageError("expected names of volumes, or --all. See pvc-prebinder quarantine release --help")
    return asyncio.run(_release(arguments))


async def _list(arguments: argparse.Namespace) -> int:
    prefix = arguments.annotation_prefix
    async with cluster_api(arguments) as api:
        found = [volume for volume in await read_volumes(api, (), prefix) if _inside(volume, prefix)]
    if arguments.output == "json":
        for volume in found:
            sys.stdout.buffer.write(msgspec.json.encode(_document(volume, prefix)) + b"\n")
        return ExitCode.FINE
    rows = [tuple(_document(volume, prefix).values()) for volume in found]
    table = table_of(("VOLUME", "CLASS", "REASON", "SINCE"), rows)
    console_for().print(table if rows else "No volume is in quarantine.")
    return ExitCode.FINE


async def _release(arguments: argparse.Namespace) -> int:
    prefix = arguments.annotation_prefix
    async with cluster_api(arguments) as api:
        found = await read_volumes(api, arguments.volumes, prefix)
        inside = [volume for volume in found if _inside(volume, prefix)]
        for volume in inside:
            await release(api, volume.name, prefix)
            sys.stdout.write(f"{volume.name} released\n")
    outside = sorted(set(arguments.volumes) - {volume.name for volume in inside})
    if outside:
        raise CommandError(
            f'volume "{outside[0]}" is not in quarantine; `pvc-prebinder quarantine list` says which are'
        )
    return ExitCode.FINE


async def release(api: KubeApi, name: str, prefix: str) -> None:
    """End the quarantine of a volume as it is now. CommandError if it keeps changing while we try."""
    for _ in range(_TRIES):
        for volume in await read_volumes(api, (name,), prefix):
            if not _inside(volume, prefix):
                return
            if has_placeholder(volume) and not holds(volume):
                raise CommandError(
                    f'volume "{name}" is {volume.phase}; look into that first, then remove its spec.claimRef by hand'
                )
            body = end_patch(volume, Step.RELEASE if holds(volume) else Step.FORGET, prefix)
            try:
                version = volume.resource_version
                await patch_as_seen(api, VOLUMES, name, body, resource_version=version, uid=volume.uid)
            except FASTER:
                continue
            return
    raise CommandError(f'volume "{name}" kept changing; try again')


def _inside(volume: Volume, prefix: str) -> bool:
    return bool(marks(volume, prefix)) or has_placeholder(volume)


def _document(volume: Volume, prefix: str) -> dict[str, str]:
    return {
        "volume": volume.name,
        "class": class_of(volume),
        "reason": value_of(volume.annotations, prefix + QUARANTINE) or ("" if marks(volume, prefix) else _UNMARKED),
        "since": value_of(volume.annotations, prefix + QUARANTINED_AT) or "",
    }
