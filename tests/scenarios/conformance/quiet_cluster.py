"""A cluster in which a single kube-scheduler decides, on exactly the objects that the test created."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from devcluster.cluster import DevCluster
from devcluster.control_plane.components import Options
from devcluster.control_plane.nodes import is_schedulable
from tests.scenarios.conformance.puzzles import Puzzle, csi_nodes, held_for, nodes
from tests.scenarios.conformance.recording_extender import Recording
from tests.scenarios.environment.admin import Admin, Document
from tests.scenarios.environment.waiting import eventually


@asynccontextmanager
async def quiet_cluster(namespace: str) -> AsyncIterator[DevCluster]:
    """Start a cluster with the puzzles' nodes, in which nothing is scheduled yet and the PV controller is paused."""
    lifted = ("--kube-api-qps=500", "--kube-api-burst=500")
    flags = {
        "kube-controller-manager": (*lifted, "--controllers=*,-taint-eviction-controller,-ephemeral-volume-controller")
    }
    async with DevCluster(Options(scheduler=False, flags=flags)) as cluster:
        await cluster.create_namespace(namespace)
        async with Admin(cluster) as admin:
            await admin.create_at_once(nodes())
            await eventually(lambda: admin.list("Node"), lambda seen: all(map(is_schedulable, seen)), "nodes are ready")
        cluster.controller_manager.pause()
        yield cluster


async def lay_out(admin: Admin, puzzles: list[Puzzle], namespace: str) -> None:
    """Create everything, and set the states that it has in the puzzles."""
    first = [*csi_nodes(puzzles), *(document for puzzle in puzzles for document in puzzle.first)]
    await admin.create_at_once(first)
    pods = [document for puzzle in puzzles for document in puzzle.pods]
    await admin.create_at_once(pods)
    uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await admin.list("Pod", namespace)}
    owned = []
    for puzzle in puzzles:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": puzzle.name, "uid": uids[puzzle.name], "controller": True}
        for claim in puzzle.owned:
            owned.append(claim | {"metadata": claim["metadata"] | {"ownerReferences": [owner]}})
    await admin.create_at_once(owned)
    absent = {"PersistentVolume": set[str](), "PersistentVolumeClaim": set[str]()}
    for kind, names in absent.items():
        names.update(document["metadata"]["name"] for document in await admin.list(kind))
    claims = {
        claim["metadata"]["name"]: claim["metadata"]["uid"] for claim in await admin.list("PersistentVolumeClaim")
    }
    async with asyncio.TaskGroup() as tasks:
        for held, holder in (pair for puzzle in puzzles for pair in puzzle.promised.items()):
            if holder in claims:
                promise = {"metadata": {"annotations": held_for(f"{namespace}/{holder}", claims[holder])}}
                tasks.create_task(admin.patch("PersistentVolume", held, promise))
        for kind, name, phase in ((*key, phase) for puzzle in puzzles for key, phase in puzzle.phases.items()):
            if name in absent[kind]:
                within = "" if kind == "PersistentVolume" else namespace
                status = {"status": {"phase": phase}}
                tasks.create_task(admin.patch(kind, name, status, within, subresource="status"))
        for name in (name for puzzle in puzzles for name in puzzle.gone):
            if name in absent["PersistentVolumeClaim"]:
                tasks.create_task(admin.delete("PersistentVolumeClaim", name, namespace))


async def untried(admin: Admin, recording: Recording, namespace: str, scheduler: str) -> set[str]:
    """Return the pods for which kube-scheduler has found neither nodes nor a reason why there are none."""
    waiting = [pod for pod in await admin.list("Pod", namespace) if pod["spec"]["schedulerName"] == scheduler]
    rejected = {pod["metadata"]["name"] for pod in waiting if unschedulable_message(pod)}
    return {pod["metadata"]["name"] for pod in waiting} - rejected - set(recording.passed)


def unschedulable_message(pod: Document) -> str:
    """Return kube-scheduler's reason why it found no node, empty if there is none."""
    conditions = pod["status"].get("conditions", ())
    return next(
        (str(condition["message"]) for condition in conditions if condition.get("reason") == "Unschedulable"), ""
    )


_DUMPED: Final = {
    "PersistentVolume": "v1",
    "PersistentVolumeClaim": "v1",
    "Pod": "v1",
    "Node": "v1",
    "StorageClass": "storage.k8s.io/v1",
    "CSINode": "storage.k8s.io/v1",
    "CSIDriver": "storage.k8s.io/v1",
    "CSIStorageCapacity": "storage.k8s.io/v1",
    "VolumeAttachment": "storage.k8s.io/v1",
}


async def dumped(admin: Admin) -> Document:
    items: list[Document] = []
    for kind, version in _DUMPED.items():
        items += [{"apiVersion": version, "kind": kind, **item} for item in await admin.list(kind)]
    return {"apiVersion": "v1", "kind": "List", "items": items}
