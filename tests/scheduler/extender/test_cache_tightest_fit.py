"""What is remembered of the tightest fit is what a fresh look would find, after any changes of volumes."""

from random import Random
from typing import Any

import pytest

from binder.reservation.contract import Annotations
from kube.objects.model import Record, Volume
from kube.store.store import Store
from scheduler.extender.extender import MAX_LOOKUPS, MAX_LOOKUPS_IN_ALL, Extender
from tests.builders import HOSTNAME, ZONE, claim, node, node_selector, storage_class, volume
from tests.scheduler.extender_requests import PREFIX, extender, put, put_or_delete, scores, unhealthy_volume

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
    return unhealthy_volume(name, **how) if random.random() < 0.3 else volume(name, **how)


@pytest.mark.parametrize("seed", range(20))
def test_memory_agrees_with_a_fresh_look(seed: int) -> None:
    random, store, present = Random(seed), Store(PREFIX), dict[str, Volume]()
    answers = Extender(store, Annotations())
    others: list[Record] = [storage_class(), *NODES, claim(), claim("log", size="15Gi")]
    for record in others:
        put(store, record)
    for version in range(2, 40):
        put_or_delete(random, store, present, drawn(random, version))
        claims = random.choice([["data"], ["log"], ["data", "log"]])
        fresh = extender([*others, *present.values()])
        assert scores(answers, NAMES, claims=claims) == scores(fresh, NAMES, claims=claims)


def test_in_a_large_cluster_of_local_volumes_all_are_known_after_some_requests() -> None:
    """One request does not look at them all: it would take too long."""
    names = [f"n{number}" for number in range(MAX_LOOKUPS + 10)]
    records = [record for name in names for record in (node(name), volume(f"pv-{name}", node=name))]
    answers = extender([claim(), *records])
    assert sum(scores(answers, names).values()) == MAX_LOOKUPS * 10
    assert set(scores(answers, names).values()) == {10}


def test_a_pod_with_dozens_of_claims_looks_no_longer_than_others_can_wait() -> None:
    """Claims that differ are looked at for each node; the rest is known a request later."""
    sizes = range(1, 31)
    names = [f"n{number}" for number in range(MAX_LOOKUPS_IN_ALL // 30 + 10)]
    claims = [claim(f"c{size}", size=f"{size}Gi") for size in sizes]
    records = [record for name in names for record in (node(name), volume(f"pv-{name}", size="30Gi", node=name))]
    answers, keys = extender([*claims, *records]), [each.name for each in claims]
    first, second, third = (scores(answers, names, claims=keys) for _ in range(3))
    assert sum(first.values()) < sum(second.values())
    assert second == third
    assert set(second.values()) == {5}


@pytest.mark.parametrize("seed", range(10))
def test_claims_of_one_shape_have_the_points_of_each(seed: int) -> None:
    """A pod's score is the average over its claims, equal ones included."""
    random = Random(seed)
    records: list[Record] = [storage_class(), *NODES]
    claims = [claim(f"c{each}", size=random.choice(["10Gi", "20Gi"])) for each in range(12)]
    volumes = [volume(f"pv-{each}", size=f"{20 + 5 * each}Gi", zone=random.choice("abc")) for each in range(4)]
    together = scores(extender([*records, *claims, *volumes]), NAMES, claims=[each.name for each in claims])
    for name in NAMES:
        zone = next(dict(each.labels)[ZONE] for each in NODES if each.name == name)
        near = [each.capacity for each in volumes if each.node_affinity == node_selector({ZONE: zone})]
        best = min(near, default=0)
        points = sum(10 * each.request / best for each in claims) if best else 0.0
        assert abs(together[name] - points / len(claims)) <= 0.5 + 1e-9
