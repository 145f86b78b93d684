"""Executes a placement: volumes first (PreBind), then the assignment (Bind). Concurrency is limited.

Source: bindingCycle in pkg/scheduler/schedule_one.go. Pods that wait for volumes do not use the slots of pods that do
not.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from binder.matching.rejection import Reason, Rejection
from kube.errors import LeadershipLost
from kube.objects.model import Pod
from scheduler.framework.plugin import Bind, PreBind, ReservePlugin, ScheduleResult

AT_ONCE: Final = 40
"""Concurrent assignments. 16 are too few for a busy API server, 100 are no faster: they would wait there instead of
here, where pods with a higher priority go first, and old decisions fit less often where other schedulers are at work
too.
"""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BindingPlugins:
    """The plugins of the phases after the decision, each in the order to run."""

    reserves: Sequence[ReservePlugin]
    pre_binds: Sequence[PreBind]
    binds: Sequence[Bind]


@dataclass(slots=True)
class _UnderWay:
    """A pod whose binding is in progress.

    `reserved`: no Binding has been sent yet. `waiting`: its volumes are being bound. `withdrawn` is the reason for
    which it was withdrawn, empty otherwise.
    """

    uid: str
    task: asyncio.Task[Any]
    reserved: bool = True
    waiting: bool = True
    withdrawn: str = ""
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class BindingCycle:
    """Runs PreBind and Bind for many pods at once."""

    def __init__(self, plugins: BindingPlugins, at_once: int = AT_ONCE) -> None:
        self.plugins = plugins
        self._room = asyncio.Semaphore(at_once)
        self._under_way: dict[str, _UnderWay] = {}

    async def wait_for_slot(self) -> None:
        """Return when another pod can be assigned."""
        async with self._room:
            pass

    async def carry_out(self, placement: ScheduleResult) -> Rejection | None:
        """Bind the pod's volumes and assign it; return why that failed, after rolling back what can be rolled back, or
        None.

        Raises what the plugins raise. After an error of Bind nothing is rolled back: the pod may have been assigned.
        """
        task, key = asyncio.current_task(), placement.pod.key
        assert task is not None
        under_way = self._under_way[key] = _UnderWay(placement.pod.uid, task)
        try:
            return await self._carry_out(placement, under_way)
        finally:
            under_way.ended.set()
            if self._under_way.get(key) is under_way:
                del self._under_way[key]

    def has_work_before(self, placement: ScheduleResult) -> bool:
        """Whether something has to be bound for the pod before it is assigned."""
        return any(plugin.has_work(placement) for plugin in self.plugins.pre_binds)

    def stop_waiting(self) -> None:
        """Cancel what waits for volumes; assignments continue. What was written for the volumes stays valid."""
        for under_way in self._under_way.values():
            if under_way.waiting and not under_way.withdrawn:
                under_way.task.cancel()

    async def withdraw(self, pod: Pod, why: str) -> None:
        """Withdraw a pod for which no Binding has been sent yet, and return when nothing is in progress for it.

        By then what was written for its volumes is rolled back as far as possible. A Binding that was sent is waited
        for.
        """
        under_way = self._under_way.get(pod.key)
        if under_way is None or under_way.uid != pod.uid:
            return
        if under_way.reserved and not under_way.withdrawn:
            under_way.withdrawn = why
            under_way.task.cancel()
        await under_way.ended.wait()

    async def _carry_out(self, placement: ScheduleResult, under_way: _UnderWay) -> Rejection | None:
        begun: list[PreBind] = []
        try:
            rejection = await self._pre_bind(placement, begun, under_way)
            if rejection is None:
                rejection = await self._bind(placement, under_way)
        except asyncio.CancelledError:
            if not (under_way.reserved and under_way.withdrawn):
                raise
            under_way.task.uncancel()
            wanted = "its volumes and its node"
            rejection = Rejection(Reason.WITHDRAWN, placement.pod.key, wanted, under_way.withdrawn)
        under_way.reserved = under_way.waiting = False
        if rejection is not None:
            await _undo(begun, placement)
        return rejection

    async def _pre_bind(
        self, placement: ScheduleResult, begun: list[PreBind], under_way: _UnderWay
    ) -> Rejection | None:
        try:
            for plugin in self.plugins.pre_binds:
                begun.append(plugin)
                rejection = await plugin.pre_bind(placement)
                if rejection is not None:
                    return rejection
        except LeadershipLost:
            raise
        except Exception:
            # From here on it cannot be withdrawn: that would interrupt the rollback.
            under_way.reserved = under_way.waiting = False
            await _undo(begun, placement)
            raise
        under_way.waiting = False
        return None

    async def _bind(self, placement: ScheduleResult, under_way: _UnderWay) -> Rejection | None:
        async with self._room:
            under_way.reserved = False
            for bind in self.plugins.binds:
                rejection = await bind.bind(placement)
                if rejection is not None:
                    return rejection
        return None


async def _undo(begun: Sequence[PreBind], placement: ScheduleResult) -> None:
    """Roll back in reverse order. What cannot be rolled back is logged: the pod is retried in any case."""
    for plugin in reversed(begun):
        try:
            await plugin.roll_back(placement)
        except LeadershipLost:
            raise
        except Exception:
            logger.exception("Rollback failed", extra={"pod": placement.pod.key, "plugin": plugin.name})
