"""How many Events an object and a namespace may bring about."""

from kube.client.event_limit import (
    NAMESPACE_BURST,
    NAMESPACE_SECONDS,
    OBJECT_BURST,
    OBJECT_SECONDS,
    REMEMBERED,
    EventLimit,
)


def test_events_of_an_object_are_limited() -> None:
    limit = EventLimit()
    assert sum(limit.admits("shop", ("Pod", "web"), 0.0) for _ in range(1_000)) == OBJECT_BURST
    assert limit.admits("shop", ("Pod", "other"), 0.0)
    assert not limit.admits("shop", ("Pod", "web"), OBJECT_SECONDS - 1)
    assert limit.admits("shop", ("Pod", "web"), OBJECT_SECONDS)
    assert not limit.admits("shop", ("Pod", "web"), OBJECT_SECONDS)
    assert sum(limit.admits("shop", ("Pod", "web"), 1e6) for _ in range(1_000)) == OBJECT_BURST


def test_a_namespace_with_ever_new_objects_has_a_limit_that_is_not_the_others() -> None:
    limit = EventLimit()
    admitted = sum(limit.admits("noisy", ("Pod", f"web-{number}"), 0.0) for number in range(2 * NAMESPACE_BURST))
    assert admitted == NAMESPACE_BURST
    assert limit.admits("quiet", ("Pod", "web-1"), 0.0)
    assert limit.admits("", ("PersistentVolume", "pv-1"), 0.0)
    later = sum(limit.admits("noisy", ("Pod", f"later-{number}"), 60.0) for number in range(2 * NAMESPACE_BURST))
    assert later == int(60 / NAMESPACE_SECONDS)


def test_cluster_scoped_objects_are_limited_one_by_one() -> None:
    limit = EventLimit()
    assert all(limit.admits("", ("PersistentVolume", f"pv-{number}"), 0.0) for number in range(2 * NAMESPACE_BURST))
    assert sum(limit.admits("", ("PersistentVolume", "pv-1"), 0.0) for _ in range(100)) == OBJECT_BURST


def test_what_is_remembered_is_bounded() -> None:
    limit = EventLimit()
    for number in range(OBJECT_BURST):
        assert limit.admits("", ("Pod", "first"), float(number))
    for number in range(REMEMBERED):
        limit.admits("", ("Pod", str(number)), 100.0)
    assert limit.admits("", ("Pod", "first"), 100.0)


def test_an_object_with_events_now_and_then_is_not_forgotten() -> None:
    """What is forgotten is what was used least recently, not what came first: else an object gets a new burst."""
    limit = EventLimit()
    for _ in range(OBJECT_BURST):
        assert limit.admits("", ("Pod", "first"), 0.0)
    for number in range(2 * REMEMBERED):
        limit.admits("", ("Pod", str(number)), 1.0)
        if number % 1_000 == 0:
            assert not limit.admits("", ("Pod", "first"), 1.0)
