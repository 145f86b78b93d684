"""`pvc-prebinder health`: how volumes are, by their annotations, and by their drivers where those can be asked."""

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, Protocol

import msgspec

from csi.drivers import Drivers
from csi.endpoint import Endpoint, parse_endpoint
from csi.verdict import HealthState, Verdict
from kube.clock import SystemClock
from kube.model import Volume
from prebinder.errors import ExitCode, UsageError
from prebinder.flags import TLS_FLAGS
from prebinder.health_rows import HEADERS, WIDE_HEADERS, HealthRow, health_row
from prebinder.match_report import console_for
from prebinder.settings import HealthSettings
from prebinder.volume_access import add_cluster_flags, cluster_api, read_volumes, table_of

DESCRIPTION = """\
Say how volumes are. Without --csi-endpoint the answer comes from the annotations that a controller with an endpoint
writes when a volume's health changes; a volume without them was never reported. With --csi-endpoint the drivers are
asked now, by calls that change nothing.
"""

EPILOG = """\
examples:
  pvc-prebinder health
  pvc-prebinder health pv-17 -o wide --csi-endpoint csi.example.com=unix:///csi/csi.sock
  pvc-prebinder health -w

exit codes:
  0 no volume is known to be sick   1 error   2 usage   3 a volume is sick
"""

BETWEEN_LOOKS: Final = 5.0
"""Seconds, with --watch."""
_AT_ONCE: Final = 8
_MAX_AGE: Final = timedelta(seconds=1)


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command `health`."""
    parser = subparsers.add_parser(
        "health", usage="%(prog)s [VOLUME...] [flags]", description=DESCRIPTION, epilog=EPILOG
    )
    parser.add_argument("volumes", nargs="*", metavar="VOLUME", help="names of PersistentVolumes, default all")
    parser.add_argument("-o", "--output", choices=("table", "wide", "json"), default="table", help="default table")
    parser.add_argument(
        "-w", "--watch", action="store_true", help="go on, and print each volume again whose health changes"
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
    drivers = Drivers(endpoints, SystemClock(), Unobserved())
    names = frozenset(endpoint.driver for endpoint in endpoints)
    seen: dict[str, HealthRow] = {}
    try:
        async with cluster_api(arguments) as api:
            while True:
                volumes = await read_volumes(api, arguments.volumes, arguments.annotation_prefix)
                asked = await ask(drivers, [volume for volume in volumes if volume.driver in names])
                rows = [health_row(one, asked.get(one.name), arguments.annotation_prefix) for one in volumes]
                _print([row for row in rows if not row.same_news(seen.get(row.volume))], arguments.output, seen)
                seen = {row.volume: row for row in rows}
                if not arguments.watch:
                    return ExitCode.PROBLEM_FOUND if any(row.sick for row in rows) else ExitCode.FINE
                await asyncio.sleep(BETWEEN_LOOKS)
    finally:
        await drivers.close()


class Asked(Protocol):
    """Asks drivers (csi.drivers.Drivers)."""

    async def verdict(self, driver: str, handle: str, max_age: timedelta) -> Verdict: ...


async def ask(drivers: Asked, volumes: Sequence[Volume]) -> Mapping[str, Verdict]:
    """Return by volume name what the drivers say, asked a few at a time."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(volume: Volume) -> Verdict:
        async with turns:
            return await drivers.verdict(volume.driver, volume.handle, _MAX_AGE)

    verdicts = await asyncio.gather(*map(one, volumes))
    return {volume.name: verdict for volume, verdict in zip(volumes, verdicts, strict=True)}


class Unobserved:
    """Counts nothing: a command has no metrics."""

    def operation(self, driver: str, method: str, code: str, seconds: float) -> None: ...

    def probed(self, driver: str, method: str, state: HealthState, seconds: float) -> None: ...


def _print(rows: Sequence[HealthRow], output: str, seen: Mapping[str, HealthRow]) -> None:
    """Print what is new: a whole report at first, then only rows; in JSON an object for each volume, one a line."""
    if output == "json":
        for row in rows:
            sys.stdout.buffer.write(msgspec.json.encode(row.document()) + b"\n")
        sys.stdout.buffer.flush()
    elif rows or not seen:
        headers = WIDE_HEADERS if output == "wide" else HEADERS
        table = table_of(headers, (row.cells(wide=output == "wide") for row in rows))
        table.show_header = not seen
        console_for().print(table if rows else "There are no PersistentVolumes.")
