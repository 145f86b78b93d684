"""`pvc-prebinder health`: the health of volumes, as reported in the cluster and, with endpoints, by their drivers."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import cloup

from csi.client.endpoint import Endpoint
from kube.clock import SystemClock
from prebinder.command_line.cluster_access import ClusterAccess, access_flags, cluster_api
from prebinder.command_line.cluster_names import name_type
from prebinder.command_line.cluster_names import volumes as volumes_of
from prebinder.command_line.command import Command, log_level_option
from prebinder.command_line.flags import ENDPOINT_FLAGS, override, settings_flags
from prebinder.command_line.output import Output, output_flags
from prebinder.config.settings import LoggingSettings, LogLevel, Settings
from prebinder.errors import ExitCode
from prebinder.health.sweep_reports import LatestSweeps
from prebinder.health.volume_reader import read_reports, read_volumes
from prebinder.health.watch import Clinic, HealthPrinter, watch
from prebinder.runtime.logs import configure

EXAMPLES: Final = """
Examples:
  pvc-prebinder health
  pvc-prebinder health pv-17 -o wide --csi-endpoint csi.example.com=unix:///csi/csi.sock
  pvc-prebinder health -w

Exit codes, with --watch when it is stopped:
  0 no volume is known to be unhealthy   1 error   2 usage   3 a volume is unhealthy
"""


@cloup.command("health", cls=Command, examples=EXAMPLES)
@cloup.argument("volumes", nargs=-1, type=name_type(volumes_of), metavar="[VOLUME...]")
@output_flags("table", "wide")
@cloup.option("-w", "--watch", "watching", is_flag=True, help="keep running and print each volume whose health changes")
@settings_flags({"CSI drivers": ENDPOINT_FLAGS}, Settings())
@access_flags
@log_level_option
def command(
    access: ClusterAccess, volumes: tuple[str, ...], output: Output, watching: bool, log_level: str | None, **given: Any
) -> int:
    """Reports the health of volumes, and who reported it; without VOLUME, of all PersistentVolumes.

    Without --csi-endpoint the answer comes from the cluster: the annotations that a controller with an endpoint, or an
    agent beside the driver, writes when a volume's health changes, and the report of its last complete sweep on its
    Lease; the health fields of Kubernetes 1.37; and the annotations of csi-addons. A volume without any of them was
    never reported. With --csi-endpoint the drivers are probed as well, by read-only calls. The worst of several reports
    is shown.
    """
    # A driver that does not respond has to be visible, with the reason.
    configure(LoggingSettings(level=LogLevel(log_level or LogLevel.WARNING)))
    endpoints = override(Settings(), given, {"CSI drivers": ENDPOINT_FLAGS}).health.connections
    return asyncio.run(_run(access, volumes, HealthPrinter(output, watching=watching), watching, endpoints))


async def _run(
    access: ClusterAccess, names: tuple[str, ...], printer: HealthPrinter, watching: bool, endpoints: Sequence[Endpoint]
) -> int:
    prefix = access.annotation_prefix
    clinic = Clinic(endpoints, access.annotations)
    try:
        async with cluster_api(access) as api:
            volumes = await read_volumes(api, names, prefix)
            snapshot, denied = await read_reports(api, volumes, prefix)
            sweeps = LatestSweeps(api, clinic.probed_drivers, access.annotations, SystemClock())
            printer.show(await clinic.rows(snapshot, volumes, await sweeps.about(volumes)))
            if watching:
                await watch(api, clinic, sweeps, printer, frozenset(names), denied)
    finally:
        await clinic.close()
    return ExitCode.PROBLEM_FOUND if printer.any_unhealthy else ExitCode.FINE
