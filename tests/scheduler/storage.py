"""The plugins that write against an API server in memory, with a clock that the test moves.

The PV controller and the provisioner are not here: a test plays their part.
"""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from binder.matching.rejection import Rejection
from binder.model.view import PlanSettings
from binder.reservation.contract import Annotations
from binder.writers.object_client import ObjectClient
from kube.client.api import KubeApi
from kube.client.transport import Request
from kube.leaderelection.leadership import Leadership
from kube.store.store import Store
from scheduler.binding.bind_volumes import BindVolumes
from scheduler.framework.plugin import ScheduleResult
from scheduler.volumes.volume_binding import VolumeChoice
from tests.fake_clock import FakeClock, settle
from tests.fakes.kube_api import Connection, FakeKubeApi
from tests.fakes.objects import claim_object, class_object, node_object, pod_object, volume_object

LIMIT = timedelta(seconds=600)

Object = dict[str, Any]
REFERENCE = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default"}
CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"


class Cluster:
    """A server with a node in zone a and one in zone b, a class of volumes that exist and one that has them made."""

    def __init__(self) -> None:
        self.server, self.clock = FakeKubeApi(), FakeClock()
        self.put(class_object(), node_object("node-a", "a"), node_object("node-b", "b"))
        self.put(class_object("made") | {"provisioner": "disk.csi.example"})

    def put(self, *documents: Object) -> None:
        for document in documents:
            self.server.put(document)

    def pair(self, claim: str, volume: str, /, **how: Any) -> None:
        self.put(claim_object(claim), volume_object(volume, **how))

    def volume(self, name: str) -> Object:
        return self.server.get(VOLUMES, name)

    def claim(self, name: str) -> Object:
        return self.server.get(CLAIMS, f"default/{name}")

    def uid(self, claim: str) -> str:
        uid: str = self.claim(claim)["metadata"]["uid"]
        return uid

    def change(self, plural: str, key: str, part: str, **fields: Any) -> None:
        """Lay fields over a part of an object as another writer would; None removes one."""

        def lay(document: Object) -> None:
            for name, value in fields.items():
                document[part][name] = value
                if value is None:
                    del document[part][name]

        self.server.change(plural, key, lay)

    def annotate(self, plural: str, key: str, **annotations: str) -> None:
        current = self.server.get(plural, key)["metadata"].get("annotations", {})
        self.change(plural, key, "metadata", annotations={**current, **annotations})

    def selected(self, claim: str) -> str | None:
        node: str | None = (
            self.claim(claim)["metadata"].get("annotations", {}).get("volume.kubernetes.io/selected-node")
        )
        return node

    def kubernetes_binds(self, claim: str, volume: str) -> None:
        """Bind as the PV controller does."""
        self.change(VOLUMES, volume, "spec", claimRef=REFERENCE | {"name": claim, "uid": self.uid(claim)})
        self.change(VOLUMES, volume, "status", phase="Bound")
        self.change(CLAIMS, f"default/{claim}", "spec", volumeName=volume)
        self.annotate(CLAIMS, f"default/{claim}", **{"pv.kubernetes.io/bind-completed": "yes"})

    def before(self, ending: str, event: Any) -> None:
        """Let something happen right before the first write of a path that ends so."""

        def hook(request: Request) -> None:
            if request.path.endswith(ending):
                self.server.before_write = None
                event()

        self.server.before_write = hook

    def writes(self) -> list[str]:
        return [f"{write.name}/{write.subresource}".rstrip("/") for write in self.server.writes]

    def instance(self, dies_after: int | None = None) -> "Instance":
        return Instance(self, dies_after)


class Instance:
    """One process with a store of its own. It may die after so many writes."""

    def __init__(self, cluster: Cluster, dies_after: int | None = None) -> None:
        self._cluster = cluster
        self.store = Store()
        cluster.server.feed(self.store)
        self.leadership = Leadership.unelected(cluster.clock, "host")
        self.connection = Connection(cluster.server, dies_after)
        api = KubeApi(self.connection, fence=self.leadership.fence)
        client = ObjectClient(api, self.store, Annotations())
        self.plugin = BindVolumes(client, self.store, self.store.pods, cluster.clock, PlanSettings(), LIMIT)

    def placement(
        self, volumes: Mapping[str, str], provision: Iterable[str] = (), *, pod: str = "web", node: str = "node-a"
    ) -> ScheduleResult:
        """Return the decision about a pod by what the store knows. A pod that is not there yet is created."""
        claims = [*volumes, *provision]
        if ("pods", f"default/{pod}") not in self._cluster.server.objects:
            self._cluster.put(pod_object(pod, claims))
        seen = self.store.snapshot()
        chosen = tuple((seen.claims[f"default/{claim}"], seen.volumes[name]) for claim, name in volumes.items())
        made = tuple(seen.claims[f"default/{claim}"] for claim in provision)
        return ScheduleResult(seen.pods[f"default/{pod}"], node, VolumeChoice(chosen, made))

    async def begin(self, placement: ScheduleResult) -> "asyncio.Task[Rejection | None]":
        """Begin as the binding cycle does, and go on to where it waits for others; the outcome is the task's."""
        task = asyncio.create_task(self.carry_out(placement))
        await settle()
        return task

    async def carry_out(self, placement: ScheduleResult) -> Rejection | None:
        """Bind and, if that fails, roll back."""
        try:
            rejected = await self.plugin.pre_bind(placement)
        except Exception:
            await self.plugin.roll_back(placement)
            raise
        if rejected is not None:
            await self.plugin.roll_back(placement)
        return rejected

    def listening(self) -> int:
        kinds = (self.store.pods, self.store.nodes, self.store.claims, self.store.volumes)
        return sum(len(kind.listeners) for kind in kinds)


async def outcome(task: "asyncio.Task[Rejection | None]") -> Rejection | None:
    """Let everything run that can, and return what became of it; it must be over by then."""
    await settle()
    assert task.done(), "it still waits"
    return task.result()
