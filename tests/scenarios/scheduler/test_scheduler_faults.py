"""The standalone scheduler when the API server fails it, or the world moves on while a pod is on its way."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import pytest

from binder.matching.rejection import Reason
from devcluster.cluster import DevCluster
from kube.client.transport import Request, Response, StreamResponse, Transport
from kube.errors import Unavailable
from kube.objects.model import SELECTED_NODE
from tests.scenarios.environment import documents
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.scheduler_pods import condition, events, pod, rejected
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.scheduler_in_process import InProcessScheduler, running_scheduler


@dataclass
class Wire:
    """The way to the API server. `answer` may answer a request in its stead, or raise; `requests` are all that came."""

    inner: Transport
    requests: list[Request] = field(default_factory=list)
    answer: Callable[[Request, Response | None], Response | None] = lambda _, response: response

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        instead = self.answer(request, None)
        if instead is not None:
            return instead
        response = await self.inner.send(request)
        return self.answer(request, response) or response

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        return self.inner.stream(request)

    @property
    def writes(self) -> list[Request]:
        return [request for request in self.requests if request.method != "GET"]


class Wires:
    """Makes the wire and keeps it. Failures come at each pod's first Binding."""

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.failed: set[str] = set()
        self.wire: Wire

    def __call__(self, inner: Transport) -> Transport:
        self.wire = Wire(inner, answer=self._answer)
        return self.wire

    def _answer(self, request: Request, response: Response | None) -> Response | None:
        late = self.fault == "lost answer"
        struck = (
            request.path.endswith("/binding") and request.path not in self.failed and late == (response is not None)
        )
        if not self.fault or not struck:
            return response
        self.failed.add(request.path)
        if self.fault == "rejected":
            return Response(403, b'{"kind":"Status","code":403,"reason":"Forbidden","message":"not you"}')
        raise Unavailable(request.method, request.path, 0, "Timeout", "no answer")


async def nothing_is_left(scheduler: InProcessScheduler) -> None:
    """Wait until no pod waits, is in work, or is taken to be on a node that does not show it."""

    async def left() -> tuple[set[int], list[str]]:
        return set(scheduler.waiting.sizes().values()), list(scheduler.cluster.assumed())

    await eventually(left, lambda remains: remains == ({0}, []), "nothing is left")


@pytest.mark.parametrize("fault", ["no answer", "lost answer", "rejected"])
async def test_a_binding_that_fails_is_made_again(own_world: World, cluster: DevCluster, fault: str) -> None:
    wires, names = Wires(fault), [f"web-{number}" for number in range(10)]
    async with running_scheduler(cluster.kubeconfig, own_world.namespace, own_world.prefix, through=wires):
        await own_world.admin.create_at_once(pod(own_world, name) for name in names)
        await own_world.all_run(*names)
    assert len(wires.failed) == len(names)


async def test_a_pod_that_fits_nowhere_costs_no_writes_but_those_of_one_event(
    own_world: World, cluster: DevCluster
) -> None:
    wires = Wires()
    async with running_scheduler(cluster.kubeconfig, own_world.namespace, own_world.prefix, through=wires) as running:
        await own_world.admin.create(pod(own_world, "large", cpu="999"))
        await rejected(own_world, "large", "Insufficient cpu")
        await eventually(lambda: events(own_world, "FailedScheduling", "large"), bool, "an Event")
        written = [request.path for request in wires.wire.writes if "/events" not in request.path]
        for number in range(3):
            # Each time the pod is looked at again, and nothing is different.
            running.scheduler.rules_changed()
            seen = number + 2

            async def tried() -> int:
                return running.metrics.failures[Reason.INSUFFICIENT_RESOURCES]

            await eventually(tried, lambda count, seen=seen: count >= seen, f"attempt {seen}")  # type: ignore[misc]
        assert [request.path for request in wires.wire.writes if "/events" not in request.path] == written
        (event,) = await eventually(
            lambda: events(own_world, "FailedScheduling", "large"),
            lambda events: bool(events) and "series" in events[0],
            "the Event is a series",
        )
        assert event["reportingController"] == own_world.namespace
    assert wires.failed == set()


async def test_a_new_process_says_nothing_twice(own_world: World, cluster: DevCluster) -> None:
    await own_world.admin.create(pod(own_world, "large", cpu="999"))
    async with running_scheduler(cluster.kubeconfig, own_world.namespace, own_world.prefix):
        await rejected(own_world, "large", "Insufficient cpu")
    before = await condition(own_world, "large")
    wires = Wires()
    async with running_scheduler(cluster.kubeconfig, own_world.namespace, own_world.prefix, through=wires):
        await own_world.admin.create(pod(own_world, "small"))
        await own_world.all_run("small")
    assert await condition(own_world, "large") == before
    assert [request.path for request in wires.wire.writes if request.path.endswith("/large/status")] == []


async def test_a_pod_deleted_while_it_waits_for_its_volume(own_world: World, scheduler: InProcessScheduler) -> None:
    disks = await own_world.storage_class(None, provisioner="never.csi.example")
    claim = documents.claim(own_world.namespace, "data", claim_spec(disks))
    await own_world.admin.create(claim, pod(own_world, "db", "data"))

    async def annotations() -> Document:
        annotations: Document = (await own_world.claims())["data"]["metadata"].get("annotations", {})
        return annotations

    chosen = await eventually(
        annotations, lambda annotations: SELECTED_NODE in annotations, "a node is chosen for the claim"
    )

    async def nominated() -> str | None:
        name: str | None = (await own_world.pods())["db"]["status"].get("nominatedNodeName")
        return name

    await eventually(nominated, lambda node: node == chosen[SELECTED_NODE], "its node is nominated meanwhile")
    await own_world.admin.delete("Pod", "db", own_world.namespace)
    await nothing_is_left(scheduler)
    await own_world.admin.create(pod(own_world, "web"))
    await own_world.all_run("web")


async def test_many_that_wait_for_volumes_delay_no_other_pod(own_world: World, scheduler: InProcessScheduler) -> None:
    disks = await own_world.storage_class(None, provisioner="never.csi.example")
    names = [f"db-{number}" for number in range(60)]
    made = [documents.claim(own_world.namespace, f"data-{name}", claim_spec(disks)) for name in names]
    await own_world.admin.create_at_once(made)
    await own_world.admin.create_at_once(pod(own_world, name, f"data-{name}") for name in names)

    async def chosen() -> int:
        claims = (await own_world.claims()).values()
        return sum(SELECTED_NODE in claim["metadata"].get("annotations", {}) for claim in claims)

    await eventually(chosen, lambda count: count == len(names), "a node is chosen for every claim")
    await own_world.admin.create(pod(own_world, "web"))
    await own_world.all_run("web")


async def test_pods_that_come_and_go_leave_nothing_behind(own_world: World, scheduler: InProcessScheduler) -> None:
    names = [f"web-{number}" for number in range(40)]
    await own_world.admin.create_at_once(pod(own_world, name, cpu="100m") for name in names)
    gone = names[::2]
    await asyncio.gather(*(own_world.admin.delete("Pod", name, own_world.namespace) for name in gone))
    await own_world.all_run(*names[1::2])
    await nothing_is_left(scheduler)
