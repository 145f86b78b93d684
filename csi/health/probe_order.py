"""Which volumes are probed more often than every sweep does: those that pods wait for or use, as far as the rate limit
permits.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from math import floor
from typing import Final

MIN_SHARE: Final = 0.1
"""Of the rate, for volumes in use when a sweep alone takes longer than its interval."""


def spare_probes(volumes: int, rate: float, interval: float, seconds: float) -> int:
    """Return how many volumes in use may be probed every so many `seconds`.

    So many that all `volumes` are still probed every `interval` at `rate` a second. What has been probed since a sweep
    began is not probed again by that sweep.
    """
    least = MIN_SHARE * rate * seconds
    spare = (rate * interval - volumes) * seconds / max(interval - seconds, seconds)
    return max(1, floor(max(spare, least)))


def next_in_use(classes: Sequence[Collection[str]], known_at: Callable[[str], datetime], count: int) -> Sequence[str]:
    """Return at most `count` of these volumes: those of the first class before the others, within a class those probed
    longest ago. None waits for ever: each class is gone through in turn, and a sweep probes all.
    """
    chosen: list[str] = []
    for handles in classes:
        left = count - len(chosen)
        chosen += sorted(handles, key=known_at)[:left] if left > 0 else []
    return chosen
