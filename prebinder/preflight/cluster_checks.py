"""Reads an API server's version, the kinds it serves and our rights there. Nothing is changed."""

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from kube.client.transport import Request, Response, Transport
from kube.errors import error_from_status
from kube.objects.api_resource import Resource
from prebinder.preflight.doctor_checks import (
    ADMISSION,
    Check,
    Served,
    check_gating,
    check_rights,
    check_served,
    check_version,
)
from prebinder.preflight.requirements import Need, Requirements

T = TypeVar("T", bound=Struct)

_SECONDS: Final = 10.0
_VERSION_PATH: Final = "/version"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1"


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


@dataclass(frozen=True, slots=True)
class ApiOffer:
    """A server's version, empty if it reports none, and what it serves."""

    version: str
    served: Served


async def offer_of(transport: Transport, kinds: Iterable[Resource]) -> ApiOffer:
    """Return the version, and what is served in the APIs of these kinds.

    Raises Unavailable if the server does not respond, Unauthorized if the credentials are rejected: every other result
    would only repeat that.
    """
    answer = await transport.send(Request("GET", _VERSION_PATH, timeout=_SECONDS))
    if answer.status == HTTPStatus.UNAUTHORIZED:
        raise error_from_status("GET", _VERSION_PATH, answer.status, answer.body, answer.headers)
    version = _decoded(answer, _Version)
    groups = dict.fromkeys(resource.api_version for resource in kinds)
    served = {group: await _served(transport, group) for group in groups}
    return ApiOffer(version.git_version if version is not None else "", served)


async def cluster_checks(transport: Transport, wanted: Requirements, lease_namespace: str) -> list[Check]:
    """Return the checks of a cluster. Raises the same errors as `offer_of`."""
    offer = await offer_of(transport, wanted.kinds)
    reviews = (is_allowed(transport, need, wanted.lease, lease_namespace) for need in wanted.rights)
    rights = dict(zip(wanted.rights, await asyncio.gather(*reviews), strict=True))
    return [check_version(offer.version), *check_served(offer.served, wanted.kinds), *check_rights(rights)]


async def gating_check(transport: Transport) -> Check:
    """Return how pods of this cluster can get the scheduling gate."""
    return check_gating(await _served(transport, ADMISSION))


async def _served(transport: Transport, api_version: str) -> Collection[str] | None:
    path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    answer = await transport.send(Request("GET", path, timeout=_SECONDS))
    if answer.status == HTTPStatus.NOT_FOUND:
        return ()
    listed = _decoded(answer, _ServedList)
    return None if listed is None else [resource.name for resource in listed.resources]


async def is_allowed(
    transport: Transport, need: Need, lease: str, lease_namespace: str, account: str = ""
) -> bool | None:
    """Return whether a right is granted to the user, or to that ServiceAccount of the namespace; None if the server
    does not say.
    """
    spec: dict[str, object] = {"resourceAttributes": need.attributes(lease, lease_namespace)}
    if account:
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{lease_namespace}", "system:authenticated"]
        spec |= {"user": f"system:serviceaccount:{lease_namespace}:{account}", "groups": groups}
    kind = "SubjectAccessReview" if account else "SelfSubjectAccessReview"
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    review = await read_as(transport, f"{_REVIEWS}/{kind.lower()}s", _Review, msgspec.json.encode(body))
    return None if review is None or review.status is None else review.status.allowed


async def read_as(transport: Transport, path: str, kind: type[T], body: bytes | None = None) -> T | None:
    """Return the object at a path, None if the request is rejected or the response is not as expected."""
    answer = await transport.send(Request("POST" if body else "GET", path, body=body, timeout=_SECONDS))
    return _decoded(answer, kind)


def _decoded(answer: Response, kind: type[T]) -> T | None:
    if not 200 <= answer.status < 300:
        return None
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
