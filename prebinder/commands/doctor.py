"""`pvc-prebinder doctor`: checks whether the cluster, the rights and the drivers meet the prerequisites."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import cloup
from msgspec import Struct

from binder.reservation.contract import DEFAULT_PREFIX, Annotations
from csi.client.channel import CallFailed, Limits
from csi.client.endpoint import Endpoint
from csi.client.session import DriverSession
from kube.client.api import KubeApi
from kube.clock import SystemClock
from prebinder.command_line.cluster_access import connection
from prebinder.command_line.command import Command, log_level_option
from prebinder.command_line.parameters import ENDPOINT, FILE, OneOf
from prebinder.config.settings import LoggingSettings, LogLevel
from prebinder.errors import CommandError, ExitCode
from prebinder.metrics.unobserved import Unobserved
from prebinder.preflight.cluster_checks import cluster_checks, gating_check
from prebinder.preflight.doctor_checks import Check, CheckState
from prebinder.preflight.driver_outlook import response_check, subject_of
from prebinder.preflight.kube_scheduler_checks import scheduler_file_checks
from prebinder.preflight.requirements import CONTROLLER, SCHEDULER, Requirements
from prebinder.preflight.storage_checks import storage_checks
from prebinder.runtime.logs import configure
from why.rendering.lines import write_json
from why.rendering.tables import console_for, table_of

EXAMPLES: Final = """
Examples:
  pvc-prebinder doctor
  pvc-prebinder doctor --scheduler
  pvc-prebinder doctor --scheduler-config /etc/kubernetes/scheduler/config.yaml
      check whether kube-scheduler, with this file, calls the extender as it should
  pvc-prebinder doctor --kubeconfig controller.kubeconfig --csi-endpoint csi.example.com=unix:///csi/csi.sock

Exit codes:
  0 no problem   1 error   2 usage   3 a problem was found
"""


class _Line(Struct):
    check: str
    state: str
    found: str
    meaning: str


@cloup.command("doctor", cls=Command, examples=EXAMPLES)
@cloup.option("--scheduler", is_flag=True, help="check the prerequisites of the standalone scheduler instead")
@cloup.option(
    "--kubeconfig",
    type=FILE,
    metavar="FILE",
    help="default $KUBECONFIG, ~/.kube/config, then the pod's service account",
)
@cloup.option("--context", metavar="NAME", help="kubeconfig context, default the current one")
@cloup.option(
    "--scheduler-config",
    type=FILE,
    metavar="FILE",
    help="check a KubeSchedulerConfiguration instead: whether it makes kube-scheduler call the extender",
)
@cloup.option("--lease-namespace", default="pvc-prebinder-system", metavar="NAME", help="default pvc-prebinder-system")
@cloup.option("--annotation-prefix", default=DEFAULT_PREFIX, metavar="PREFIX", help=f"default {DEFAULT_PREFIX}")
@cloup.option(
    "--csi-endpoint",
    "endpoints",
    type=ENDPOINT,
    multiple=True,
    metavar="NAME=unix:///PATH",
    help="a driver that must respond; NAME as in spec.csi.driver; repeatable",
)
@cloup.option(
    "-o", "--output", type=OneOf(("table", "json")), default="table", metavar="FORM", help="table (default) or json"
)
@log_level_option
def command(  # noqa: PLR0913, PLR0917 - one for each flag
    scheduler: bool,
    kubeconfig: str | None,
    context: str | None,
    scheduler_config: str | None,
    lease_namespace: str,
    annotation_prefix: str,
    endpoints: tuple[Endpoint, ...],
    output: str,
    log_level: str | None,
) -> int:
    """Checks the prerequisites of the controller, or of the scheduler.

    Checks the server's version, the kinds it serves, the permissions of the credentials in use, and each CSI driver
    named by --csi-endpoint, and reports what does not work if one is missing. Also reports for each StorageClass
    whether the controller helps its claims, for each driver who probes its volumes, and how pods can be gated. With
    --scheduler-config it checks a configuration file of kube-scheduler instead, and needs no cluster.

    Changes nothing; permissions are queried by SelfSubjectAccessReview, which every user may create.
    """
    # The driver's response is in the report; it need not be logged as well.
    configure(LoggingSettings(level=LogLevel(log_level or LogLevel.ERROR)))
    if scheduler_config:
        checks = list(scheduler_file_checks(_text_of(scheduler_config)))
    else:
        wanted = SCHEDULER if scheduler else CONTROLLER
        checks = asyncio.run(
            _look(kubeconfig, context, wanted, lease_namespace, endpoints, Annotations(annotation_prefix))
        )
    _report(checks, output)
    return ExitCode.PROBLEM_FOUND if any(check.state is CheckState.PROBLEM for check in checks) else ExitCode.FINE


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise CommandError(f"cannot read {file}: {why}") from error


async def _look(
    kubeconfig: str | None,
    context: str | None,
    wanted: Requirements,
    lease_namespace: str,
    endpoints: Sequence[Endpoint],
    annotations: Annotations,
) -> list[Check]:
    async with connection(kubeconfig, context) as transport:
        checks = await cluster_checks(transport, wanted, lease_namespace)
        if wanted is CONTROLLER:
            drivers = {endpoint.driver for endpoint in endpoints}
            checks.append(await gating_check(transport))
            checks += await storage_checks(KubeApi(transport), annotations, drivers, SystemClock().now())
    return [*checks, *await asyncio.gather(*(_driver_check(endpoint) for endpoint in endpoints))]


async def _driver_check(endpoint: Endpoint) -> Check:
    """Check a driver's name and how its volumes can be probed."""
    session = DriverSession(endpoint, Limits(), SystemClock(), Unobserved())
    try:
        return response_check(endpoint.driver, await session.negotiated())
    except CallFailed as failed:
        meaning = "the health of its volumes is Unknown: they are not reserved"
        return Check(subject_of(endpoint.driver), CheckState.PROBLEM, str(failed), meaning)
    finally:
        await session.close()


def _report(checks: Iterable[Check], output: str) -> None:
    lines = [_Line(check.subject, check.state, check.found, check.meaning) for check in checks]
    if output == "json":
        write_json(lines)
        return
    rows = [(line.check, line.state, line.found, line.meaning) for line in lines]
    console_for().print(table_of(("CHECK", "STATE", "FOUND", "WHAT IT MEANS"), rows))
