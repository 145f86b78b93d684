"""The delay after the nth failure in a row."""


def backoff(failures: int, base: float, cap: float, jitter: float) -> float:
    """Return seconds: `base` doubled per failure up to the cap; `jitter` (0 to 1) chooses a point in the upper half.

    Half of the delay is random, so that clients that failed together do not retry together.
    """
    doubled = base * 2.0 ** min(failures - 1, 62)
    return min(cap, doubled) * (0.5 + 0.5 * jitter)
