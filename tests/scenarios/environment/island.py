"""A node that only the pods of one story go to, for stories about nodes that are full."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from devcluster.cluster import DevCluster
from devcluster.control_plane.nodes import NodeSpec, is_schedulable
from tests.scenarios.environment import documents
from tests.scenarios.environment.admin import Document
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World
from tests.scenarios.processes.scheduler_in_process import InProcessScheduler, running_scheduler

HOLD = "story.example/hold"
"""A finalizer: the pod is being deleted until it is taken away."""


class Island:
    """A node of 4 cores that only the story's pods go to, and priority classes of its own."""

    def __init__(self, world: World, scheduler: InProcessScheduler) -> None:
        self.world, self.admin, self.scheduler = world, world.admin, scheduler
        self.node = world.name("island")

    async def open(self) -> None:
        node = NodeSpec(self.node, "zone-a", cpu="4", labels={"story": self.world.namespace}, taints=(self._taint(),))
        classes = [self._class("low", 1), self._class("high", 1000), self._class("modest", 1000, "Never")]
        await self.admin.create(node.manifest(), *classes)
        await eventually(lambda: self.admin.get("Node", self.node), is_schedulable, "the island is ready")

    async def close(self) -> None:
        await self.admin.delete_all("Pod", self.world.namespace)
        await self.admin.delete("Node", self.node)
        for word in ("low", "high", "modest"):
            await self.admin.delete("PriorityClass", self.world.name(word))

    async def pod(
        self, name: str, priority: str, cpu: str = "2", *, claims: Sequence[str] = (), held: bool = False, **labels: str
    ) -> None:
        taint = self._taint()
        extra = {
            "schedulerName": self.world.namespace,
            "priorityClassName": self.world.name(priority),
            "nodeSelector": {"story": self.world.namespace},
            "tolerations": [{"key": taint["key"], "operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
        }
        pod = documents.pod(self.world.namespace, name, documents.pod_spec(claims, extra=extra))
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
        pod["metadata"] |= {"labels": labels, "finalizers": [HOLD] if held else []}
        await self.admin.create(pod)

    async def release(self, name: str) -> None:
        await self.admin.patch("Pod", name, {"metadata": {"finalizers": None}}, self.world.namespace)

    async def status(self, name: str) -> Document:
        status: Document = (await self.admin.get("Pod", name, self.world.namespace))["status"]
        return status

    async def rejected(self, name: str, text: str) -> Document:
        """Wait until the pod's condition says this, and return its status."""
        return await eventually(
            lambda: self.status(name),
            lambda status: any(text in condition.get("message", "") for condition in status.get("conditions", ())),
            f"{name} is rejected: {text}",
        )

    async def budget(self, least: int, name: str = "budget", **labels: str) -> None:
        """A budget, once its controller has looked at the pods."""
        spec = {"minAvailable": least, "selector": {"matchLabels": labels}}
        metadata = {"namespace": self.world.namespace, "name": name}
        await self.admin.create(
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
        )
        await eventually(
            lambda: self.admin.get("PodDisruptionBudget", name, self.world.namespace),
            lambda budget: budget.get("status", {}).get("currentHealthy", 0) > 0,
            "the budget counts its pods",
        )

    async def preempted(self) -> list[Document]:
        events = await self.admin.list("Event", self.world.namespace)
        return [event for event in events if event["reason"] == "Preempted"]

    def _taint(self) -> dict[str, str]:
        return {"key": f"{self.world.namespace}.example/own", "value": "", "effect": "NoSchedule"}

    def _class(self, word: str, value: int, policy: str = "PreemptLowerPriority") -> Document:
        return {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": self.world.name(word)},
            "value": value,
            "preemptionPolicy": policy,
        }


@asynccontextmanager
async def open_island(cluster: DevCluster, world: World) -> AsyncIterator[Island]:
    """Open an island for a standalone scheduler in the test's own process; close it at the end."""
    async with running_scheduler(cluster.kubeconfig, world.namespace, world.prefix) as scheduler:
        island = Island(world, scheduler)
        await island.open()
        yield island
        await island.close()
