"""A reflector on a scripted server, and a sink that records its calls."""

import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

import msgspec

from kube.client.api import KubeApi
from kube.client.reflector import Reflector
from kube.client.transport import Request
from kube.objects.api_resource import CLAIMS
from tests.fake_clock import FakeClock
from tests.kube.scripted_transport import Answer, ScriptedTransport, Step, answer, listing, thing
from tests.running_task import running


class Meta(msgspec.Struct):
    name: str
    resource_version: str = msgspec.field(name="resourceVersion")


class Thing(msgspec.Struct):
    """A record that insists on a spec, as real decoders insist on something."""

    metadata: Meta
    spec: dict[str, str]


class Held:
    """A sink, and the observer of what happened on the way."""

    def __init__(self) -> None:
        self.things: dict[str, str] = {}
        self.lists = 0
        self.causes: list[str] = []
        self.malformed_seen = 0
        self.seen: list[datetime] = []

    def replace_in_steps(self, items: Iterable[Thing], resource_version: str) -> Iterator[None]:
        yield
        self.lists += 1
        self.things = {item.metadata.name: item.metadata.resource_version for item in items}

    def upsert(self, item: Thing) -> None:
        self.things[item.metadata.name] = item.metadata.resource_version

    def delete(self, key: str, version: int) -> None:
        self.things.pop(key, None)

    def watch_restarted(self, resource: str, cause: str) -> None:
        assert resource == "persistentvolumeclaims"
        self.causes.append(cause)

    def event_seen(self, resource: str, now: datetime) -> None:
        self.seen.append(now)

    def malformed(self, resource: str) -> None:
        self.malformed_seen += 1


def good(name: str, version: int) -> dict[str, object]:
    return thing(name, version, spec={})


Follow = Callable[[Request], tuple[int, Iterable[Step]]]


def reflector_of(transport: ScriptedTransport, held: Held, clock: FakeClock, seed: int = 1) -> Reflector[Thing]:
    return Reflector(
        KubeApi(transport),
        CLAIMS,
        msgspec.json.Decoder(Thing).decode,
        held,
        clock=clock,
        observer=held,
        rng=random.Random(seed),
    )


@asynccontextmanager
async def reflecting(
    clock: FakeClock, respond: Callable[[Request], Answer], follow: Follow, held: Held
) -> AsyncIterator[tuple[Reflector[Thing], ScriptedTransport]]:
    transport = ScriptedTransport(respond, follow)
    reflector = reflector_of(transport, held, clock)
    async with running(reflector.run()):
        yield reflector, transport


def one_list(_: Request) -> Answer:
    return answer(200, listing(5, good("a", 1)))


def script(clock: FakeClock, *watches: Sequence[Step]) -> Follow:
    """Answer the nth watch with the nth steps; when they are used up, with one that lives for 300 s."""
    left = iter(watches)

    def follow(_: Request) -> tuple[int, Iterable[Step]]:
        return 200, next(left, [lambda: clock.sleep(300)])

    return follow
