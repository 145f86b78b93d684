"""What is remembered of the tightest fit is what a fresh look would find, after any changes of volumes."""

from random import Random
from typing import Any

import pytest

from kube.objects.model import Record, Volume
from kube.store.store import Store
from scheduler.extender.extender import MOST_LOOKS, Extender
from tests.builders import HOSTNAME, ZONE, claim, node, node_selector, storage_class, volume
from tests.scheduler.extending import PREFIX, extender, put, scores, sick_volume

NODES = [node(f"n{number}", zone=zone) for number, zone in enumerate("abcab", 1)]
NAMES = [each.name for each in NODES]


def drawn(random: Random, version: int) -> Volume:
    """One of ten volumes, as it is now: zonal, local, in two zones or of an affinity of another form; free or not."""
    places = [
        node_selector({ZONE: random.choice("abc")}),
        node_selector({HOSTNAME: random.choice(NAMES)}),
        node_selector({ZONE: ["a", "b"]}),
        node_selector({ZONE: "a"}, {HOSTNAME: "n3"}),
        None,
    ]
    how: dict[str, Any] = {
        "size": random.choice(["10Gi", "20Gi", "30Gi"]),
        "phase": random.choice(["Available", "Available", "Bound"]),
        "node_affinity": random.choice(places),
        "resource_version": version,
    }
    name = f"pv-{random.randrange(10)}"
    return sick_volume(name, **how) if random.random() < 0.3 else volume(name, **how)


@pytest.mark.parametrize("seed", range(20))
def test_memory_agrees_with_a_fresh_look(seed: int) -> None:
    random, store, present = Random(seed), Store(PREFIX), dict[str, Volume]()
    answers = Extender(store, PREFIX)
    others: list[Record] = [storage_class(), *NODES, claim(), claim("log", size="15Gi")]
    for record in others:
        put(store, record)
    for version in range(2, 40):
        changed = drawn(random, version)
        if random.random() < 0.2:
            store.volumes.delete(changed.name)
            present.pop(changed.name, None)
        else:
            put(store, changed)
            present[changed.name] = changed
        claims = random.choice([["data"], ["log"], ["data", "log"]])
        fresh = extender([*others, *present.values()])
        assert scores(answers, NAMES, claims=claims) == scores(fresh, NAMES, claims=claims)


def test_in_a_large_cluster_of_local_volumes_all_are_known_after_some_requests() -> None:
    """One request does not look at them all: it would take too long."""
    names = [f"n{number}" for number in range(MOST_LOOKS + 10)]
    records = [record for name in names for record in (node(name), volume(f"pv-{name}", node=name))]
    answers = extender([claim(), *records])
    assert sum(scores(answers, names).values()) == MOST_LOOKS * 10
    assert set(scores(answers, names).values()) == {10}
