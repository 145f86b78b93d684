"""What is remembered of rejected nodes is what a fresh look would find, after any changes and at any time."""

from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from binder.reservation.contract import Annotations
from kube.objects.model import Claim, Record, Volume
from kube.objects.reports import StorageCondition
from kube.rules.topology import NodeKind
from kube.store.store import Store
from scheduler.extender.cache import KnownRejections
from scheduler.extender.extender import FEW_KINDS, Extender
from scheduler.extender.rules import NEVER, NodeRejection, rejection, suspect_places
from tests.builders import HOSTNAME, ZONE, claim, csi_node, node, node_selector, reference, storage_class, volume
from tests.prebinder.call_stacks import stacks_at
from tests.scheduler.extender_requests import (
    NOW,
    PREFIX,
    extender,
    filtered,
    kept,
    put,
    put_or_delete,
    reserved_volume,
    unhealthy_volume,
)

NODES = [node(f"n{number}", zone=zone) for number, zone in enumerate("abcab", 1)]
NAMES = [each.name for each in NODES]
PODS: Sequence[Sequence[str]] = (["data"], ["twin"], ["log"], ["data", "log"], ["twin", "log"])
MANY = [f"n{number}" for number in range(FEW_KINDS + 10)]


def claims() -> list[Claim]:
    """Two that are alike, one that is larger."""
    return [claim("data"), claim("twin"), claim("log", size="15Gi")]


def drawn(random: Random, version: int, seconds: float) -> Volume:
    """One of ten volumes, as it is now: on one node mostly; often reserved, for one of the claims or for another's."""
    places = [node_selector({HOSTNAME: random.choice(NAMES)})] * 6
    places += [node_selector({ZONE: random.choice("abc")}), node_selector({ZONE: "a"}, {HOSTNAME: "n3"})]
    how: dict[str, Any] = {
        "size": random.choice(["10Gi", "20Gi", "30Gi"]),
        "phase": random.choice(["Available", "Available", "Bound"]),
        "node_affinity": random.choice(places),
        "resource_version": version,
    }
    name, kind = f"pv-{random.randrange(10)}", random.random()
    if kind < 0.2:
        return unhealthy_volume(name, **how)
    if kind < 0.8:
        until = (NOW + timedelta(seconds=seconds + random.choice([-30, 20, 60, 300]))).strftime("%Y-%m-%dT%H:%M:%SZ")
        return reserved_volume(name, random.choice(["default/data", "default/twin", *["default/x"] * 3]), until, **how)
    return volume(name, claim=random.choice([None, None, "default/data"]), **how)


@pytest.mark.parametrize("seed", range(20))
def test_memory_agrees_with_a_fresh_look(seed: int) -> None:
    random, store, present, seconds = Random(seed), Store(PREFIX), dict[str, Volume](), 0.0
    answers = Extender(store, Annotations())
    others: list[Record] = [storage_class(), *NODES, *claims()]
    for record in others:
        put(store, record)
    for version in range(2, 60):
        put_or_delete(random, store, present, drawn(random, version, seconds))
        seconds += random.choice([0, 0, 10, 40, -25])
        wanted, fresh = random.choice(PODS), extender([*others, *present.values()])
        assert filtered(answers, NAMES, seconds=seconds, claims=wanted) == filtered(
            fresh, NAMES, seconds=seconds, claims=wanted
        )


def reserved_on_each(names: Sequence[str]) -> list[Record]:
    return [record for name in names for record in (node(name), reserved_volume(f"pv-{name}", "default/x", node=name))]


@pytest.mark.parametrize("names", [MANY[:3], MANY], ids=["few nodes", "many"])
def test_nodes_are_evaluated_once_for_all_pods_that_are_alike(names: Sequence[str]) -> None:
    answers = extender([*claims(), *reserved_on_each(names), node("free")])
    with stacks_at(rejection) as first:
        assert kept(answers, [*names, "free"]) == ["free"]
    with stacks_at(rejection, suspect_places) as again:
        assert kept(answers, [*names, "free"], claims=["twin"]) == ["free"]
    assert (bool(first), again) == (True, set())
    rejected = filtered(answers, names, claims=["twin"])["FailedAndUnresolvableNodes"]
    assert rejected[names[0]].startswith(f"claim twin would get volume pv-{names[0]}: ReservedForOther")


def test_a_pod_that_has_a_volume_of_its_own_leaves_what_others_are_rejected_as_it_is() -> None:
    own = reserved_volume("pv-own", "default/twin", node="n1")
    answers = extender([*claims(), *reserved_on_each(MANY[2:]), node("n1"), own])
    for _ in range(2):
        assert kept(answers, MANY[1:], claims=["twin"]) == ["n1"]
        assert kept(answers, MANY[1:]) == []


def test_a_volume_that_names_the_claim_decides_alone() -> None:
    """Reserved for the claim it is no reason against any node, and the others' volumes are none either."""
    own = replace(reserved_volume("pv-own", "default/data", node="n1"), claim=reference("default/data"))
    answers = extender([*claims(), *reserved_on_each(MANY), own])
    with stacks_at(rejection) as evaluated:
        assert kept(answers, MANY) == MANY
    assert evaluated == set()


def test_a_volume_reserved_for_a_claim_whose_own_is_decided_may_go_to_another_claim_of_the_pod() -> None:
    own = volume("pv-own", node="n1", claim="default/data")
    second = reserved_volume("pv-second", "default/data", node="n1", size="15Gi")
    answers = extender([*claims(), *NODES, own, second])
    assert kept(answers, NAMES, claims=["log"]) == NAMES[1:]
    assert kept(answers, NAMES, claims=["data", "log"]) == NAMES


def test_an_unhealthy_volume_that_names_a_claim_is_no_reason_for_other_claims() -> None:
    own = replace(unhealthy_volume("pv-own", node="n1"), claim=reference("default/data"))
    answers = extender([*claims(), *NODES, own, reserved_volume("pv-n2", "default/x", node="n2")])
    for _ in range(2):
        assert kept(answers, NAMES) == NAMES[1:]
        assert kept(answers, NAMES, claims=["twin"]) == ["n1", *NAMES[2:]]


def test_a_reservation_that_has_ended_counts_again_after_the_clock_was_set_back() -> None:
    answers = extender([*claims(), *NODES, reserved_volume("pv-n1", "default/x", node="n1")])
    assert kept(answers, NAMES, seconds=300) == NAMES
    assert kept(answers, NAMES, seconds=0) == NAMES[1:]


def test_what_a_node_reported_is_not_remembered() -> None:
    store = Store(PREFIX)
    answers = Extender(store, Annotations())
    local = [volume("pv-n1", node="n1"), reserved_volume("pv-n2", "default/x", node="n2")]
    degraded = csi_node("n1", reports=[StorageCondition(local[0].driver, "StorageDegraded", "Net")])
    records: list[Record] = [storage_class(), *claims(), *NODES, *local, degraded]
    for record in records:
        put(store, record)
    assert kept(answers, NAMES) == NAMES[2:]
    store.csi_nodes.delete("n1")
    assert kept(answers, NAMES) == ["n1", *NAMES[2:]]


def test_a_change_of_a_volume_concerns_only_its_node_and_its_class() -> None:
    rejections, keys = KnownRejections(), (HOSTNAME,)
    local, slow = volume(node="n1"), volume(node="n2", storage_class="slow")
    known = rejections.known(claims(), keys)
    known |= {(name,): NodeRejection("", 0, NOW, NEVER) for name in ("n1", "n2", "n3")}
    for old, new, left in (
        (slow, None, ["n1", "n2", "n3"]),
        (local, volume(node="n1", size="20Gi"), ["n2", "n3"]),
        (volume(node="n1"), volume(node="n3"), ["n2"]),
        (None, volume(zone="a"), []),
    ):
        rejections.volume_changed(old, new)
        assert [kind for (kind,) in rejections.known(claims(), keys)] == left


@pytest.mark.parametrize(("nodes", "remembered"), [(10, 64), (4000, 25)])
def test_memory_is_bounded(nodes: int, remembered: int) -> None:
    """The demands that were requested first are dropped, however many or few nodes each of them is about."""
    rejections, keys = KnownRejections(), (HOSTNAME,)
    kinds: dict[NodeKind, NodeRejection] = {
        (f"n{number}",): NodeRejection("", 0, NOW, NEVER) for number in range(nodes)
    }
    demands = [[claim(size=f"{1 + number}Gi")] for number in range(80)]
    for demand in demands:
        rejections.known(demand, keys).update(kinds)
    assert all(len(rejections.known(demand, keys)) == nodes for demand in demands[-remembered:])
    assert not rejections.known(demands[-remembered - 2], keys)
