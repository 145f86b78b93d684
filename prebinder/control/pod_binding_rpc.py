"""`bind.pod` and `unbind.pod`: the methods of the control port by which a tool controls the scheduler."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Protocol, TypeVar

from pydantic import ConfigDict, StringConstraints, TypeAdapter, ValidationError

from binder.matching.rejection import Rejection
from kube.configuration.document import misfit
from prebinder.control.cbor_rpc import Code, Method, Params, RpcError
from scheduler.binding.pod_binding import Bound, Rejected, RejectionReason, Released

ANSWER_SECONDS: Final = 120.0
"""After that a call is answered although the pod is still being bound. Provisioning a volume takes time."""
MAX_REJECTIONS: Final = 100
"""Returned in one response; the number of further ones is returned as well."""
TIMED_OUT: Final = -32007
CODES: Final[Mapping[RejectionReason, int]] = {
    RejectionReason.NOT_READY: -32001,
    RejectionReason.POD_NOT_FOUND: -32002,
    RejectionReason.NOT_OURS: -32003,
    RejectionReason.ALREADY_BOUND: -32004,
    RejectionReason.REJECTED: -32005,
    RejectionReason.FAILED: -32006,
}
"""Within the range that JSON-RPC leaves to servers."""
_NOT_LEADING: Final = Rejected(
    RejectionReason.NOT_READY,
    "this replica does not schedule: its caches are not synced, or another replica holds the Lease",
)


class PodBinding(Protocol):
    """Binds one pod now, or withdraws it. Key: `namespace/name`; uid empty: whichever pod has that name.

    Neither raises for a caller's error: that is a Rejected. Any other exception is a bug and is reported as an internal
    error. Both may be called at any time, before the first list and without the Lease too, and concurrently; if a pod
    is being bound already, the call waits for it and does not bind twice. Cancelling the call only stops waiting: what
    has begun is finished or rolled back without the caller.
    """

    async def bind(self, key: str, uid: str, node: str) -> Bound | Rejected:
        """Schedule a waiting pod ahead of its turn and return when its Binding has succeeded or the attempt has failed.

        With `node` only that node is considered, after all filters; empty: the scheduler chooses. Neither backoff nor
        an earlier failure delays it, but a pod with scheduling gates is rejected. A rejected pod stays in the queue, as
        after any other failed attempt.
        """

    async def unbind(self, key: str, uid: str) -> Released | Rejected:
        """Release the node and the volumes reserved for a pod whose Binding has not been sent; the pod waits again.

        If nothing is reserved for the pod, the result is Released with an empty node. If its Binding was sent, the call
        waits for it, and is rejected as ALREADY_BOUND if that succeeded.
        """


_Label = Annotated[str, StringConstraints(strict=True, pattern=r"\A[a-z0-9]([-a-z0-9]*[a-z0-9])?\z", max_length=63)]
_Name = Annotated[str, StringConstraints(strict=True, pattern=r"\A[a-z0-9]([-.a-z0-9]*[a-z0-9])?\z", max_length=253)]
_Uid = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=128)]


@dataclass(frozen=True, slots=True)
class _Unbind:
    __pydantic_config__ = ConfigDict(extra="forbid")

    namespace: _Label
    name: _Name
    uid: _Uid | None = None


@dataclass(frozen=True, slots=True)
class _Bind(_Unbind):
    node: _Name | None = None


_BIND: Final = TypeAdapter(_Bind)
_UNBIND: Final = TypeAdapter(_Unbind)

Wanted = TypeVar("Wanted", _Bind, _Unbind)
Outcome = TypeVar("Outcome", Bound, Released)


def pod_binding_methods(
    present: Callable[[], PodBinding | None], seconds: float = ANSWER_SECONDS
) -> Mapping[str, Method]:
    """Return the methods by name. `present` binds pods now, None while this replica does not schedule.

    A call that takes longer than `seconds` is answered with TIMED_OUT.
    """

    def binding() -> PodBinding:
        current = present()
        if current is None:
            raise _error(_NOT_LEADING)
        return current

    async def bind(params: Params) -> object:
        wanted = _convert(params, _BIND)
        bound = await _within(seconds, binding().bind(_key(wanted), wanted.uid or "", wanted.node or ""))
        return {
            "node": bound.node,
            "zone": bound.zone,
            "volumes": dict(bound.volumes),
            "provisioned": list(bound.provisioned),
        }

    async def unbind(params: Params) -> object:
        wanted = _convert(params, _UNBIND)
        released = await _within(seconds, binding().unbind(_key(wanted), wanted.uid or ""))
        return {"released": bool(released.node), "node": released.node}

    return {"bind.pod": bind, "unbind.pod": unbind}


def _key(wanted: _Bind | _Unbind) -> str:
    return f"{wanted.namespace}/{wanted.name}"


def _convert(params: Params, to: TypeAdapter[Wanted]) -> Wanted:
    try:
        return to.validate_python(params)
    except ValidationError as error:
        wrong = misfit(error, to)
        place = f"params.{wrong.place}" if wrong.place else "params"
        raise RpcError(Code.INVALID_PARAMS, f"{place}: {wrong.problem}") from error


async def _within(seconds: float, outcome: Awaitable[Outcome | Rejected]) -> Outcome:
    try:
        async with asyncio.timeout(seconds):
            result = await outcome
    except TimeoutError as error:
        text = f"no result after {seconds:g} s; the operation continues: check the pod"
        raise RpcError(TIMED_OUT, text) from error
    if isinstance(result, Rejected):
        raise _error(result)
    return result


def _error(rejected: Rejected) -> RpcError:
    data: dict[str, object] = {"reason": str(rejected.reason)}
    if rejected.rejections:
        data["rejections"] = [_document(rejection) for rejection in rejected.rejections[:MAX_REJECTIONS]]
        data["more"] = max(0, len(rejected.rejections) - MAX_REJECTIONS)
    return RpcError(CODES[rejected.reason], rejected.text, data)


def _document(rejection: Rejection) -> Mapping[str, str]:
    return {
        "subject": rejection.subject,
        "reason": str(rejection.reason),
        "wanted": rejection.wanted,
        "offered": rejection.offered,
    }
