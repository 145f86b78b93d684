"""What is written to a pod's status, and above all what is not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kube.client.api import KubeApi
from kube.client.transport import Request, Response
from kube.decoding.decode import decode_pod_record
from kube.errors import LeadershipLost, Unavailable
from kube.objects.model import Pod
from scheduler.standalone.pod_status import TRIES, PodStatus, SchedulingStatus, change_of
from tests.fake_clock import FakeClock, settle
from tests.fakes.kube_api import Connection, FakeKubeApi, failure
from tests.fakes.objects import pod_object
from tests.running_task import running

NO_ROOM = SchedulingStatus("Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.")
NOW = "2026-01-01T12:00:00Z"
LOST = Unavailable("PATCH", "/", 0, "Timeout", "no answer")
READY = {"type": "Ready", "status": "False"}


def condition(status: SchedulingStatus, since: str = NOW, **fields: object) -> dict[str, Any]:
    wanted = {"status": "False", "reason": status.reason, "message": status.message}
    return {"type": "PodScheduled", "lastProbeTime": None, "lastTransitionTime": since, **wanted, **fields}


class Desk:
    """A server with one pod, and the writer at work."""

    def __init__(self) -> None:
        self.server, self.clock = FakeKubeApi(), FakeClock()
        self.server.put(pod_object("web", []))
        self.connection = Connection(self.server)
        self.status = PodStatus(KubeApi(self.connection), self.clock)

    @property
    def pod(self) -> Pod:
        raw = self.server.answer(Request("GET", "/api/v1/namespaces/default/pods/web")).body
        return decode_pod_record(raw)

    @property
    def written(self) -> list[dict[str, Any]]:
        return [write.body["status"] for write in self.server.writes]

    def reject(self, answer: Response | Unavailable, times: int = 1) -> None:
        self.server.reject_next += [("PATCH", answer)] * times


@asynccontextmanager
async def working() -> AsyncIterator[Desk]:
    desk = Desk()
    async with running(desk.status.run()):
        yield desk


@pytest.mark.parametrize(
    ("status", "wanted", "change"),
    [
        ({}, NO_ROOM, {"conditions": [condition(NO_ROOM)]}),
        ({"conditions": [READY]}, NO_ROOM, {"conditions": [READY, condition(NO_ROOM)]}),
        ({"conditions": [condition(NO_ROOM, "earlier")]}, NO_ROOM, {}),
        (
            {"conditions": [condition(SchedulingStatus("SchedulerError", "no"), "earlier")]},
            NO_ROOM,
            {"conditions": [condition(NO_ROOM, "earlier")]},
        ),
        (
            {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "earlier"}]},
            NO_ROOM,
            {"conditions": [condition(NO_ROOM)]},
        ),
        (
            {"conditions": [condition(NO_ROOM, "earlier")]},
            SchedulingStatus(*(NO_ROOM.reason, NO_ROOM.message), "node-1"),
            {"nominatedNodeName": "node-1"},
        ),
        ({"nominatedNodeName": "node-1"}, SchedulingStatus("", "", ""), {"nominatedNodeName": None}),
        ({"nominatedNodeName": "node-1"}, SchedulingStatus("", "", "node-1"), {}),
        ({"nominatedNodeName": "node-1"}, SchedulingStatus("", "", None), {}),
    ],
    ids=[
        "first",
        "others-stay",
        "said-already",
        "still-false",
        "was-true",
        "nominated",
        "not-nominated-any-more",
        "nominated-already",
        "nothing-about-nomination",
    ],
)
def test_what_has_to_change(status: dict[str, Any], wanted: SchedulingStatus, change: dict[str, Any]) -> None:
    assert change_of({"metadata": {}, "status": status}, wanted, NOW) == change


def test_the_generation_that_was_judged_is_named() -> None:
    change = change_of({"metadata": {"generation": 3}}, NO_ROOM, NOW)
    assert change == {"conditions": [condition(NO_ROOM, observedGeneration=3)]}


async def test_an_equal_status_is_written_once() -> None:
    async with working() as desk:
        assert desk.status.queue(desk.pod, NO_ROOM)
        await settle()
        assert not desk.status.queue(desk.pod, NO_ROOM)
        await settle()
        assert desk.written == [{"conditions": [condition(NO_ROOM)]}]
        assert desk.connection.requests == 2  # one read, one write


async def test_a_new_process_reads_before_it_writes() -> None:
    async with working() as desk:
        desk.server.change(
            "pods", "default/web", lambda document: document.update(status={"conditions": [condition(NO_ROOM)]})
        )
        desk.status.queue(desk.pod, NO_ROOM)
        await settle()
        assert desk.written == []


async def test_only_the_newest_is_written() -> None:
    desk = Desk()
    for number in range(5):
        desk.status.queue(desk.pod, SchedulingStatus("Unschedulable", f"reason {number}"))
    async with running(desk.status.run()):
        await settle()
    assert [status["conditions"][0]["message"] for status in desk.written] == ["reason 4"]


async def test_nothing_is_written_to_a_pod_that_has_a_node() -> None:
    async with working() as desk:
        pod = desk.pod
        desk.server.change("pods", "default/web", lambda document: document["spec"].update(nodeName="node-1"))
        desk.status.queue(pod, NO_ROOM)
        await settle()
        assert desk.written == []


async def test_nothing_is_written_to_another_pod_of_that_name() -> None:
    async with working() as desk:
        desk.status.queue(Pod("default", "web", "uid-of-another", 1), NO_ROOM)
        await settle()
        assert desk.written == []


async def test_a_pod_that_is_gone_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async with working() as desk:
        pod = desk.pod
        desk.server.remove("pods", "default/web")
        desk.status.queue(pod, NO_ROOM)
        await settle()
        assert not caplog.records


async def test_a_conflict_is_read_again() -> None:
    async with working() as desk:
        desk.reject(failure(409, "Conflict"))
        desk.status.queue(desk.pod, NO_ROOM)
        await settle()
        assert len(desk.written) == 1


async def test_a_status_that_could_not_be_written_is_queued_again(caplog: pytest.LogCaptureFixture) -> None:
    async with working() as desk:
        desk.reject(LOST, TRIES)
        desk.status.queue(desk.pod, NO_ROOM)
        await desk.clock.advance(60)
        assert desk.written == []
        assert [record.message for record in caplog.records] == ["Could not write pod status"]
        assert desk.status.queue(desk.pod, NO_ROOM)
        await settle()
        assert len(desk.written) == 1


async def test_a_rejection_delays_no_other_pod() -> None:
    async with working() as desk:
        desk.server.put(pod_object("other", []))
        desk.reject(failure(403, "Forbidden"))
        desk.status.queue(desk.pod, NO_ROOM)
        desk.status.queue(Pod("default", "other", "uid-pods-default/other", 1), NO_ROOM)
        await settle()
        assert len(desk.written) == 1


async def test_a_lost_lease_ends_it() -> None:
    desk = Desk()

    def lose(_: Request) -> None:
        raise LeadershipLost("gone")

    desk.server.before_write = lose
    desk.status.queue(desk.pod, NO_ROOM)
    with pytest.raises(ExceptionGroup) as raised:
        await desk.status.run()
    assert raised.group_contains(LeadershipLost)


async def test_a_cleared_nomination_is_written_beside_the_condition() -> None:
    async with working() as desk:
        desk.status.queue(desk.pod, SchedulingStatus(NO_ROOM.reason, NO_ROOM.message, "node-1"))
        await settle()
        desk.status.nominate(desk.pod, "")
        await settle()
        assert desk.server.get("pods", "default/web")["status"] == {
            "conditions": [condition(NO_ROOM)],
            "phase": "Pending",
        }
        assert len(desk.written) == 2


async def test_the_latest_status_is_written_last() -> None:
    async with working() as desk:
        desk.reject(LOST)
        desk.status.nominate(desk.pod, "node-1")
        await settle()
        # While the first write waits for its next try, the node is given up.
        desk.status.nominate(desk.pod, "")
        await desk.clock.advance(30)
        assert not desk.pod.nominated_node
