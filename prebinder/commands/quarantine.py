"""`pvc-prebinder quarantine`: lists the volumes that are withheld from claims because of their health, and releases
them.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

import cloup

from binder.health.quarantine import QuarantineStep, end_patch, has_placeholder, holds, marks
from binder.matching.matching import class_of
from binder.reservation.contract import Annotations
from binder.writers.object_client import FASTER, patch_as_seen
from kube.client.api import KubeApi
from kube.errors import Invalid
from kube.objects.api_resource import VOLUMES
from kube.objects.model import Volume, value_of
from prebinder.command_line.cluster_access import ClusterAccess, access_flags, cluster_api
from prebinder.command_line.cluster_names import name_type
from prebinder.command_line.cluster_names import volumes as volumes_of
from prebinder.command_line.command import Command, Verbs
from prebinder.command_line.output import Output, output_flags, write_list
from prebinder.config.settings import LoggingSettings, LogLevel
from prebinder.errors import CommandError, ExitCode, UsageError
from prebinder.health.volume_reader import read_volumes
from prebinder.runtime.logs import configure
from why.rendering.lines import write_line
from why.rendering.tables import console_for, print_unbroken, table_of

_EXIT_CODES: Final = """
Exit codes:
  0 success   1 error   2 usage
"""

EXAMPLES: Final = f"""
Examples:
  pvc-prebinder quarantine list
  pvc-prebinder quarantine release pv-17
{_EXIT_CODES}"""

_LIST_EXAMPLES: Final = f"""
Examples:
  pvc-prebinder quarantine list
  pvc-prebinder quarantine list -o json
{_EXIT_CODES}"""

_RELEASE_EXAMPLES: Final = f"""
Examples:
  pvc-prebinder quarantine release pv-17
  pvc-prebinder quarantine release --all
{_EXIT_CODES}"""

_TRIES: Final = 5
_UNMARKED: Final = "unknown: the annotations were removed"


command: Final = Verbs(
    name="quarantine",
    examples=EXAMPLES,
    help="Lists volumes in quarantine, or releases them.\n\nA controller with --quarantine withholds Available "
    "volumes that their driver reports as Inaccessible or DataLoss from all claims, by a claimRef to a claim that does "
    "not exist. It releases them when the driver reports them as Healthy.",
)


@command.command(
    "list", cls=Command, examples=_LIST_EXAMPLES, short_help="list the volumes in quarantine and the reason"
)
@output_flags("table")
@access_flags
def list_command(access: ClusterAccess, output: Output) -> int:
    """Lists the volumes in quarantine, with the reason."""
    configure(LoggingSettings(level=LogLevel.WARNING))
    return asyncio.run(_list(access, output))


@command.command("release", cls=Command, examples=_RELEASE_EXAMPLES, short_help="release volumes")
@cloup.argument("volumes", nargs=-1, type=name_type(volumes_of), metavar="[VOLUME...]")
@cloup.option("--all", "everything", is_flag=True, help="release every volume in quarantine")
@access_flags
def release_command(access: ClusterAccess, volumes: tuple[str, ...], everything: bool) -> int:
    """Releases volumes by hand, if their driver cannot report recovery or no controller manages them any more.

    A controller with --quarantine whose driver still reports a volume as unhealthy quarantines it again. A claimRef to
    anything but the placeholder quarantine-VOLUME is left alone; a placeholder is removed with or without the
    annotations of our quarantine.
    """
    if bool(volumes) == everything:
        raise UsageError("expected volume names or --all. See pvc-prebinder quarantine release --help")
    configure(LoggingSettings(level=LogLevel.WARNING))
    return asyncio.run(_release(access, volumes))


async def _list(access: ClusterAccess, output: Output) -> int:
    annotations = access.annotations
    async with cluster_api(access) as api:
        inside = [volume for volume in await read_volumes(api, (), annotations.prefix) if _inside(volume, annotations)]
    if output.is_document:
        write_list("QuarantineReport", [_document(volume, annotations) for volume in inside], output)
        return ExitCode.FINE
    rows = [tuple(_document(volume, annotations).values()) for volume in inside]
    table = table_of(("VOLUME", "CLASS", "REASON", "SINCE"), rows, headed=output.headers)
    if rows:
        print_unbroken(table, console_for())
    else:
        console_for().print("No volume is in quarantine.")
    return ExitCode.FINE


async def _release(access: ClusterAccess, names: tuple[str, ...]) -> int:
    annotations = access.annotations
    async with cluster_api(access) as api:
        volumes = await read_volumes(api, names, annotations.prefix)
        inside = [volume for volume in volumes if _inside(volume, annotations)]
        problems = await release_each(api, [volume.name for volume in inside], annotations)
    problems += [
        f'volume "{name}" is not in quarantine; list those that are: pvc-prebinder quarantine list'
        for name in sorted(set(names) - {volume.name for volume in inside})
    ]
    if problems:
        raise CommandError("; ".join(problems))
    return ExitCode.FINE


async def release_each(api: KubeApi, names: Iterable[str], annotations: Annotations) -> list[str]:
    """Release volumes, and return why some could not be: that is no reason to leave the others."""
    problems: list[str] = []
    for name in names:
        try:
            await release(api, name, annotations)
        except CommandError as error:
            problems.append(str(error))
        else:
            write_line(f"{name} released")
    return problems


async def release(api: KubeApi, name: str, annotations: Annotations) -> None:
    """End the quarantine of a volume as it is now.

    CommandError if that is not possible, if the API server rejects this change, or if the volume keeps changing.
    """
    for _ in range(_TRIES):
        for volume in await read_volumes(api, (name,), annotations.prefix):
            if not _inside(volume, annotations):
                return
            if has_placeholder(volume) and not holds(volume):
                raise CommandError(
                    f'volume "{name}" is {volume.phase}; check why, then remove its spec.claimRef by hand'
                )
            body = end_patch(volume, QuarantineStep.RELEASE if holds(volume) else QuarantineStep.FORGET, annotations)
            try:
                version = volume.resource_version
                await patch_as_seen(api, VOLUMES, name, body, resource_version=version, uid=volume.uid)
            except FASTER:
                continue
            except Invalid as error:
                raise CommandError(f'volume "{name}": {error.message}') from error
            return
    raise CommandError(f'volume "{name}" kept changing; try again')


def _inside(volume: Volume, annotations: Annotations) -> bool:
    return bool(marks(volume, annotations)) or has_placeholder(volume)


def _document(volume: Volume, annotations: Annotations) -> dict[str, str]:
    return {
        "volume": volume.name,
        "class": class_of(volume),
        "reason": value_of(volume.annotations, annotations.quarantine)
        or ("" if marks(volume, annotations) else _UNMARKED),
        "since": value_of(volume.annotations, annotations.quarantined_at) or "",
    }
