"""Random losses of nodes, replaced by commands that are killed and interleaved with everything else that acts."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from binder.replacement.decision import Decision, Finished
from binder.replacement.request import ReplaceRequest
from kube.client.api import KubeApi
from prebinder.replace.carrying_out import Replacer
from prebinder.replace.deletion import ClaimDeletion
from prebinder.replace.reading import SituationReader
from tests.prebinder.replace.model import Connection, ModelClock, ModelCluster, model
from tests.prebinder.replace.model_api import OURS, Killed


class Quiet:
    """Reports nothing."""

    def done(self, step: object) -> None: ...

    def waiting(self, what: str) -> None: ...


async def run(
    cluster: ModelCluster,
    pod: str,
    connection: Connection,
    request: ReplaceRequest | None = None,
    patience: float = 5.0,
) -> Decision:
    """Run the command once against the model."""
    clock, api = ModelClock(cluster), KubeApi(connection)
    reader = SituationReader(api, OURS, clock, "shop", pod)
    replacer = Replacer(api, ClaimDeletion(connection), reader.read, clock, Quiet(), 5.0)
    return await replacer.run(request or ReplaceRequest())


async def _users(
    cluster: ModelCluster,
    random: Random,
    wanted: list[str],
    most_kills: int,
    beside: Callable[[], object] = lambda: None,
) -> None:
    """Run the command for each pod, killed at any write, again and again until all pods are Ready.

    `beside` is done now and then while a command runs.
    """
    kills = 0
    for _ in range(60):
        cluster.settle()
        broken = [pod for pod in wanted if not _works(cluster, pod)]
        if not broken:
            return
        pod = random.choice(broken)
        dies_after = random.randint(1, 6) if kills < most_kills and random.random() < 0.7 else None
        connection = Connection(cluster, lambda: _act(cluster, random, beside), dies_after)
        try:
            await run(cluster, pod, connection)
        except Killed:
            kills += 1


def _act(cluster: ModelCluster, random: Random, beside: Callable[[], object]) -> None:
    for _ in range(random.randint(0, 2)):
        cluster.act()
    if random.random() < 0.1:
        beside()


def _works(cluster: ModelCluster, pod: str) -> bool:
    document = cluster.get("pods", f"shop/{pod}")
    return document is not None and bool(document["status"].get("conditions"))


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
@pytest.mark.parametrize("seed", range(100))
def test_every_pod_runs_again_and_no_claim_has_the_disk_of_another(seed: int, policy: str) -> None:
    random = Random(seed)
    replicas, templates = (
        random.randint(3, 6),
        random.choice(((("data", "10Gi"),), (("data", "10Gi"), ("log", "10Gi")))),
    )
    cluster = model(random, nodes=12, disks=2)
    cluster.add_set("db", replicas, templates, policy)
    cluster.settle()
    assert cluster.running("db") == replicas
    pods = [f"db-{ordinal}" for ordinal in range(replicas)]
    used = sorted({pod["spec"]["nodeName"] for pod in cluster.all("pods")})
    for node in random.sample(used, min(len(used), random.randint(1, 3))):
        cluster.remove("nodes", node)
        if random.random() < 0.5:
            cluster.settle()
    asyncio.run(_users(cluster, random, pods, most_kills=8))
    assert cluster.running("db") == replicas
    assert not cluster.problems


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
@pytest.mark.parametrize("seed", range(50))
def test_claims_deleted_by_hand_beside_it_swap_no_disk_and_free_no_kept_one(seed: int, policy: str) -> None:
    random = Random(seed)
    replicas = random.randint(3, 5)
    templates = random.choice(((("data", "10Gi"),), (("data", "10Gi"), ("log", "10Gi"))))
    cluster = model(random, nodes=20, disks=2)
    cluster.add_set("db", replicas, templates, policy)
    cluster.settle()
    used = sorted({pod["spec"]["nodeName"] for pod in cluster.all("pods")})
    for node in random.sample(used, min(len(used), random.randint(1, 3))):
        cluster.remove("nodes", node)
    hands = [random.randrange(replicas) for _ in range(random.randint(1, 4))]

    def beside() -> None:
        if hands:
            cluster.delete_by_hand("db", hands.pop())

    beside()
    asyncio.run(_users(cluster, random, [f"db-{ordinal}" for ordinal in range(replicas)], 8, beside))
    assert not cluster.problems
    assert cluster.running("db") == replicas


def test_the_reserved_volume_is_taken_although_a_smaller_one_is_free() -> None:
    cluster = model(Random(1), nodes=2, disks=1)
    cluster.add_set("db", 1, [("data", "10Gi")], "OrderedReady")
    cluster.settle()
    node = cluster.all("pods")[0]["spec"]["nodeName"]
    cluster.remove("nodes", node)
    cluster.settle()
    decision = asyncio.run(run(cluster, "db-0", Connection(cluster, lambda: None)))
    assert isinstance(decision, Finished)
    assert cluster.running("db") == 1
