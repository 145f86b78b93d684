"""What a tool that drives the scheduler reaches: the present term, if this replica leads."""

from collections.abc import Callable
from typing import Final

from prebinder.control.pod_binding_rpc import PodBinding
from scheduler.binding.pod_binding import Bound, Refusal, Refused, Released

_NOT_LEADING: Final = Refused(
    Refusal.NOT_READY, "this replica does not schedule: its caches are not synced, or another replica holds the Lease"
)


class DrivenTerm:
    """Implements pod_binding_rpc.PodBinding. `present` is that of the present term, None between terms."""

    def __init__(self, present: Callable[[], PodBinding | None]) -> None:
        self._present = present

    async def bind(self, key: str, uid: str, node: str) -> Bound | Refused:
        binding = self._present()
        return _NOT_LEADING if binding is None else await binding.bind(key, uid, node)

    async def unbind(self, key: str, uid: str) -> Released | Refused:
        binding = self._present()
        return _NOT_LEADING if binding is None else await binding.unbind(key, uid)
