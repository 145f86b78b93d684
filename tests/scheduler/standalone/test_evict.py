"""Victims leave through the eviction API, each once, and the first rejection ends it."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest

from kube.client.api import KubeApi
from kube.client.event_recorder import EventDraft
from kube.client.reflector import SILENCE_SECONDS
from kube.client.transport import Request, Response, StreamResponse
from kube.errors import Conflict, Forbidden, KubeError, LeadershipLost, NotFound, Throttled
from kube.objects import model
from scheduler.preemption.budgets import Budgets
from scheduler.preemption.preemption import Preemption
from scheduler.standalone.evict import PATIENCE, Evictor
from tests import builders
from tests.fake_clock import FakeClock

SUCCESS = {"kind": "Status", "status": "Success"}
NEW = builders.pod("new", priority=10)
BETTER = builders.pod("better", priority=20)


class Server:
    """Answers evictions; `rejections` are by the name of the pod."""

    def __init__(self, rejections: Mapping[str, Exception | dict[str, Any]] | None = None) -> None:
        self.rejections = dict(rejections or {})
        self.evicted: list[str] = []
        self.bodies: list[Mapping[str, Any]] = []

    async def send(self, request: Request) -> Response:
        path = re.fullmatch(r"/api/v1/namespaces/(.+)/pods/(.+)/eviction", request.path)
        assert path is not None
        answer = self.rejections.get(path[2], SUCCESS)
        if isinstance(answer, Exception):
            raise answer
        self.evicted.append(f"{path[1]}/{path[2]}")
        self.bodies.append(msgspec.json.decode(request.body or b""))
        return Response(201, msgspec.json.encode(answer))

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        raise NotImplementedError


class SlowServer(Server):
    """Answers nothing before `answer` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = asyncio.Event()
        self._received = asyncio.Semaphore(0)

    async def wait_for(self, requests: int) -> None:
        for _ in range(requests):
            await self._received.acquire()

    async def send(self, request: Request) -> Response:
        self._received.release()
        await self.answer.wait()
        return await super().send(request)


class RecordedEvents:
    def __init__(self) -> None:
        self.drafts: list[EventDraft] = []

    def publish(self, draft: EventDraft) -> None:
        self.drafts.append(draft)


def victim(name: str, *, labels: Mapping[str, str] | None = None, deleting: bool = False) -> model.Pod:
    return builders.pod(name, node="n1", labels=labels, deleting=deleting)


def rejected(error: type[KubeError], status: int) -> KubeError:
    return error("POST", "/eviction", status, "Reason", "no")


def evict(evictor: Evictor, *victims: model.Pod, budgets: Budgets | None = None) -> str:
    return asyncio.run(evictor.evict(Preemption("n1", victims), NEW, budgets or Budgets()))


def test_evicts_all_and_reports_the_reason_to_each() -> None:
    server, sink = Server(), RecordedEvents()
    evictor = Evictor(KubeApi(server), sink, FakeClock())
    assert evict(evictor, victim("a"), victim("b")) == ""
    assert server.evicted == ["default/a", "default/b"]
    assert server.bodies[0] == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": "default", "name": "a"},
        "deleteOptions": {"preconditions": {"uid": "uid-default-a"}},
    }
    assert [draft.note for draft in sink.drafts] == ["Preempted by pod uid-default-new on node n1"] * 2
    assert [(draft.type, draft.reason, draft.action) for draft in sink.drafts] == [
        ("Normal", "Preempted", "Preempting")
    ] * 2
    assert [draft.regarding.name for draft in sink.drafts] == ["a", "b"]


def test_no_pod_is_evicted_twice() -> None:
    server, clock = Server(), FakeClock()
    evictor = Evictor(KubeApi(server), RecordedEvents(), clock)
    for _ in range(2):
        assert evict(evictor, victim("a"), victim("gone", deleting=True)) == ""
    assert server.evicted == ["default/a"]
    assert evictor.going() == {"uid-default-a"}
    asyncio.run(clock.advance(PATIENCE))
    assert evictor.going() == frozenset()


def test_two_preemptors_of_one_victim_at_once_make_one_event() -> None:
    server, sink = SlowServer(), RecordedEvents()
    evictor = Evictor(KubeApi(server), sink, FakeClock())

    async def both() -> list[str]:
        preemption = Preemption("n1", (victim("a"),))
        running = [asyncio.create_task(evictor.evict(preemption, pod, Budgets())) for pod in (NEW, BETTER)]
        await server.wait_for(2)
        server.answer.set()
        return await asyncio.gather(*running)

    assert asyncio.run(both()) == ["", ""]
    assert [draft.note for draft in sink.drafts] == ["Preempted by pod uid-default-new on node n1"]


def test_a_victim_that_is_gone_already_is_no_error() -> None:
    server, sink = Server({"a": rejected(NotFound, 404)}), RecordedEvents()
    evictor = Evictor(KubeApi(server), sink, FakeClock())
    assert evict(evictor, victim("a"), victim("b")) == ""
    assert [draft.regarding.name for draft in sink.drafts] == ["b"]
    # Nobody else is evicted in its stead until a watch shows that it is gone.
    assert evictor.going() == {"uid-default-a", "uid-default-b"}


@pytest.mark.parametrize(
    "rejection",
    [
        pytest.param(rejected(Throttled, 429), id="the-budget-forbids-it"),
        pytest.param(rejected(Conflict, 409), id="another-pod-by-now"),
        pytest.param(rejected(Forbidden, 403), id="no-right-to"),
        pytest.param({"kind": "Status", "status": "Failure", "message": "two budgets"}, id="in-the-body"),
        pytest.param({"kind": "Status", "status": 7}, id="an-odd-answer"),
    ],
)
def test_the_first_rejection_ends_it_before_unprotected_victims_are_evicted(
    rejection: Exception | dict[str, Any],
) -> None:
    server, sink = Server({"guarded": rejection}), RecordedEvents()
    budgets = Budgets([builders.budget(labels={"app": "web"}, allowed=1)])
    evictor = Evictor(KubeApi(server), sink, FakeClock())
    victims = [victim("free"), victim("guarded", labels={"app": "web"})]
    assert "could not evict pod default/guarded" in evict(evictor, *victims, budgets=budgets)
    assert "default/free" not in server.evicted
    assert sink.drafts == []
    assert evictor.going() == frozenset()


def test_a_lost_lease_ends_everything() -> None:
    with pytest.raises(LeadershipLost):
        evict(Evictor(KubeApi(Server({"a": LeadershipLost("gone")})), RecordedEvents(), FakeClock()), victim("a"))


def test_an_accepted_eviction_is_not_forgotten_while_a_watch_is_half_open() -> None:
    clock = FakeClock()
    evictor = Evictor(KubeApi(Server({})), RecordedEvents(), clock)
    assert evict(evictor, victim("a")) == ""
    asyncio.run(clock.advance(SILENCE_SECONDS + 60))
    assert evictor.going() == {victim("a").uid}
