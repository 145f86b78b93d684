"""How long to wait after the nth failure in a row."""


def backoff(failures: int, base: float, cap: float, jitter: float) -> float:
    """Return seconds: base doubled per failure up to the cap, of which `jitter` (0 to 1) chooses the upper half.

    Half of the wait is random, so that clients which failed together do not return together.
    """
    doubled = base * 2.0 ** min(failures - 1, 62)
    return min(cap, doubled) * (0.5 + 0.5 * jitter)
