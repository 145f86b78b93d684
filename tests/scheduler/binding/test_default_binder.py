"""The Binding: who gets it, and what is made of each answer, also of one that never arrives."""

import pytest

from binder.matching.rejection import Reason, Rejection
from kube.client.api import KubeApi
from kube.client.transport import Request, Response
from kube.decoding.decode import decode_pod_record
from kube.errors import KubeError, Unavailable
from scheduler.binding.default_binder import TRIES, BindPod
from scheduler.framework.plugin import ScheduleResult
from scheduler.volumes.volume_binding import VolumeChoice
from tests.fakes.kube_api import Connection, FakeKubeApi, failure
from tests.fakes.objects import pod_object

LOST = Unavailable("POST", "/", 0, "Timeout", "no answer")


class Desk:
    """A server with one pod, and the placement of it as it was decided. `posted` counts Bindings that were sent."""

    def __init__(self) -> None:
        self.server = FakeKubeApi()
        self.server.put(pod_object("web", []))
        self.connection = Connection(self.server)
        self.plugin = BindPod(KubeApi(self.connection))
        pod = decode_pod_record(self._raw())
        self.placement = ScheduleResult(pod, "node-1", VolumeChoice())

    def _raw(self) -> bytes:
        return self.server.answer(Request("GET", "/api/v1/namespaces/default/pods/web")).body

    async def bind(self) -> Rejection | None:
        return await self.plugin.bind(self.placement)

    @property
    def node(self) -> str | None:
        node: str | None = self.server.get("pods", "default/web")["spec"].get("nodeName")
        return node

    def assign(self, node: str) -> None:
        self.server.change("pods", "default/web", lambda document: document["spec"].update(nodeName=node))

    def reject(self, answer: Response | Unavailable, times: int = 1) -> None:
        self.server.reject_next += [("POST", answer)] * times


async def test_the_pod_is_assigned_by_name_and_uid() -> None:
    desk = Desk()
    assert await desk.bind() is None
    assert desk.node == "node-1"
    (write,) = desk.server.writes
    assert (write.plural, write.subresource) == ("pods", "binding")
    assert write.body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": "default", "name": "web", "uid": "uid-pods-default/web"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
    }
    assert desk.connection.requests == 1


async def test_a_pod_that_is_gone() -> None:
    desk = Desk()
    desk.server.remove("pods", "default/web")
    rejection = await desk.bind()
    assert rejection is not None
    assert rejection.reason is Reason.POD_ENDED


async def test_another_pod_of_the_name_is_not_touched() -> None:
    desk = Desk()
    other = pod_object("web", [])
    other["metadata"]["uid"] = "another"
    desk.server.put(other)
    rejection = await desk.bind()
    assert rejection is not None
    assert rejection.reason is Reason.POD_ENDED
    assert desk.node is None


async def test_a_pod_on_its_way_out() -> None:
    desk = Desk()
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    desk.server.change("pods", "default/web", lambda document: document["metadata"].update(gone))
    rejection = await desk.bind()
    assert rejection is not None
    assert rejection.reason is Reason.POD_ENDED


async def test_a_pod_that_another_scheduler_assigned() -> None:
    desk = Desk()
    desk.assign("node-2")
    rejection = await desk.bind()
    assert rejection is not None
    assert rejection.reason is Reason.ALREADY_ASSIGNED
    assert "node-2" in rejection.offered


async def test_a_pod_that_another_scheduler_assigned_while_our_answer_was_lost() -> None:
    desk = Desk()
    desk.assign("node-2")
    desk.reject(LOST)
    rejection = await desk.bind()
    assert rejection is not None
    assert rejection.reason is Reason.ALREADY_ASSIGNED
    assert desk.connection.requests == 2


async def test_a_rejection_of_a_pod_that_could_be_assigned_is_reported_in_the_servers_words() -> None:
    desk = Desk()
    desk.reject(failure(409, "Gated"))
    rejection = await desk.bind()
    assert rejection == Rejection(Reason.KEPT_CHANGING, "default/web", "a pod that can be bound", "Gated")


async def test_any_assignment_to_the_same_node_counts_as_ours() -> None:
    desk = Desk()
    desk.assign("node-1")
    assert await desk.bind() is None


@pytest.mark.parametrize("answer", [LOST, failure(503, "ServiceUnavailable"), failure(500, "Timeout")])
async def test_a_binding_that_took_place_although_the_answer_was_lost(answer: Response | Unavailable) -> None:
    desk = Desk()
    desk.reject(answer)
    desk.server.before_write = lambda _: desk.assign("node-1") if desk.node is None else None
    assert await desk.bind() is None
    assert desk.server.writes == []


async def test_a_binding_that_did_not_take_place_is_sent_again() -> None:
    desk = Desk()
    desk.reject(LOST, TRIES - 1)
    assert await desk.bind() is None
    assert desk.node == "node-1"


async def test_a_lost_binding_that_takes_place_late_is_distinguished_from_another_schedulers() -> None:
    """The second Binding finds the pod assigned: by our first one."""
    desk = Desk()
    desk.reject(LOST)
    sent = []

    def late(request: Request) -> None:
        sent.append(request)
        if len(sent) == 2:
            desk.assign("node-1")

    desk.server.before_write = late
    assert await desk.bind() is None
    assert len(sent) == 2


async def test_a_server_that_stays_away_is_an_error() -> None:
    desk = Desk()
    desk.reject(LOST, TRIES)
    with pytest.raises(Unavailable):
        await desk.bind()
    assert desk.node is None


@pytest.mark.parametrize("status", [401, 403, 422, 429])
async def test_what_another_try_does_not_help_is_an_error(status: int) -> None:
    desk = Desk()
    desk.reject(failure(status, "No"))
    with pytest.raises(KubeError):
        await desk.bind()
    assert desk.connection.requests == 1
