"""`pvc-prebinder health`: how volumes are, by what is reported in the cluster, and by their drivers if asked."""

import argparse
import asyncio
from collections.abc import Sequence

from csi.endpoint import Endpoint, parse_endpoint
from prebinder.errors import ExitCode, UsageError
from prebinder.flags import TLS_FLAGS
from prebinder.health_watch import Clinic, Printer, watch
from prebinder.logs import configure
from prebinder.settings import HealthSettings, LoggingSettings, LogLevel
from prebinder.volume_access import add_cluster_flags, cluster_api, read_reports, read_volumes

DESCRIPTION = """\
Says how volumes are, and who says so. Without --csi-endpoint the answer comes from what is written in the cluster: the
annotations that a controller with an endpoint, or an agent beside the driver, writes when a volume's health changes;
the health fields of Kubernetes 1.37; and the annotations of csi-addons. A volume without any was never reported. With
--csi-endpoint the drivers are asked now as well, by calls that change nothing. Of several the worst is shown.
"""

EPILOG = """\
examples:
  pvc-prebinder health
  pvc-prebinder health pv-17 -o wide --csi-endpoint csi.example.com=unix:///csi/csi.sock
  pvc-prebinder health -w

exit codes, with --watch when it is stopped:
  0 no volume is known to be sick   1 error   2 usage   3 a volume is sick
"""


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command `health`."""
    parser = subparsers.add_parser(
        "health", usage="%(prog)s [VOLUME...] [flags]", description=DESCRIPTION, epilog=EPILOG
    )
    parser.add_argument("volumes", nargs="*", metavar="VOLUME", help="names of PersistentVolumes, default all")
    parser.add_argument("-o", "--output", choices=("table", "wide", "json"), default="table", help="default table")
    parser.add_argument(
        "-w", "--watch", action="store_true", help="go on, and print each volume whose health changes when it does"
    )
    parser.add_argument(
        "--csi-endpoint",
        action="append",
        default=[],
        metavar="NAME=unix:///PATH",
        help="ask this driver about its volumes; NAME is the driver's, as in spec.csi.driver; repeatable",
    )
    for flag in TLS_FLAGS:
        parser.add_argument(flag.name, metavar=flag.metavar, help=flag.help)
    add_cluster_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Look, or watch. Which driver does not answer, and why, is logged: that has to be seen."""
    configure(LoggingSettings(level=LogLevel(arguments.log_level or LogLevel.WARNING)))
    try:
        health = HealthSettings(
            tuple(parse_endpoint(one) for one in arguments.csi_endpoint),
            arguments.csi_tls_ca,
            arguments.csi_tls_cert,
            arguments.csi_tls_key,
        )
    except ValueError as error:
        raise UsageError(f"--csi-endpoint: {error}") from error
    return asyncio.run(_run(arguments, health.connections))


async def _run(arguments: argparse.Namespace, endpoints: Sequence[Endpoint]) -> int:
    clinic = Clinic(endpoints, arguments.annotation_prefix)
    printer = Printer(arguments.output)
    try:
        async with cluster_api(arguments) as api:
            volumes = await read_volumes(api, arguments.volumes, arguments.annotation_prefix)
            snapshot, denied = await read_reports(api, volumes, arguments.annotation_prefix)
            printer.show(await clinic.rows(snapshot, volumes))
            if arguments.watch:
                await watch(api, clinic, printer, frozenset(arguments.volumes), denied)
    finally:
        await clinic.close()
    return ExitCode.PROBLEM_FOUND if printer.any_sick else ExitCode.FINE
