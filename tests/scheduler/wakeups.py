"""What wakes pods, by the names of the plugins that rejected them."""

from scheduler.plugins.registry import REGISTRY
from scheduler.queue.hints import Hints


def hints_of(*plugins: str) -> Hints:
    return frozenset(REGISTRY.filters[name].queueing_hint for name in plugins)
