"""The order of the phases that bind a pod, and what is rolled back, by plugins that note their calls."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from binder.matching.rejection import Reason, Rejection
from kube.errors import LeadershipLost
from scheduler.binding.binding_cycle import BindingCycle, BindingPlugins
from scheduler.framework.plugin import ScheduleResult
from scheduler.volumes.volume_binding import VolumeChoice
from tests.builders import pod

PLACEMENT = ScheduleResult(pod(), "node-1", VolumeChoice(()))
NO = Rejection(Reason.VOLUME_MISSING, "pv", "a volume", "none")
Outcome = Rejection | Exception | Callable[[], Awaitable[None]] | None


class Steps:
    """A plugin of all phases."""

    def __init__(self, name: str, calls: list[str], *, before: Outcome = None, bind: Outcome = None) -> None:
        self.name, self._calls, self._before, self._bind = name, calls, before, bind
        self.undoing: Outcome = None
        self.works = False

    def has_work(self, placement: ScheduleResult) -> bool:
        return self.works

    async def pre_bind(self, placement: ScheduleResult) -> Rejection | None:
        return await self._taken("before", self._before)

    async def bind(self, placement: ScheduleResult) -> Rejection | None:
        return await self._taken("bind", self._bind)

    async def roll_back(self, placement: ScheduleResult) -> None:
        await self._taken("undo", self.undoing)

    async def _taken(self, what: str, outcome: Outcome) -> Rejection | None:
        self._calls.append(f"{what} {self.name}")
        if isinstance(outcome, Exception):
            raise outcome
        if callable(outcome):
            await outcome()
            return None
        return outcome


def cycle(*plugins: Steps) -> BindingCycle:
    return BindingCycle(BindingPlugins((), plugins, plugins[-1:]))


async def test_volumes_come_before_the_assignment() -> None:
    calls: list[str] = []
    assert await cycle(Steps("a", calls), Steps("b", calls)).carry_out(PLACEMENT) is None
    assert calls == ["before a", "before b", "bind b"]


@pytest.mark.parametrize("where", ["before", "bind"])
async def test_what_a_rejected_pod_had_is_rolled_back_in_reverse(where: str) -> None:
    calls: list[str] = []
    last = Steps("b", calls, **{where: NO})
    assert await cycle(Steps("a", calls), last, Steps("c", calls, bind=NO)).carry_out(PLACEMENT) is NO
    undone = ["undo b", "undo a"] if where == "before" else ["undo c", "undo b", "undo a"]
    assert calls[-len(undone) :] == undone


async def test_an_error_before_the_assignment_rolls_back_and_is_raised() -> None:
    calls: list[str] = []
    with pytest.raises(KeyError):
        await cycle(Steps("a", calls), Steps("b", calls, before=KeyError("x"))).carry_out(PLACEMENT)
    assert calls == ["before a", "before b", "undo b", "undo a"]


async def test_after_an_error_of_the_assignment_nothing_is_rolled_back() -> None:
    calls: list[str] = []
    with pytest.raises(KeyError):
        await cycle(Steps("a", calls, bind=KeyError("x"))).carry_out(PLACEMENT)
    assert calls == ["before a", "bind a"]


async def test_without_leadership_nothing_is_rolled_back() -> None:
    calls: list[str] = []
    with pytest.raises(LeadershipLost):
        await cycle(Steps("a", calls), Steps("b", calls, before=LeadershipLost())).carry_out(PLACEMENT)
    assert calls == ["before a", "before b"]


async def test_what_cannot_be_rolled_back_keeps_nothing_else_from_it_unless_writing_is_over() -> None:
    calls: list[str] = []
    first, second = Steps("a", calls), Steps("b", calls, before=NO)
    second.undoing = KeyError("x")
    assert await cycle(first, second).carry_out(PLACEMENT) is NO
    assert calls[-2:] == ["undo b", "undo a"]
    second.undoing = LeadershipLost()
    with pytest.raises(LeadershipLost):
        await cycle(first, second).carry_out(PLACEMENT)
    assert calls[-1] == "undo b"


async def test_a_pod_that_waits_for_its_volumes_is_withdrawn_and_its_task_goes_on() -> None:
    calls: list[str] = []
    begun = asyncio.Event()

    async def waits() -> None:
        begun.set()
        await asyncio.Event().wait()

    binding = cycle(Steps("a", calls, before=waits))

    async def carry_out() -> tuple[Rejection | None, int]:
        rejection = await binding.carry_out(PLACEMENT)
        task = asyncio.current_task()
        assert task is not None
        return rejection, task.cancelling()

    task = asyncio.create_task(carry_out())
    await begun.wait()
    await binding.withdraw(pod(uid="another"), "not this one")
    assert not task.done()
    await binding.withdraw(PLACEMENT.pod, "its node is gone")
    rejection, cancelling = await task
    assert rejection is not None
    assert (rejection.reason, rejection.offered, cancelling) == (Reason.WITHDRAWN, "its node is gone", 0)
    assert calls == ["before a", "undo a"]
    await binding.withdraw(PLACEMENT.pod, "nothing is in progress")


async def test_a_binding_that_was_sent_is_waited_for() -> None:
    calls: list[str] = []
    sent, answered = asyncio.Event(), asyncio.Event()

    async def sends() -> None:
        sent.set()
        await answered.wait()

    binding = cycle(Steps("a", calls, bind=sends))
    task = asyncio.create_task(binding.carry_out(PLACEMENT))
    await sent.wait()
    withdrawing = asyncio.create_task(binding.withdraw(PLACEMENT.pod, "too late"))
    await asyncio.sleep(0)
    assert not withdrawing.done()
    answered.set()
    await withdrawing
    assert await task is None
    assert calls == ["before a", "bind a"]


async def test_when_waiting_is_over_what_waits_for_volumes_is_cancelled_and_assignments_are_not() -> None:
    calls: list[str] = []
    begun, answered = [asyncio.Event(), asyncio.Event()], asyncio.Event()

    async def waits() -> None:
        begun[0].set()
        await asyncio.Event().wait()

    async def sends() -> None:
        begun[1].set()
        await answered.wait()

    waiting, sending = cycle(Steps("a", calls, before=waits)), cycle(Steps("b", calls, bind=sends))
    tasks = [asyncio.create_task(each.carry_out(PLACEMENT)) for each in (waiting, sending)]
    for each in begun:
        await each.wait()
    waiting.stop_waiting()
    sending.stop_waiting()
    answered.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(outcomes[0], asyncio.CancelledError)
    assert outcomes[1] is None


def test_there_is_work_if_any_plugin_has_some() -> None:
    plugins = [Steps("a", []), Steps("b", [])]
    assert not cycle(*plugins).has_work_before(PLACEMENT)
    plugins[1].works = True
    assert cycle(*plugins).has_work_before(PLACEMENT)
