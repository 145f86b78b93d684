"""What is reserved for single pods is released when a tool requests it."""

import asyncio

import pytest

from binder.matching.rejection import Rejection
from scheduler.binding.pod_binding import RejectionReason, Released
from tests.fake_clock import settle
from tests.scheduler.manual_bindings import LARGE, LOST, WEB, driven, rejection, with_claim
from tests.scheduler.scheduler_in_memory import pod


async def test_what_is_reserved_is_released_before_the_pod_is_bound() -> None:
    async with driven() as (desk, binding):
        desk.add(with_claim(desk))
        await settle()
        assert set(desk.cluster.assumed()) == {WEB}
        assert await binding.unbind(WEB, "") == Released("n2")
        assert desk.volumes.rolled_back == ["web"]
        assert desk.cluster.assumed() == {}
        assert await binding.unbind(WEB, "") == Released()
        assert desk.binder.order == []
        desk.volumes.ready.set()
        await desk.clock.advance(10)
        assert desk.binder.nodes == {"web": "n2"}


async def test_a_waiting_tool_is_notified_that_another_one_unbound_the_pod() -> None:
    async with driven() as (desk, binding):
        desk.add(with_claim(desk))
        call = asyncio.ensure_future(binding.bind(WEB, "", ""))
        await asyncio.sleep(0)  # it is decided, and not begun to be carried out
        assert await binding.unbind(WEB, "") == Released("n2")
        assert rejection(await call) is RejectionReason.FAILED


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param([], RejectionReason.ALREADY_BOUND, id="the binding succeeds"),
        pytest.param([LOST], None, id="the binding fails"),
    ],
)
async def test_a_binding_that_was_sent_is_waited_for(
    answers: list[Rejection], expected: RejectionReason | None
) -> None:
    async with driven(LARGE) as (desk, binding):
        desk.binder.held, desk.binder.answers = asyncio.Event(), [*answers]
        desk.add(pod("web"))
        await settle()
        call = asyncio.ensure_future(binding.unbind(WEB, ""))
        await settle()
        assert not call.done()
        desk.binder.held.set()
        result = await call
        assert result == Released("n2") if expected is None else rejection(result) is expected


async def test_a_pod_for_which_nothing_is_reserved_has_nothing_to_release() -> None:
    async with driven() as (desk, binding):
        desk.add(pod("web", "9"))
        await settle()
        assert await binding.unbind(WEB, "") == Released()
