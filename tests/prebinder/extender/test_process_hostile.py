"""Five thousand bodies that kube-scheduler would never send: each gets the right status code, and nothing breaks."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from prebinder.extender.server import MAX_BODY_BYTES
from tests.builders import claim
from tests.prebinder.running_extender import RunningExtender, running_extender
from tests.scheduler.extender_requests import extender, nodes, pod, unhealthy_volume

SEED: Final = 20
EACH: Final = 711
HUGE: Final = 23
KNOWN: Final = ["n1", "n2", "n3", "n4"]
GARBAGE: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    10**40,
    1e999,
    "",
    "\x00",
    "💥",
    [],
    [[]],
    {},
    {"": {}},
    [None],
    {"a": 1},
)

Hostile = tuple[str, bytes, frozenset[int]]
"""The verb, the body, and the status codes that are right for it."""


def document(random: Random) -> dict[str, Any]:
    names = random.sample(KNOWN, random.randint(1, 4))
    return {"Pod": pod(random.choice([["data"], ["data", "log"], []])), "Nodes": None, "NodeNames": names}


def truncated(random: Random) -> tuple[bytes, frozenset[int]]:
    body = json.dumps(document(random)).encode()
    return body[: random.randrange(len(body))], frozenset({400})


def noisy(random: Random) -> tuple[bytes, frozenset[int]]:
    """Some bytes are other ones; what is still JSON may be right."""
    body = bytearray(json.dumps(document(random)).encode())
    for _ in range(random.randint(1, 8)):
        body[random.randrange(len(body))] = random.randrange(256)
    return bytes(body), frozenset({200, 400})


def garbage(random: Random) -> tuple[bytes, frozenset[int]]:
    return b"\x00" + random.randbytes(random.randrange(200)), frozenset({400})


def mistyped(random: Random) -> tuple[bytes, frozenset[int]]:
    """Something somewhere is of another type, most often where no rule reads it."""
    body = document(random)
    inner: Any = body
    while isinstance(inner, dict | list) and inner:
        key = random.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
        if not isinstance(inner[key], dict | list) or random.random() < 0.3:
            inner[key] = random.choice(GARBAGE)
            break
        inner = inner[key]
    return json.dumps(body).encode(), frozenset({200, 400})


def unknown(random: Random) -> tuple[bytes, frozenset[int]]:
    body = document(random)
    body["NodeNames"] = ["".join(chr(random.randrange(1, 0xD800)) for _ in range(9)) for _ in range(5)]
    return json.dumps(body).encode(), frozenset({200})


def recased(random: Random) -> tuple[bytes, frozenset[int]]:
    body = {"".join(random.choice([c.upper(), c.lower()]) for c in key): part for key, part in document(random).items()}
    return json.dumps(body).encode(), frozenset({200})


def nested(random: Random) -> tuple[bytes, frozenset[int]]:
    return b'{"Pod":' + random.choice([b"[", b'{"a":']) * random.randint(2_000, 50_000), frozenset({400})


def huge(random: Random) -> tuple[bytes, frozenset[int]]:
    return b'{"Pod":"' + b"x" * (10_000_000 + random.randrange(1000)), frozenset({413})


def bodies() -> Iterator[Hostile]:
    """Seven kinds of small ones, and a few of 10 MB among them."""
    random = Random(SEED)
    small: list[Callable[[Random], tuple[bytes, frozenset[int]]]]
    small = [truncated, noisy, garbage, mistyped, unknown, recased, nested]
    kinds = [*small * EACH, *[huge] * HUGE]
    random.shuffle(kinds)
    for kind in kinds:
        body, right = kind(random)
        yield random.choice(["filter", "prioritize"]), body, right


def check_answer(verb: str, body: bytes, answer: bytes) -> None:
    """Every node of the request is in the answer, or no node has a score."""
    result = json.loads(answer)
    if verb == "prioritize":
        assert all(type(priority["Score"]) is int and 0 <= priority["Score"] <= 10 for priority in result)
        nodes = [priority["Host"] for priority in result]
    else:
        nodes = [*(result["NodeNames"] or ()), *result["FailedAndUnresolvableNodes"]]
        assert result["Error"] == ""
    # Texts that nobody reads need not be UTF-8.
    read = json.loads(body.decode(errors="replace"), strict=False)
    parts = {key.lower(): part for key, part in read.items()}
    assert set(nodes) == set(parts.get("nodenames") or ()) or (verb == "prioritize" and not nodes)


async def good(server: RunningExtender) -> bool:
    status, _ = await server.answered("filter", json.dumps(document(Random(1))).encode())
    return status == 200


async def test_five_thousand_hostile_bodies() -> None:
    answers = extender([*nodes(), claim("data"), claim("log"), unhealthy_volume("pv-a", zone="a")])
    statuses: Counter[int] = Counter()
    async with running_extender(answers) as server:
        for verb, body, right in bodies():
            status, answer = await server.answered(verb, body)
            statuses[status] += 1
            assert status in right, (verb, body[:300], status, answer[:300])
            if status == 200:
                check_answer(verb, body, answer)
        assert await good(server)
        assert server.counts.inflight == 0
    assert statuses.total() == 7 * EACH + HUGE == 5_000
    assert statuses[413] == HUGE
    assert MAX_BODY_BYTES < 10_000_000
    assert min(statuses[200], statuses[400]) > 1_400, statuses
