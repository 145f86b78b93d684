"""JSON-RPC 2.0 as its specification says, in CBOR."""

from typing import Any

import cbor2
import pytest

from prebinder.control.cbor_rpc import MAX_CALLS, MAX_DEPTH, Code, Params, RpcError, answer


class Methods:
    def __init__(self) -> None:
        self.performed: list[object] = []

    async def add(self, params: Params) -> object:
        self.performed.append(dict(params))
        return params.get("a", 0) + params.get("b", 0)

    async def fail(self, _: Params) -> object:
        raise RpcError(-32042, "as told", {"why": "asked to"})

    async def crash(self, _: Params) -> object:
        raise ZeroDivisionError

    async def respond(self, body: bytes) -> Any:
        response = await answer(body, {"add": self.add, "fail": self.fail, "crash": self.crash})
        return None if response is None else cbor2.loads(response)


def request(method: object = "add", **others: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "method": method, "id": 7, **others}


def notification(method: str = "add", **others: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "method": method, **others}


async def test_a_call_is_answered_with_its_id() -> None:
    response = await Methods().respond(cbor2.dumps(request(params={"a": 1, "b": 2}, id="x")))
    assert response == {"jsonrpc": "2.0", "result": 3, "id": "x"}


@pytest.mark.parametrize(
    ("body", "code", "identifier"),
    [
        pytest.param(cbor2.dumps(request("none")), Code.METHOD_NOT_FOUND, 7, id="no such method"),
        pytest.param(cbor2.dumps(request("none", params=[1])), Code.METHOD_NOT_FOUND, 7, id="that comes first"),
        pytest.param(cbor2.dumps(request(params=[1, 2])), Code.INVALID_PARAMS, 7, id="by position"),
        pytest.param(cbor2.dumps(request(1)), Code.INVALID_REQUEST, 7, id="method is a number"),
        pytest.param(cbor2.dumps(request(params="x")), Code.INVALID_REQUEST, 7, id="params are a text"),
        pytest.param(cbor2.dumps(request(params=None)), Code.INVALID_REQUEST, 7, id="params are null"),
        pytest.param(cbor2.dumps(request(id=[1])), Code.INVALID_REQUEST, None, id="id is a list"),
        pytest.param(cbor2.dumps(request(id=True)), Code.INVALID_REQUEST, None, id="id is a boolean"),
        pytest.param(cbor2.dumps(request(jsonrpc="1.0")), Code.INVALID_REQUEST, 7, id="another version"),
        pytest.param(cbor2.dumps({"method": "add", "id": 7}), Code.INVALID_REQUEST, 7, id="no version"),
        pytest.param(cbor2.dumps({}), Code.INVALID_REQUEST, None, id="nothing in it"),
        pytest.param(cbor2.dumps("add"), Code.INVALID_REQUEST, None, id="a text"),
        pytest.param(cbor2.dumps([]), Code.INVALID_REQUEST, None, id="an empty batch"),
        pytest.param(cbor2.dumps([0] * (MAX_CALLS + 1)), Code.INVALID_REQUEST, None, id="a batch too large"),
        pytest.param(cbor2.dumps({1: 2, b"x": None}), Code.INVALID_REQUEST, None, id="keys that are no text"),
        pytest.param(cbor2.dumps(cbor2.undefined), Code.INVALID_REQUEST, None, id="undefined"),
        pytest.param(cbor2.dumps(request("crash")), Code.INTERNAL_ERROR, 7, id="a bug"),
        pytest.param(b"", Code.PARSE_ERROR, None, id="empty"),
        pytest.param(cbor2.dumps(request())[:-1], Code.PARSE_ERROR, None, id="cut off"),
        pytest.param(cbor2.dumps(request()) + b"\0", Code.PARSE_ERROR, None, id="something after it"),
        pytest.param(b"\x81" * 60_000, Code.PARSE_ERROR, None, id="deep lists"),
        pytest.param(b"\xa1" * 60_000, Code.PARSE_ERROR, None, id="deep keys"),
        pytest.param(b"\x9f" * 60_000, Code.PARSE_ERROR, None, id="deep lists without an end"),
        pytest.param(b"\x81" * (MAX_DEPTH + 1) + b"\0", Code.PARSE_ERROR, None, id="one level too deep"),
        pytest.param(b"\x9f\x01\xff", Code.PARSE_ERROR, None, id="list of indefinite length"),
        pytest.param(b"\xbf\x61a\x01\xff", Code.PARSE_ERROR, None, id="map of indefinite length"),
        pytest.param(b"\x7f\x61a\xff", Code.PARSE_ERROR, None, id="text of indefinite length"),
        pytest.param(b"\x5f\x41a\xff", Code.PARSE_ERROR, None, id="bytes of indefinite length"),
        pytest.param(b"\x9b" + b"\x7f" * 8, Code.PARSE_ERROR, None, id="a list longer than memory"),
        pytest.param(b"\xbb" + b"\x7f" * 8, Code.PARSE_ERROR, None, id="a map longer than memory"),
        pytest.param(b"\x5b" + b"\x7f" * 8, Code.PARSE_ERROR, None, id="bytes longer than memory"),
        pytest.param(b"\x7b" + b"\x7f" * 8, Code.PARSE_ERROR, None, id="a text longer than memory"),
        pytest.param(b"\x61\xff", Code.PARSE_ERROR, None, id="not UTF-8"),
        pytest.param(b"\xff", Code.PARSE_ERROR, None, id="an end without a beginning"),
        pytest.param(b"\x1c", Code.PARSE_ERROR, None, id="a reserved length"),
        pytest.param(b"\xa2\x61a\x01\x61a\x02", Code.PARSE_ERROR, None, id="a key twice"),
        pytest.param(b"\xd9\xd9\xf7\xa0", Code.PARSE_ERROR, None, id="tag: self-described"),
        pytest.param(b"\xd8\x23\x63(a+", Code.PARSE_ERROR, None, id="tag: regular expression"),
        pytest.param(b"\xc4\x82\x1a\x3b\x9a\xca\x00\x01", Code.PARSE_ERROR, None, id="tag: decimal of 1e9 digits"),
        pytest.param(b"\xd8\x1c\x81\xd8\x1d\x00", Code.PARSE_ERROR, None, id="tag: a list in itself"),
        pytest.param(b"\xd9\x01\x00\x81\xd8\x19\x00", Code.PARSE_ERROR, None, id="tag: references to texts"),
        pytest.param(b"\xd8\x24\x61a", Code.PARSE_ERROR, None, id="tag: MIME"),
        pytest.param(b"\xc2\x59\xf0\x00" + b"\xff" * 0xF000, Code.PARSE_ERROR, None, id="tag: a huge number"),
        pytest.param(b"\xdb" + b"\xff" * 8 + b"\0", Code.PARSE_ERROR, None, id="an unknown tag"),
    ],
)
async def test_what_is_wrong_is_answered_by_code(body: bytes, code: int, identifier: object) -> None:
    methods = Methods()
    response = await methods.respond(body)
    assert set(response) == {"jsonrpc", "error", "id"}
    assert (response["jsonrpc"], response["error"]["code"], response["id"]) == ("2.0", code, identifier), response
    assert isinstance(response["error"]["message"], str)
    assert len(response["error"]["message"]) < 300
    assert methods.performed == []


async def test_an_error_of_a_method_carries_its_data() -> None:
    response = await Methods().respond(cbor2.dumps(request("fail")))
    assert response["error"] == {"code": -32042, "message": "as told", "data": {"why": "asked to"}}


@pytest.mark.parametrize("method", ["add", "fail", "crash", "none"])
async def test_a_notification_is_performed_and_not_answered(method: str) -> None:
    methods = Methods()
    assert await methods.respond(cbor2.dumps(notification(method))) is None
    assert methods.performed == ([{}] if method == "add" else [])


async def test_a_call_with_the_id_null_is_answered() -> None:
    assert (await Methods().respond(cbor2.dumps(request(id=None)))) == {"jsonrpc": "2.0", "result": 0, "id": None}


async def test_a_batch_is_answered_in_its_order_without_its_notifications() -> None:
    batch = [request(id=1, params={"a": 1}), notification(params={"a": 2}), 3, request("fail", id=4)]
    methods = Methods()
    response = await methods.respond(cbor2.dumps(batch))
    assert [entry["id"] for entry in response] == [1, None, 4]
    assert [entry["error"]["code"] if "error" in entry else entry["result"] for entry in response] == [
        1,
        -32600,
        -32042,
    ]
    assert methods.performed == [{"a": 1}, {"a": 2}]


async def test_a_batch_of_notifications_is_not_answered() -> None:
    assert await Methods().respond(cbor2.dumps([notification(), notification()])) is None
