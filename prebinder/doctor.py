"""`pvc-prebinder doctor`: looks whether the cluster, the rights and the drivers are what the controller needs."""

import argparse
import asyncio
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from csi.channel import CallFailed, Limits
from csi.endpoint import Endpoint, parse_endpoint
from csi.session import DriverSession
from kube.clock import SystemClock
from kube.connect import connect
from kube.errors import KubeconfigError, KubeError
from kube.resource import EVENTS, LEASES, WATCHED
from kube.transport import Request, Transport
from prebinder.doctor_checks import Check, Need, State, check_rights, check_served, check_version, needs
from prebinder.errors import CommandError, ExitCode, UsageError
from prebinder.health_watch import Unobserved
from prebinder.match_report import console_for
from prebinder.volume_access import table_of

DESCRIPTION = """\
Look whether all is there that the controller needs: the server's version, the kinds it serves, the rights of the
credentials in use, and each CSI driver named by --csi-endpoint. Say what does not work without what is missing.
Nothing is changed; one's own rights are asked for by SelfSubjectAccessReview, which everybody may.
"""

EPILOG = """\
examples:
  pvc-prebinder doctor
  pvc-prebinder doctor --kubeconfig controller.kubeconfig --csi-endpoint csi.example.com=unix:///csi/csi.sock

exit codes:
  0 no problem   1 error   2 usage   3 a problem was found
"""

T = TypeVar("T", bound=Struct)

_SECONDS: Final = 10.0
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class _Version(Struct):
    git_version: str = msgspec.field(name="gitVersion", default="")


class _Served(Struct):
    name: str = ""


class _ServedList(Struct):
    resources: list[_Served] = []


class _Status(Struct):
    allowed: bool = False


class _Review(Struct):
    status: _Status | None = None


class _Line(Struct):
    check: str
    state: str
    found: str
    meaning: str


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command `doctor`."""
    parser = subparsers.add_parser("doctor", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--kubeconfig", metavar="FILE", help="default $KUBECONFIG, ~/.kube/config")
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig, default its current one")
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
    try:
        endpoints = [parse_endpoint(one) for one in arguments.csi_endpoint]
    except ValueError as error:
        raise UsageError(f"--csi-endpoint: {error}") from error
    checks = asyncio.run(_look(arguments, endpoints))
    _report(checks, arguments.output)
    return ExitCode.PROBLEM_FOUND if any(check.state is State.PROBLEM for check in checks) else ExitCode.FINE


async def _look(arguments: argparse.Namespace, endpoints: Sequence[Endpoint]) -> list[Check]:
    try:
        async with await connect(arguments.kubeconfig, arguments.context) as transport:
            found = await cluster_checks(transport, arguments.lease_namespace)
    except (KubeconfigError, KubeError) as error:
        raise CommandError(str(error)) from error
    return [*found, *await asyncio.gather(*(_driver_check(endpoint) for endpoint in endpoints))]


async def cluster_checks(transport: Transport, lease_namespace: str) -> list[Check]:
    """Return the checks of a cluster. Raises Unavailable when it does not answer."""
    version = await _read(transport, "/version", _Version)
    groups = dict.fromkeys(resource.api_version for resource in (*WATCHED, LEASES, EVENTS))
    served = {group: await _served(transport, group) for group in groups}
    wanted = list(needs())
    answers = await asyncio.gather(*(_allowed(transport, need, lease_namespace) for need in wanted))
    rights = dict(zip(wanted, answers, strict=True))
    told = version.git_version if version is not None else ""
    return [check_version(told), *check_served(served), *check_rights(rights)]


async def _served(transport: Transport, api_version: str) -> Collection[str] | None:
    path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    found = await _read(transport, path, _ServedList)
    return None if found is None else [one.name for one in found.resources]


async def _allowed(transport: Transport, need: Need, lease_namespace: str) -> bool | None:
    """Return whether a right is granted, None when the server does not say."""
    attributes = {"verb": need.verb, "group": need.resource.group, "resource": need.resource.plural}
    if need.resource is LEASES:
        attributes["namespace"] = lease_namespace
        if need.verb != "create":
            attributes["name"] = "pvc-prebinder"
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    review = await _read(transport, _REVIEWS, _Review, msgspec.json.encode(body))
    return None if review is None or review.status is None else review.status.allowed


async def _read(transport: Transport, path: str, kind: type[T], body: bytes | None = None) -> T | None:
    """Return what is at a path, None when it is refused or is not what it should be."""
    answer = await transport.send(Request("POST" if body else "GET", path, body=body, timeout=_SECONDS))
    if not 200 <= answer.status < 300:
        return None
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


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
