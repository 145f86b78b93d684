"""The command against a cluster that acts: killed at each write, beside another user, rejected, taken back."""

import asyncio
import json
from random import Random
from typing import Any

import pytest

from binder.replacement.decision import Decision, Finished, NotReplaced, Plan, Waiting
from binder.replacement.request import ReplaceRequest
from prebinder.replace.carrying_out import Forbids
from tests.prebinder.replace.model import Connection, ModelCluster, model
from tests.prebinder.replace.model_api import OURS, Killed
from tests.prebinder.replace.test_losses import run

GIVE_BACK = ReplaceRequest(abandon=True, give_back=True)


def cluster_of(replicas: int = 1, policy: str = "Parallel", seed: int = 1) -> ModelCluster:
    cluster = model(Random(seed), nodes=6, disks=1)
    cluster.add_set("db", replicas, [("data", "10Gi")], policy)
    cluster.settle()
    assert cluster.running("db") == replicas
    return cluster


def disk_of(cluster: ModelCluster, claim: str = "data-db-0") -> str:
    return str(cluster.objects["persistentvolumeclaims", f"shop/{claim}"]["spec"]["volumeName"])


def lose_node_of(cluster: ModelCluster, pod: str = "db-0") -> str:
    node = str(cluster.objects["pods", f"shop/{pod}"]["spec"]["nodeName"])
    cluster.remove("nodes", node)
    cluster.settle()
    return node


def _scale(cluster: ModelCluster, replicas: int) -> None:
    owner = cluster.objects["statefulsets", "shop/db"]
    owner["spec"]["replicas"] = replicas
    cluster.put("statefulsets", owner)


def carry_out(cluster: ModelCluster, request: ReplaceRequest | None = None, dies_after: int | None = None) -> Decision:
    return asyncio.run(run(cluster, "db-0", Connection(cluster, lambda: None, dies_after), request))


@pytest.mark.parametrize("writes", range(1, 10))
def test_it_goes_on_after_a_kill_at_any_write(writes: int) -> None:
    cluster = cluster_of()
    old = disk_of(cluster)
    lose_node_of(cluster)
    try:
        assert isinstance(carry_out(cluster, dies_after=writes), Finished)
    except Killed:
        assert isinstance(carry_out(cluster), Finished)
    assert cluster.running("db") == 1
    assert disk_of(cluster) != old
    assert cluster.objects["persistentvolumes", old]["status"]["phase"] == "Released"
    assert not cluster.problems
    marks = json.dumps([cluster.objects["persistentvolumes", disk_of(cluster)], cluster.all("statefulsets")])
    assert OURS.replaces not in marks, "the marks and the turn are over"


@pytest.mark.parametrize("seed", range(10))
def test_two_users_at_once_reserve_one_volume_and_delete_one_claim(seed: int) -> None:
    cluster = cluster_of(seed=seed)
    lose_node_of(cluster)

    async def both() -> list[Any]:
        connections = [Connection(cluster, lambda: None), Connection(cluster, lambda: None)]
        return await asyncio.gather(*(run(cluster, "db-0", each) for each in connections))

    assert all(isinstance(decision, Finished) for decision in asyncio.run(both()))
    assert cluster.deleted == ["shop/data-db-0"]
    named = [each for each in cluster.all("persistentvolumes") if each["spec"].get("claimRef") is not None]
    assert len(named) == 2, "the old volume and one new"


def test_a_second_replica_waits_for_the_turn_of_the_first() -> None:
    cluster = cluster_of(2)
    for pod in ("db-0", "db-1"):
        lose_node_of(cluster, pod)
    with pytest.raises(Killed):
        carry_out(cluster, dies_after=1)
    other = asyncio.run(run(cluster, "db-1", Connection(cluster, lambda: None)))
    assert isinstance(other, NotReplaced)
    assert "one replica has its turn" in other.why.why
    assert "replace pod/db-0" in other.why.next
    assert isinstance(carry_out(cluster), Finished)
    assert isinstance(asyncio.run(run(cluster, "db-1", Connection(cluster, lambda: None))), Finished)
    assert cluster.running("db") == 2


def test_a_budget_that_does_not_allow_the_eviction_prevents_the_deletion() -> None:
    cluster = cluster_of()
    lose_node_of(cluster)
    cluster.forbids_eviction = True
    with pytest.raises(Forbids):
        carry_out(cluster)
    assert not cluster.deleted
    cluster.forbids_eviction = False
    assert isinstance(carry_out(cluster), Finished)


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_a_node_that_is_back_before_the_deletion_ends_it_and_the_pod_keeps_its_disk(writes: int) -> None:
    cluster = cluster_of()
    old, node = disk_of(cluster), lose_node_of(cluster)
    with pytest.raises(Killed):
        carry_out(cluster, dies_after=writes)
    cluster.add_node(node)
    decision = carry_out(cluster)
    assert isinstance(decision, Plan)
    assert decision.ended is not None
    cluster.settle()
    assert (cluster.running("db"), disk_of(cluster)) == (1, old)
    assert not cluster.deleted
    assert OURS.prefix + "was-for" not in json.dumps(cluster.all("persistentvolumes"))
    assert OURS.replaces not in json.dumps([cluster.all("persistentvolumes"), cluster.all("statefulsets")])


def test_data_loss_on_a_node_that_works_is_replaced() -> None:
    cluster = cluster_of()
    old = disk_of(cluster)
    cluster.lose_data(old)
    assert isinstance(carry_out(cluster), Finished)
    assert (cluster.running("db"), disk_of(cluster) != old) == (1, True)


def test_a_driver_that_reports_the_loss_of_half_its_volumes_gets_nothing_replaced() -> None:
    cluster = cluster_of(3)
    for document in cluster.all("persistentvolumes")[:3]:
        cluster.lose_data(document["metadata"]["name"])
    before = dict(cluster.objects)
    for pod in ("db-0", "db-1", "db-2"):
        decision = asyncio.run(run(cluster, pod, Connection(cluster, lambda: None)))
        assert isinstance(decision, NotReplaced)
    assert cluster.objects == before


def test_a_volume_is_given_back_when_its_node_returns_and_the_present_one_is_kept() -> None:
    cluster = cluster_of()
    old, node = disk_of(cluster), lose_node_of(cluster)
    assert isinstance(carry_out(cluster), Finished)
    present = disk_of(cluster)
    cluster.add_node(node)
    running = carry_out(cluster, GIVE_BACK)
    assert isinstance(running, NotReplaced), "a pod that is Ready is left alone"
    _scale(cluster, 0)
    cluster.remove("pods", "shop/db-0")
    cluster.deletes_of_volumes_with_a_node = True
    assert isinstance(carry_out(cluster, GIVE_BACK), Waiting), "for the set to have the replica again"
    _scale(cluster, 1)
    assert isinstance(carry_out(cluster, GIVE_BACK), Finished)
    assert (cluster.running("db"), disk_of(cluster)) == (1, old)
    kept = cluster.objects["persistentvolumes", present]
    assert kept["status"]["phase"] == "Released"
    assert OURS.was_for in kept["metadata"]["annotations"]
    assert OURS.was_for not in cluster.objects["persistentvolumes", old]["metadata"]["annotations"]
    assert not cluster.problems
