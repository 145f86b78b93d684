"""Pods that were assigned and that no watch shows: they count on their nodes until the API server denies it."""

import logging

import pytest

from kube.client.reflector import SILENCE_SECONDS
from kube.errors import Unavailable
from scheduler.standalone.cache import PATIENCE
from scheduler.standalone.scheduler import POLL_SECONDS
from tests import builders
from tests.fakes.objects import pod_object
from tests.scheduler.scheduler_in_memory import Desk, pod

NODE = builders.node("n1")
LATE = PATIENCE + POLL_SECONDS


def unshown() -> Desk:
    """A node of 8 cores, a pod of 6 that is assigned to it, and one for which there is no room beside it."""
    desk = Desk(NODE)
    desk.shows = False
    desk.add(pod("first", "6"), pod("second", "6"))
    return desk


async def test_a_watch_that_is_half_open_does_not_make_a_node_look_empty() -> None:
    desk = unshown()
    async with desk.running():
        assert desk.binder.nodes == {"first": "n1"}
        await desk.clock.advance(SILENCE_SECONDS + LATE)
        assert desk.binder.order == ["first"]
        # The response is stored as an event of the watch would be, so the pod is not read again.
        assert desk.store.pods.items["default/first"].node_name == "n1"
        assert dict(desk.cluster.assumed()) == {}
        assert desk.server.reads == {"first": 1}


@pytest.mark.parametrize("end", ["gone", "recreated", "ended"])
async def test_a_pod_that_is_gone_leaves_its_node_and_is_not_retried(end: str) -> None:
    desk = unshown()
    async with desk.running():
        document = desk.server.pods.pop("default/first")
        if end == "recreated":
            desk.server.pods["default/first"] = pod_object("first", [])
            desk.server.pods["default/first"]["metadata"] |= {"uid": "another", "resourceVersion": "9"}
        if end == "ended":
            document["status"]["phase"] = "Failed"
            desk.server.pods["default/first"] = document
        await desk.clock.advance(LATE)
        await desk.clock.advance(LATE)
    assert desk.binder.order == ["first", "second"]


async def test_while_the_server_does_not_answer_the_pod_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    desk = unshown()
    desk.server.failures = [Unavailable("GET", "/", 0, "Timeout", "no answer") for _ in range(3)]
    with caplog.at_level(logging.WARNING):
        async with desk.running():
            await desk.clock.advance(PATIENCE + 2 * POLL_SECONDS)
            assert desk.server.reads["first"] == 3
            assert desk.binder.order == ["first"]
            assert list(desk.cluster.assumed()) == ["default/first"]
            del desk.server.pods["default/first"]
            await desk.clock.advance(2 * POLL_SECONDS)
    assert desk.binder.order == ["first", "second"]
    assert [record.message for record in caplog.records] == ["Could not read assigned pod"]
