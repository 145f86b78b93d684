"""`pvc-prebinder doctor`: looks whether the cluster, the rights and the drivers are what is needed."""

import argparse
import asyncio
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from csi.channel import CallFailed, Limits
from csi.endpoint import Endpoint, parse_endpoint
from csi.session import DriverSession
from kube.clock import SystemClock
from kube.connect import connect
from kube.errors import KubeconfigError, KubeError, Unauthorized
from prebinder.cluster_checks import cluster_checks
from prebinder.doctor_checks import Check, State
from prebinder.errors import CommandError, ExitCode, UsageError
from prebinder.health_watch import Unobserved
from prebinder.kube_scheduler_checks import scheduler_file_checks
from prebinder.logs import configure
from prebinder.match_report import console_for
from prebinder.requirements import CONTROLLER, SCHEDULER
from prebinder.settings import LoggingSettings, LogLevel
from prebinder.volume_access import table_of

DESCRIPTION = """\
Looks whether all is there that the controller, or the scheduler, needs: the server's version, the kinds it serves, the
rights of the credentials in use, and each CSI driver named by --csi-endpoint. Says what does not work without what is
missing.
With --scheduler-config it looks at a file of kube-scheduler instead.
Nothing is changed; one's own rights are asked for by SelfSubjectAccessReview, which everybody may.
"""

EPILOG = """\
examples:
  pvc-prebinder doctor
  pvc-prebinder doctor --scheduler
  pvc-prebinder doctor --scheduler-config /etc/kubernetes/scheduler/config.yaml
      whether kube-scheduler, with this file, asks the extender as it should; needs no cluster
  pvc-prebinder doctor --kubeconfig controller.kubeconfig --csi-endpoint csi.example.com=unix:///csi/csi.sock

exit codes:
  0 no problem   1 error   2 usage   3 a problem was found
"""


class _Line(Struct):
    check: str
    state: str
    found: str
    meaning: str


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command `doctor`."""
    parser = subparsers.add_parser("doctor", usage="%(prog)s [flags]", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument(
        "--kubeconfig", metavar="FILE", help="default $KUBECONFIG, ~/.kube/config, the pod's service account"
    )
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig, default its current one")
    parser.add_argument("--scheduler", action="store_true", help="look for what the standalone scheduler needs instead")
    parser.add_argument(
        "--scheduler-config",
        metavar="FILE",
        help="look at a KubeSchedulerConfiguration instead: does it make kube-scheduler ask the extender?",
    )
    parser.add_argument(
        "--lease-namespace", default="pvc-prebinder-system", metavar="NAME", help="default pvc-prebinder-system"
    )
    parser.add_argument(
        "--csi-endpoint",
        action="append",
        default=[],
        metavar="NAME=unix:///PATH",
        help="a driver that must answer; NAME is the driver's, as in spec.csi.driver; repeatable",
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default table")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Look and report. Raises CommandError for a cluster that cannot be reached, UsageError for a bad endpoint."""
    # What a driver answers is in the report; it need not be logged beside it.
    configure(LoggingSettings(level=LogLevel(arguments.log_level or LogLevel.ERROR)))
    if arguments.scheduler_config:
        checks = scheduler_file_checks(_text_of(arguments.scheduler_config))
        return _finish(checks, arguments.output)
    try:
        endpoints = [parse_endpoint(one) for one in arguments.csi_endpoint]
    except ValueError as error:
        raise UsageError(f"--csi-endpoint: {error}") from error
    return _finish(asyncio.run(_look(arguments, endpoints)), arguments.output)


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise CommandError(f"cannot read {file}: {why}") from error


def _finish(checks: Sequence[Check], output: str) -> int:
    _report(checks, output)
    return ExitCode.PROBLEM_FOUND if any(check.state is State.PROBLEM for check in checks) else ExitCode.FINE


async def _look(arguments: argparse.Namespace, endpoints: Sequence[Endpoint]) -> list[Check]:
    try:
        async with await connect(arguments.kubeconfig, arguments.context) as transport:
            wanted = SCHEDULER if arguments.scheduler else CONTROLLER
            found = await cluster_checks(transport, wanted, arguments.lease_namespace)
    except Unauthorized as error:
        raise CommandError(f"{error}; log in anew, these credentials are not accepted") from error
    except (KubeconfigError, KubeError) as error:
        raise CommandError(str(error)) from error
    return [*found, *await asyncio.gather(*(_driver_check(endpoint) for endpoint in endpoints))]


async def _driver_check(endpoint: Endpoint) -> Check:
    """Ask a driver who it is and what it can be asked."""
    session = DriverSession(endpoint, Limits(), SystemClock(), Unobserved())
    subject = f"CSI driver {endpoint.driver}"
    try:
        agreed = await session.negotiated()
    except CallFailed as failed:
        return Check(subject, State.PROBLEM, str(failed), "its volumes count as of unknown health")
    finally:
        await session.close()
    if agreed.protocol is None:
        return Check(subject, State.NOTE, "answers", "it cannot say how volumes are: their health is unknown")
    return Check(subject, State.OK, f"answers; volumes are asked about by {agreed.protocol}")


def _report(checks: Iterable[Check], output: str) -> None:
    lines = [_Line(check.subject, check.state, check.found, check.meaning) for check in checks]
    if output == "json":
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(lines), indent=2).decode() + "\n")
        return
    rows = [(line.check, line.state, line.found, line.meaning) for line in lines]
    console_for().print(table_of(("CHECK", "STATE", "FOUND", "WHAT IT MEANS"), rows))
