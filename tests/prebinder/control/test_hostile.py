"""Three thousand bodies that no tool would send: each is answered by the right code, and nothing breaks."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import cbor2

from prebinder.control.server import MAX_CALL_BYTES
from scheduler.binding.pod_binding import Bound
from tests.prebinder.control_port import Scripted, controlled

SEED: Final = 20
EACH: Final = 370
HUGE: Final = 40
PARSE, REQUEST, METHOD, PARAMS = -32700, -32600, -32601, -32602
GARBAGE: Final[tuple[Any, ...]] = (
    *(None, True, -1, 2**63, -(2**64), 1e999, float("nan"), 0.5, "", "\x00", "💥", b"", b"\xff"),
    *([], [[]], {}, {"": {}}, {1: 2}, {b"x": None}, [None], cbor2.undefined, cbor2.CBORSimpleValue(99)),
)
CODES: Final = frozenset({PARSE, REQUEST, METHOD, PARAMS})
Body = tuple[bytes, frozenset[int | None]]
"""The bytes, and the codes that are right for it; None is a result."""


def call(random: Random) -> dict[str, Any]:
    params = {"namespace": "default", "name": f"web-{random.randrange(9)}"}
    if random.random() < 0.5:
        params |= {"uid": "1-2-3", "node": "n1"}
    return {"jsonrpc": "2.0", "id": random.randrange(99), "method": "bind.pod", "params": params}


def truncated(random: Random) -> Body:
    body = cbor2.dumps(call(random))
    return body[: random.randrange(len(body))], frozenset({PARSE})


def noisy(random: Random) -> Body:
    """Some bytes are other ones; what is still CBOR may be right."""
    body = bytearray(cbor2.dumps(call(random)))
    for _ in range(random.randint(1, 8)):
        body[random.randrange(len(body))] = random.randrange(256)
    return bytes(body), CODES | {None}


def garbage(random: Random) -> Body:
    return b"\xff" + random.randbytes(random.randrange(200)), frozenset({PARSE})


def mistyped(random: Random) -> Body:
    """Something somewhere is of another type."""
    body = call(random)
    inner = random.choice([body, body["params"]])
    inner[random.choice(list(inner))] = random.choice(GARBAGE)
    return cbor2.dumps(body), frozenset({REQUEST, METHOD, PARAMS, None})


def tagged(random: Random) -> Body:
    body = call(random)
    tag = random.choice([0, 1, 2, 4, 5, 25, 28, 29, 30, 35, 36, 37, 100, 256, 258, 260, 55799, random.randrange(2**63)])
    body["params"]["name"] = cbor2.CBORTag(tag, random.choice(["(a+)+", b"\xff" * 99, [1, 10**9], 0, {}]))
    return cbor2.dumps(body), frozenset({PARSE})


def nested(random: Random) -> Body:
    opening = random.choice([b"\x81", b"\xa1\x61a", b"\xa1", b"\x9f", b"\xbf\x61a", b"\xc1"])
    return opening * random.randint(20, MAX_CALL_BYTES // 4), frozenset({PARSE})


def indefinite(random: Random) -> Body:
    return cbor2.dumps(call(random), indefinite_containers=True), frozenset({PARSE})


def boundless(random: Random) -> Body:
    """Says that more follows than there is memory."""
    major = random.choice([0x5B, 0x7B, 0x9B, 0xBB])
    return bytes([major]) + random.randbytes(8) + random.randbytes(50), frozenset({PARSE})


def bodies() -> Iterator[Body]:
    random = Random(SEED)
    kinds: list[Callable[[Random], Body]]
    kinds = [truncated, noisy, garbage, mistyped, tagged, nested, indefinite, boundless] * EACH
    random.shuffle(kinds)
    for kind in kinds:
        yield kind(random)


async def test_three_thousand_hostile_bodies(tmp_path: Path) -> None:
    codes: Counter[int | None] = Counter()
    async with controlled(tmp_path, Scripted(Bound("n1"))) as control:
        for body, right in bodies():
            status, content = await control.post(body)
            if status == 204:  # the noise took the id away
                codes[None] += 1
                continue
            assert status == 200, (body[:300], status)
            answer = cbor2.loads(content)
            code = answer["error"]["code"] if "error" in answer else None
            codes[code] += 1
            assert code in right, (body[:300], answer)
        for extra in range(1, HUGE + 1):
            assert (await control.post(b"\x00" * (MAX_CALL_BYTES + extra)))[0] == 413
        assert (await control.call("bind.pod", {"namespace": "a", "name": "b"}))["result"]["node"] == "n1"
    assert codes.total() == 8 * EACH
    assert codes[PARSE] >= 6 * EACH
    assert min(codes[REQUEST], codes[METHOD], codes[PARAMS], codes[None]) > 10, codes
