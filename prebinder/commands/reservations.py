"""`pvc-prebinder reservations`: lists what is held for which claim."""

import asyncio
from typing import Final

import cloup

from prebinder.command_line.cluster_access import ClusterAccess, access_flags, cluster_api
from prebinder.command_line.cluster_names import name_type, namespaces
from prebinder.command_line.command import Command, Verbs
from prebinder.command_line.output import Output, output_flags
from prebinder.config.settings import LoggingSettings, LogLevel
from prebinder.errors import ExitCode
from prebinder.health.watch import Clinic
from prebinder.reservations.listing import ReservationListing
from prebinder.runtime.logs import configure

EXAMPLES: Final = """
Examples:
  pvc-prebinder reservations list
  pvc-prebinder reservations list -n shop -o yaml
  pvc-prebinder reservations list -w

Exit codes:
  0 success   1 error   2 usage
"""

command: Final = Verbs(
    name="reservations",
    examples=EXAMPLES,
    help="Lists which volumes are held for which claims.\n\nA reservation is a set of annotations on a volume; in "
    "modes prebind and complete the volume's claimRef names the claim as well.",
)


@command.command(
    "list",
    cls=Command,
    examples=EXAMPLES,
    short_help="list reserved volumes: for which claim, where, and until when",
)
@cloup.option(
    "-n",
    "--namespace",
    type=name_type(namespaces),
    default="",
    metavar="NAME",
    help="only for claims in this namespace, default all",
)
@output_flags("table")
@cloup.option("-w", "--watch", "watching", is_flag=True, help="keep running and print each reservation that changes")
@access_flags
def list_command(access: ClusterAccess, namespace: str, output: Output, watching: bool) -> int:
    """Lists reserved volumes: claim, pods, mode, zone and nodes, since and until when, holder, health and status.

    Status: Held; HeldForReplica (for a replica to come of a StatefulSet); Replacing and Kept (the new and the old
    volume of `replace`); Bound (the annotations are removed later); Expired (released at the next pass); Invalid (the
    annotations are no valid reservation); with --watch also Gone. The holder is the controller that wrote it, and the
    transition number of its Lease. Health is what is reported in the cluster; no driver is probed.
    """
    configure(LoggingSettings(level=LogLevel.WARNING))
    return asyncio.run(_list(access, namespace, output, watching=watching))


async def _list(access: ClusterAccess, namespace: str, output: Output, *, watching: bool) -> int:
    clinic = Clinic((), access.annotations)
    try:
        async with cluster_api(access) as api:
            listing = ReservationListing(api, clinic, namespace, output)
            denied = await listing.once()
            if watching:
                await listing.watch(denied)
    finally:
        await clinic.close()
    return ExitCode.FINE
