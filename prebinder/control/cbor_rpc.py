"""JSON-RPC 2.0 (jsonrpc.org/specification) with CBOR bodies (RFC 8949): a request body in, the response body out.

What CBOR has and JSON does not is rejected as a parse error: tags, indefinite lengths, duplicate keys. Other such items
(byte strings, `undefined`, keys that are not text) are well-formed, and invalid wherever a method reads them.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from io import BytesIO
from typing import Any, Final, NoReturn

import cbor2

MAX_CALLS: Final = 100
"""In one batch: the responses to 64 KB of minimal requests would be several megabytes."""
MAX_DEPTH: Final = 16
"""Maximum nesting of a body; a call needs three levels."""

Params = Mapping[str, Any]
Method = Callable[[Params], Awaitable[object]]
"""From the parameters, by name, to the result. Raises RpcError."""

logger = logging.getLogger(__name__)


class Code(IntEnum):
    """The codes that JSON-RPC itself defines."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603


class RpcError(Exception):
    """The error response to a call. `data` consists of CBOR's plain types, None to omit it."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


@dataclass(frozen=True, slots=True)
class _Call:
    method: str
    params: Params | Sequence[Any]
    identifier: object
    silent: bool
    """A notification: it gets no response."""


async def answer(body: bytes, methods: Mapping[str, Method]) -> bytes | None:
    """Execute one call or a batch of them; return None if there were only notifications. Calls of a batch run
    concurrently.
    """
    try:
        document = _decode(body)
    except RpcError as error:
        return _encode(_failure(None, error))
    if not isinstance(document, list):
        response = await _respond(document, methods)
        return None if response is None else _encode(response)
    if not 0 < len(document) <= MAX_CALLS:
        text = f"a batch has 1 to {MAX_CALLS} calls, found {len(document)}"
        return _encode(_failure(None, RpcError(Code.INVALID_REQUEST, text)))
    responses = await asyncio.gather(*(_respond(call, methods) for call in document))
    answered = [response for response in responses if response is not None]
    return _encode(answered) if answered else None


def _decode(body: bytes) -> object:
    # Created for each body: a decoder remembers every tag that it has seen.
    no_tags: defaultdict[int, Callable[[object, bool], NoReturn]] = defaultdict(lambda: _reject_tag)
    decoder = cbor2.CBORDecoder(
        BytesIO(body),
        semantic_decoders=no_tags,
        max_depth=MAX_DEPTH,
        allow_indefinite=False,
        allow_duplicate_keys=False,
    )
    try:
        document = decoder.decode()
    except cbor2.CBORDecodeError as error:
        raise RpcError(Code.PARSE_ERROR, f"invalid CBOR: {error.__cause__ or error}") from error
    try:
        decoder.read(1)
    except cbor2.CBORDecodeEOF:
        return document
    raise RpcError(Code.PARSE_ERROR, "invalid CBOR: trailing data after the first item")


def _reject_tag(_: object, __: bool) -> NoReturn:
    raise ValueError("tags are not allowed")


async def _respond(request: object, methods: Mapping[str, Method]) -> object:
    try:
        call = _read(request)
    except RpcError as error:
        return _failure(_identifier(request), error)
    try:
        result = await _perform(call, methods)
    except RpcError as error:
        return None if call.silent else _failure(call.identifier, error)
    return None if call.silent else {"jsonrpc": "2.0", "result": result, "id": call.identifier}


async def _perform(call: _Call, methods: Mapping[str, Method]) -> object:
    method = methods.get(call.method)
    if method is None:
        text = f'unknown method "{call.method[:60]}": expected {" or ".join(sorted(methods))}'
        raise RpcError(Code.METHOD_NOT_FOUND, text)
    if not isinstance(call.params, Mapping):
        raise RpcError(Code.INVALID_PARAMS, "params: expected a map; positional parameters are not supported")
    if not all(isinstance(name, str) for name in call.params):
        raise RpcError(Code.INVALID_PARAMS, "params: expected strings as keys")
    try:
        return await method(call.params)
    except RpcError:
        raise
    except Exception as error:
        logger.exception("Request failed", extra={"method": call.method})
        raise RpcError(Code.INTERNAL_ERROR, "this is a bug in pvc-prebinder; the traceback is in its log") from error


def _read(request: object) -> _Call:
    if not isinstance(request, dict):
        raise RpcError(Code.INVALID_REQUEST, f"expected a map, found {type(request).__name__}")
    if request.get("jsonrpc") != "2.0":
        raise RpcError(Code.INVALID_REQUEST, 'jsonrpc: expected "2.0"')
    method, params = request.get("method"), request.get("params", {})
    if not isinstance(method, str):
        raise RpcError(Code.INVALID_REQUEST, "method: expected a string")
    if not isinstance(params, dict | list):
        raise RpcError(Code.INVALID_REQUEST, "params: expected a map")
    if not _is_identifier(request.get("id")):
        raise RpcError(Code.INVALID_REQUEST, "id: expected a string, a number or null")
    return _Call(method, params, request.get("id"), silent="id" not in request)


def _identifier(request: object) -> object:
    """Return the id of an invalid request, null if it has none."""
    identifier = request.get("id") if isinstance(request, dict) else None
    return identifier if _is_identifier(identifier) else None


def _is_identifier(value: object) -> bool:
    return value is None or (isinstance(value, str | int | float) and not isinstance(value, bool))


def _failure(identifier: object, error: RpcError) -> object:
    details: dict[str, object] = {"code": int(error.code), "message": error.message}
    if error.data is not None:
        details["data"] = error.data
    return {"jsonrpc": "2.0", "error": details, "id": identifier}


def _encode(response: object) -> bytes:
    return cbor2.dumps(response)
