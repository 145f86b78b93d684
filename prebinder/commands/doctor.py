"""`pvc-prebinder doctor`: checks whether the cluster, the rights and the drivers meet the prerequisites."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

import cloup
from msgspec import Struct

from binder.reservation.contract import Annotations
from csi.client.channel import CallFailed, Limits
from csi.client.endpoint import Endpoint
from csi.client.session import DriverSession
from kube.client.api import KubeApi
from kube.client.transport import Transport
from kube.clock import Clock, SystemClock
from kube.errors import Forbidden
from prebinder.build import build_facts
from prebinder.command_line.cluster_access import ClusterAccess, access_flags, connection
from prebinder.command_line.command import Command, log_level_option
from prebinder.command_line.output import Output, output_flags, write_list
from prebinder.command_line.parameters import DURATION, ENDPOINT, FILE
from prebinder.config.settings import LoggingSettings, LogLevel
from prebinder.errors import CommandError, ExitCode
from prebinder.metrics.unobserved import Unobserved
from prebinder.preflight.cluster_checks import cluster_checks, gating_check
from prebinder.preflight.doctor_checks import Check, CheckState
from prebinder.preflight.driver_outlook import response_check, subject_of
from prebinder.preflight.installation import read_installation
from prebinder.preflight.installation_checks import InUse, installation_checks, leads, not_in_time
from prebinder.preflight.kube_scheduler_checks import scheduler_file_checks
from prebinder.preflight.requirements import CONTROLLER, SCHEDULER, Requirements
from prebinder.preflight.storage_checks import ClusterStorage, read_storage, storage_checks, unknown_storage
from prebinder.runtime.logs import configure
from why.rendering.tables import console_for, print_unbroken, table_of

EXAMPLES: Final = """
Examples:
  pvc-prebinder doctor
  pvc-prebinder doctor --wait 2m
      after an installation: until a controller leads
  pvc-prebinder doctor --scheduler
  pvc-prebinder doctor --scheduler-config /etc/kubernetes/scheduler/config.yaml
      check whether kube-scheduler, with this file, calls the extender as it should
  pvc-prebinder doctor --kubeconfig controller.kubeconfig --csi-endpoint csi.example.com=unix:///csi/csi.sock

Exit codes:
  0 no problem   1 error   2 usage   3 a problem was found
"""


_POLL_SECONDS: Final = 2.0
"""Seconds between two looks at an installation that is waited for."""


class _Line(Struct):
    check: str
    state: str
    found: str
    meaning: str


@dataclass(frozen=True, slots=True)
class _Question:
    """What is to be checked, and for how long an installation is waited for."""

    wanted: Requirements
    lease_namespace: str
    endpoints: Sequence[Endpoint]
    annotations: Annotations
    wait: timedelta


@cloup.command("doctor", cls=Command, examples=EXAMPLES)
@cloup.option("--scheduler", is_flag=True, help="check the prerequisites of the standalone scheduler instead")
@cloup.option(
    "--scheduler-config",
    type=FILE,
    metavar="FILE",
    help="check a KubeSchedulerConfiguration instead: whether it makes kube-scheduler call the extender",
)
@cloup.option("--lease-namespace", default="pvc-prebinder-system", metavar="NAME", help="default pvc-prebinder-system")
@cloup.option(
    "--csi-endpoint",
    "endpoints",
    type=ENDPOINT,
    multiple=True,
    metavar="NAME=unix:///PATH",
    help="a driver that must respond; NAME as in spec.csi.driver; repeatable",
)
@output_flags("table")
@cloup.option(
    "--wait",
    type=DURATION,
    default=timedelta(0),
    metavar="DURATION",
    help="wait up to this long, such as 2m, until an installed controller leads and no problem is left",
)
@access_flags
@log_level_option
def command(  # noqa: PLR0913, PLR0917 - one for each flag
    access: ClusterAccess,
    scheduler: bool,
    scheduler_config: str | None,
    lease_namespace: str,
    endpoints: tuple[Endpoint, ...],
    output: Output,
    wait: timedelta,
    log_level: str | None,
) -> int:
    """Checks the prerequisites of the controller, or of the scheduler, and what is installed.

    Checks the server's version, the kinds it serves, the permissions of the credentials in use, and each CSI driver
    named by --csi-endpoint, and reports what does not work if one is missing. Also reports for each StorageClass
    whether the controller helps its claims, for each driver who probes its volumes, and how pods can be gated. With
    --scheduler-config it checks a configuration file of kube-scheduler instead, and needs no cluster.

    Of an installation in --lease-namespace it checks the pods, the holder and age of the Lease, the version, the rights
    of the controller's account for the modes of the StorageClasses, the gate policy, the account limits, the extender
    and the alerts. With --wait it checks again until a controller leads and nothing is a problem: after `helm install`.

    Changes nothing; permissions are queried by SelfSubjectAccessReview, which every user may create, and those of the
    controller's account by SubjectAccessReview, which an administrator may create.
    """
    # The driver's response is in the report; it need not be logged as well.
    configure(LoggingSettings(level=LogLevel(log_level or LogLevel.ERROR)))
    if scheduler_config:
        checks = list(scheduler_file_checks(_text_of(scheduler_config)))
    else:
        wanted, annotations = SCHEDULER if scheduler else CONTROLLER, access.annotations
        question = _Question(wanted, lease_namespace, endpoints, annotations, wait)
        checks = asyncio.run(_look(access, question))
    _report(checks, output)
    return ExitCode.PROBLEM_FOUND if any(check.state is CheckState.PROBLEM for check in checks) else ExitCode.FINE


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise CommandError(f"cannot read {file}: {why}") from error


async def _look(access: ClusterAccess, question: _Question) -> list[Check]:
    async with connection(access) as transport:
        checks = await cluster_checks(transport, question.wanted, question.lease_namespace)
        if question.wanted is CONTROLLER:
            checks.append(await gating_check(transport))
            storage, lines = await _storage(KubeApi(transport), question)
            in_use = InUse() if storage is None else storage.in_use(question.annotations)
            checks += [
                *lines,
                *await _installed(transport, question.lease_namespace, in_use, SystemClock(), question.wait),
            ]
    return [*checks, *await asyncio.gather(*(_driver_check(endpoint) for endpoint in question.endpoints))]


async def _storage(api: KubeApi, question: _Question) -> tuple[ClusterStorage | None, list[Check]]:
    drivers = {endpoint.driver for endpoint in question.endpoints}
    try:
        storage = await read_storage(api, question.annotations)
    except Forbidden as error:
        return None, [unknown_storage(error)]
    return storage, await storage_checks(api, storage, question.annotations, drivers, SystemClock().now())


async def _installed(transport: Transport, namespace: str, in_use: InUse, clock: Clock, wait: timedelta) -> list[Check]:
    """Check what is installed, again until a controller leads and nothing is a problem, or the time is over."""
    deadline = clock.monotonic() + wait.total_seconds()
    while True:
        installation, now = await read_installation(transport, CONTROLLER, namespace), clock.now()
        checks = list(installation_checks(installation, in_use, build_facts()["version"], now))
        working = leads(installation, now) and not any(check.state is CheckState.PROBLEM for check in checks)
        if working or clock.monotonic() >= deadline:
            return checks if working or not wait else [*checks, not_in_time(wait)]
        await clock.sleep(_POLL_SECONDS)


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


def _report(checks: Iterable[Check], output: Output) -> None:
    lines = [_Line(check.subject, check.state, check.found, check.meaning) for check in checks]
    if output.is_document:
        write_list("DoctorReport", lines, output)
        return
    rows = [(line.check, line.state, line.found, line.meaning) for line in lines]
    print_unbroken(table_of(("CHECK", "STATE", "FOUND", "WHAT IT MEANS"), rows, headed=output.headers), console_for())
