"""Carries a placement out: volumes first (PreBind), then the assignment (Bind). So many assignments at a time.

Source: bindingCycle in pkg/scheduler/schedule_one.go. Waiting for volumes takes no room from pods that wait for none.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from binder.rejection import Reason, Rejection
from kube.errors import LeadershipLost
from scheduler.plugin import Bind, Placement, PreBind, Reserve

AT_ONCE: Final = 40
"""Assignments under way. With 16 the answers of a busy API server are waited for, with 100 nothing is faster: they wait
there instead of here, where the more important goes first, and what was decided long ago fits less often where others
schedule too."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BindingPlugins:
    """The plugins of the phases after the decision, each in the order to run."""

    reserves: Sequence[Reserve]
    pre_binds: Sequence[PreBind]
    binds: Sequence[Bind]


class BindingCycle:
    """Runs PreBind and Bind for many pods at once."""

    def __init__(self, plugins: BindingPlugins, at_once: int = AT_ONCE) -> None:
        self._plugins = plugins
        self._room = asyncio.Semaphore(at_once)
        self._waiting: dict[str, asyncio.Task[Any]] = {}
        self._withdrawn: set[str] = set()

    async def room(self) -> None:
        """Return when one more pod can be assigned."""
        async with self._room:
            pass

    async def carry_out(self, placement: Placement) -> Rejection | None:
        """Bind the pod's volumes and assign it; return why that failed, with everything undone that can be, or None.

        Raises what the plugins raise. After an error of Bind nothing is undone: the pod may be assigned all the same.
        """
        begun: list[PreBind] = []
        try:
            rejection = await self._pre_bind(placement, begun)
        except LeadershipLost:
            raise
        except Exception:
            await _undo(begun, placement)
            raise
        if rejection is None:
            rejection = await self._bind(placement)
        if rejection is not None:
            await _undo(begun, placement)
        return rejection

    def stop_waiting(self) -> None:
        """Cancel what waits for volumes; assignments go on. What was written for the volumes stays good."""
        for task in self._waiting.values():
            task.cancel()

    def withdraw(self, pod_key: str) -> bool:
        """Give up a pod that waits for its volumes, with everything undone that can be; whether there is such a pod."""
        task = self._waiting.get(pod_key)
        if task is None:
            return False
        self._withdrawn.add(pod_key)
        task.cancel()
        return True

    async def _pre_bind(self, placement: Placement, begun: list[PreBind]) -> Rejection | None:
        task, key = asyncio.current_task(), placement.pod.key
        assert task is not None
        self._waiting[key] = task
        try:
            for plugin in self._plugins.pre_binds:
                begun.append(plugin)
                rejection = await plugin.pre_bind(placement)
                if rejection is not None:
                    return rejection
        except asyncio.CancelledError:
            if key not in self._withdrawn:
                raise
            task.uncancel()
            return Rejection(Reason.WITHDRAWN, key, "its volumes and its node", "a request to take both back")
        finally:
            del self._waiting[key]
            self._withdrawn.discard(key)
        return None

    async def _bind(self, placement: Placement) -> Rejection | None:
        async with self._room:
            for bind in self._plugins.binds:
                rejection = await bind.bind(placement)
                if rejection is not None:
                    return rejection
        return None


async def _undo(begun: Sequence[PreBind], placement: Placement) -> None:
    """Roll back in reverse order. What cannot be undone is logged: the pod is tried again in any case."""
    for plugin in reversed(begun):
        try:
            await plugin.roll_back(placement)
        except LeadershipLost:
            raise
        except Exception:
            logger.exception("Could not roll back", extra={"pod": placement.pod.key, "plugin": plugin.name})
