"""Nodes of a story's own, and a crowd of pods with every kind of wish that fits on them to the last."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from devcluster.cluster import DevCluster
from devcluster.control_plane.nodes import NodeSpec
from tests.scenarios.environment import documents
from tests.scenarios.environment.documents import HOSTNAME, ZONE, ZONES, Document, claim_spec
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World

STORY, POOL, RANK = "story", "pool", "rank"
NODES = 20
BATCH = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@asynccontextmanager
async def nodes_of_its_own(world: World) -> AsyncIterator[None]:
    """Nodes of 4 cpu in three zones, closed to other stories' pods; every fifth one for batch pods only."""
    own = [_node(world.namespace, number) for number in range(NODES)]
    await world.cluster.add_nodes(own)
    yield
    await world.admin.delete_all("Pod", world.namespace)
    for node in own:
        await world.admin.delete("Node", node.name)


def _node(story: str, number: int) -> NodeSpec:
    batch = number % 5 == 0
    labels = {STORY: story, POOL: "batch" if batch else "common", RANK: str(number)}
    taints = ({"key": STORY, "value": story, "effect": "NoSchedule"}, *([BATCH] if batch else []))
    zone = ZONES[number % len(ZONES)]
    return NodeSpec(f"{story}-{number}", zone, cpu="4", memory="8Gi", pods=40, labels=labels, taints=taints)


class Crowd:
    """Pods of one scheduler; an empty name is kube-scheduler's. All may go to the story's nodes and nowhere else."""

    def __init__(self, world: World, scheduler: str) -> None:
        self._story = world.namespace
        self._scheduler = scheduler or "default-scheduler"

    def plain(self, count: int, cpu: str = "200m") -> list[Document]:
        return [self._pod(f"plain-{number}", cpu=cpu) for number in range(count)]

    def batch(self, count: int) -> list[Document]:
        """They alone tolerate the taint of the nodes that they select."""
        return [self._pod(f"batch-{n}", tolerations=[BATCH], nodeSelector={POOL: "batch"}) for n in range(count)]

    def spread(self, count: int) -> list[Document]:
        rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
        rule["labelSelector"] = self._labelled("web")
        return [self._pod(f"web-{n}", "web", topologySpreadConstraints=[rule]) for n in range(count)]

    def alone(self, count: int) -> list[Document]:
        """One on a node."""
        affinity = {
            "podAntiAffinity": {REQUIRED: [{"topologyKey": HOSTNAME, "labelSelector": self._labelled("alone")}]}
        }
        return [self._pod(f"alone-{n}", "alone", affinity=affinity) for n in range(count)]

    def together(self, count: int) -> list[Document]:
        """In the zone of the first of them, who minds nothing."""
        affinity = {"podAffinity": {REQUIRED: [{"topologyKey": ZONE, "labelSelector": self._labelled("db")}]}}
        return [self._pod("db", "db"), *(self._pod(f"near-{n}", affinity=affinity) for n in range(count - 1))]

    def choosy(self, count: int) -> list[Document]:
        expressions = [
            {"key": RANK, "operator": "Gt", "values": ["9"]},
            {"key": POOL, "operator": "NotIn", "values": ["batch"]},
            {"key": "missing", "operator": "DoesNotExist"},
        ]
        affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}}
        return [self._pod(f"choosy-{n}", affinity=affinity) for n in range(count)]

    def listening(self, count: int, port: int = 9100) -> list[Document]:
        """All on the same port of their node."""
        pods = [self._pod(f"listening-{number}") for number in range(count)]
        for pod in pods:
            pod["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
        return pods

    def stored(self, count: int, storage_class: str) -> list[Document]:
        """Each with a claim of its own, the claim first."""
        return [document for number in range(count) for document in self._with_claim(f"stored-{number}", storage_class)]

    def _with_claim(self, name: str, storage_class: str) -> Iterator[Document]:
        yield documents.claim(self._story, name, claim_spec(storage_class))
        yield self._pod(name, claims=(name,))

    def _labelled(self, app: str) -> Document:
        return {"matchLabels": {"app": app}}

    def _pod(
        self,
        name: str,
        app: str = "",
        *,
        cpu: str = "100m",
        claims: tuple[str, ...] = (),
        tolerations: list[Document] | None = None,
        nodeSelector: Document | None = None,  # noqa: N803 - the API's name
        **spec: Any,
    ) -> Document:
        own = {"key": STORY, "value": self._story, "effect": "NoSchedule"}
        spec["tolerations"] = [own, *(tolerations or ())]
        spec["nodeSelector"] = {STORY: self._story, **(nodeSelector or {})}
        spec["schedulerName"] = self._scheduler
        made = documents.pod(self._story, f"{self._scheduler}-{name}", documents.pod_spec(claims, extra=spec))
        made["metadata"]["labels"] = {"app": app} if app else {}
        made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
        return made


async def waiting(cluster: DevCluster, namespace: str) -> list[str]:
    """Pods that have no node yet."""
    async with cluster.api() as api:
        response = await api.get(f"/api/v1/namespaces/{namespace}/pods?fieldSelector=spec.nodeName%3D")
    return [pod["metadata"]["name"] for pod in response["items"]]


async def no_more_than(world: World, count: int) -> int:
    """Wait until so many pods are without a node; return how many are."""
    pending = await eventually(
        lambda: waiting(world.cluster, world.namespace), lambda names: len(names) <= count, f"{count} pods wait", 90
    )
    return len(pending)
