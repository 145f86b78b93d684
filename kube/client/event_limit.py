"""Limits on Events per object and per namespace: a user who may create pods must not be able to fill etcd with them.

The limit per object is that of client-go's EventSourceObjectSpamFilter (tools/record/events_cache.go). A namespace has
its own limit: a thousand pods that are recreated again and again are a thousand new objects each time.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

OBJECT_BURST: Final = 25
OBJECT_SECONDS: Final = 300.0
"""The burst of Events about an object, and the seconds between further ones."""

NAMESPACE_BURST: Final = 5_000
NAMESPACE_SECONDS: Final = 0.1
"""The same for all objects of a namespace: a quarter of the recorder's queue, and a fifth of its rate."""

REMEMBERED: Final = 4_096
"""Objects, and namespaces, whose Events are counted; beyond that the least recently used one is forgotten."""

_Key = tuple[str, ...]


@dataclass(slots=True)
class _Allowance:
    left: float
    counted_at: float


class _Allowances:
    """A token bucket for each key. Times are monotonic seconds."""

    def __init__(self, burst: int, seconds: float) -> None:
        self._burst, self._seconds = float(burst), seconds
        self._known: OrderedDict[_Key, _Allowance] = OrderedDict()

    def of(self, key: _Key, now: float) -> _Allowance:
        """Return the tokens left for the key now."""
        allowance = self._known.get(key)
        if allowance is None:
            allowance = self._known[key] = _Allowance(self._burst, now)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        allowance.left = min(self._burst, allowance.left + (now - allowance.counted_at) / self._seconds)
        allowance.counted_at = now
        return allowance


class EventLimit:
    """Admits or rejects Events. A rejected Event does not count against the limit."""

    def __init__(self) -> None:
        self._objects = _Allowances(OBJECT_BURST, OBJECT_SECONDS)
        self._namespaces = _Allowances(NAMESPACE_BURST, NAMESPACE_SECONDS)

    def admits(self, namespace: str, about: _Key, now: float, *, repeated: bool = False) -> bool:
        """Whether another Event about the object may be sent. Cluster-scoped objects count against no namespace's
        limit.

        A `repeated` Event adds no object to etcd and does not count against the object's limit, which is left for new
        Events.
        """
        allowances = [] if repeated else [self._objects.of((namespace, *about), now)]
        if namespace:
            allowances.append(self._namespaces.of((namespace,), now))
        if any(allowance.left < 1.0 for allowance in allowances):
            return False
        for allowance in allowances:
            allowance.left -= 1.0
        return True
