"""A cluster in memory in which controllers act: the StatefulSet controller, kube-scheduler, the PV controller,
pvc-protection, pod garbage collection and kubelets, one small action at a time and in any order.

It records whose data each disk has: a disk that one claim was bound to and another claim gets is a swap.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any

from kube.client.transport import Request, Response, StreamResponse
from tests.fakes.objects import Object
from tests.prebinder.replace.model_api import OURS, Killed, ModelApi, key_of, node_of

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


class ModelCluster(ModelApi):
    """The API server with the controllers."""

    # What acts

    def act(self) -> bool:
        """Do one action of a controller, any that is possible; return whether there was one."""
        actions = list(self._actions())
        if not actions:
            return False
        self.random.choice(actions)()
        self.judge()
        return True

    def settle(self) -> None:
        """Act until nothing is left to do."""
        for _ in range(2000):
            if not self.act():
                return
        raise AssertionError("the controllers never rest")

    def _actions(self) -> Iterator[Callable[[], object]]:
        yield from self._of_sets()
        yield from self._of_pods()
        yield from self._of_claims()
        yield from self._of_volumes()

    def _of_sets(self) -> Iterator[Callable[[], object]]:
        for each in self.all("statefulsets"):
            spec, name = each["spec"], each["metadata"]["name"]
            for ordinal in range(spec["replicas"]):
                pod = self.get("pods", f"shop/{name}-{ordinal}")
                if pod is None:
                    yield partial(self._create, each, ordinal)
                elif not pod["spec"].get("nodeName") and self._missing_claims(each, ordinal):
                    yield partial(self._create_claims, each, ordinal)
                if spec["podManagementPolicy"] == "OrderedReady" and (pod is None or not _is_ready(pod)):
                    break

    def _missing_claims(self, each: Object, ordinal: int) -> list[str]:
        names = [
            f"{template['metadata']['name']}-{each['metadata']['name']}-{ordinal}" for template in _templates(each)
        ]
        return [name for name in names if self.get("persistentvolumeclaims", f"shop/{name}") is None]

    def _create_claims(self, each: Object, ordinal: int) -> bool:
        """Create the claims that are missing; False if one is being deleted (createPersistentVolumeClaims)."""
        for template in _templates(each):
            name = f"{template['metadata']['name']}-{each['metadata']['name']}-{ordinal}"
            claim = self.get("persistentvolumeclaims", f"shop/{name}")
            if claim is None:
                spec = json.loads(json.dumps(template["spec"]))
                meta = {"name": name, "namespace": "shop"}
                self.put("persistentvolumeclaims", {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})
            elif "deletionTimestamp" in claim["metadata"]:
                return False
        return True

    def _create(self, each: Object, ordinal: int) -> None:
        if not self._create_claims(each, ordinal):
            return
        name = each["metadata"]["name"]
        volumes = [
            {"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{name}-{ordinal}"}}
            for claim in (template["metadata"]["name"] for template in _templates(each))
        ]
        owner = {"kind": "StatefulSet", "name": name, "controller": True, "uid": each["metadata"]["uid"]}
        meta = {"name": f"{name}-{ordinal}", "namespace": "shop", "ownerReferences": [owner]}
        spec = {"containers": [{"name": "main"}], "volumes": volumes, "schedulerName": "default-scheduler"}
        self.put("pods", {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})

    def _of_pods(self) -> Iterator[Callable[[], object]]:
        for pod in self.all("pods"):
            key, node = key_of(pod["metadata"]), pod["spec"].get("nodeName", "")
            gone = bool(node) and self.get("nodes", node) is None
            if gone or "deletionTimestamp" in pod["metadata"]:
                # Pod garbage collection, or the kubelet.
                yield partial(self.remove, "pods", key)
            elif not node:
                for choice in self._placements(pod):
                    yield partial(self._bind, pod, *choice)

    def _placements(self, pod: Object) -> Iterator[tuple[str, list[tuple[Object, Object]]]]:
        claims = [self.get("persistentvolumeclaims", key) for key in _claims_of(pod)]
        if any(claim is None or "deletionTimestamp" in claim["metadata"] for claim in claims):
            return
        for node in self.all("nodes"):
            pairs: list[tuple[Object, Object]] = []
            for claim in claims:
                volume = self._volume_for(claim or {}, node["metadata"]["name"], [volume for _, volume in pairs])
                if volume is None:
                    break
                pairs.append((claim or {}, volume))
            else:
                yield node["metadata"]["name"], pairs

    def _volume_for(self, claim: Object, node: str, taken: list[Object]) -> Object | None:
        """Return the volume that kube-scheduler takes on the node: its own, one that names it, else the smallest."""
        meta, bound = claim["metadata"], claim["spec"].get("volumeName")
        if bound:
            volume = self.get("persistentvolumes", bound)
            return volume if volume is not None and node_of(volume) == node else None
        free: list[Object] = []
        for volume in self.all("persistentvolumes"):
            reference = volume["spec"].get("claimRef")
            if volume["status"]["phase"] != "Available" or volume in taken:
                continue
            if reference is not None and (reference["namespace"], reference["name"]) == ("shop", meta["name"]):
                if reference.get("uid", meta["uid"]) == meta["uid"]:
                    return volume if node_of(volume) == node else None
            elif reference is None and node_of(volume) == node and _size(volume["spec"]) >= _wanted(claim):
                free.append(volume)
        return min(free, key=lambda volume: (_size(volume["spec"]), volume["metadata"]["name"]), default=None)

    def _bind(self, pod: Object, node: str, pairs: list[tuple[Object, Object]]) -> None:
        for claim, volume in pairs:
            meta = claim["metadata"]
            volume["spec"]["claimRef"] = {"namespace": "shop", "name": meta["name"], "uid": meta["uid"]}
            volume["status"]["phase"] = "Bound"
            self.put("persistentvolumes", volume)
            claim["spec"]["volumeName"] = volume["metadata"]["name"]
            meta.setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"
            claim["status"]["phase"] = "Bound"
            self.put("persistentvolumeclaims", claim)
        pod["spec"]["nodeName"] = node
        pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        self.put("pods", pod)

    def _of_claims(self) -> Iterator[Callable[[], object]]:
        """Yield what pvc-protection does: a claim goes when no pod on a node uses it."""
        for claim in self.all("persistentvolumeclaims"):
            key = key_of(claim["metadata"])
            if "deletionTimestamp" in claim["metadata"]:
                users = [pod for pod in self.all("pods") if pod["spec"].get("nodeName") and key in _claims_of(pod)]
                if not users:
                    yield partial(self.remove, "persistentvolumeclaims", key)

    def _of_volumes(self) -> Iterator[Callable[[], object]]:
        """Yield what the PV controller does: a volume whose claim is gone is Released."""
        for volume in self.all("persistentvolumes"):
            reference, phase = volume["spec"].get("claimRef"), volume["status"]["phase"]
            wanted = phase
            if reference is None or not reference.get("uid"):
                wanted = "Available"
            else:
                claim = self.get("persistentvolumeclaims", f"{reference['namespace']}/{reference['name']}")
                if claim is None or claim["metadata"]["uid"] != reference["uid"]:
                    wanted = "Released"
            if wanted != phase:
                yield partial(self._set_phase, volume, wanted)

    def _set_phase(self, volume: Object, phase: str) -> None:
        volume["status"]["phase"] = phase
        self.put("persistentvolumes", volume)

    # What must hold

    def judge(self) -> None:
        """Note what must never happen."""
        uids: dict[str, str] = {}
        for claim in self.all("persistentvolumeclaims"):
            name, key = claim["spec"].get("volumeName"), key_of(claim["metadata"])
            if not name:
                continue
            owner = self.owner_of_data.setdefault(name, key)
            if owner != key:
                self.problems.append(f"claim {key} has disk {name} with the data of {owner}")
            if uids.setdefault(name, key) != key:
                self.problems.append(f"disk {name} has two claims")
            notes = (self.objects["persistentvolumes", name]["metadata"].get("annotations")) or {}
            if (
                OURS.replaces not in notes
                and notes.get(OURS.was_for, f"{key}/{uid_of(claim)}") != f"{key}/{uid_of(claim)}"
            ):
                self.problems.append(f"disk {name}, kept with the data of {notes[OURS.was_for]}, was given to {key}")

    # What a user does by hand

    def delete_by_hand(self, name: str, ordinal: int) -> None:
        """Delete the claims of a replica, then its pod or not, as after advice from the web."""
        keys = [
            key for kind, key in self.objects if kind == "persistentvolumeclaims" and key.endswith(f"-{name}-{ordinal}")
        ]
        for key in keys:
            self._end("persistentvolumeclaims", key)
        if self.random.random() < 0.7:
            self._end("pods", f"shop/{name}-{ordinal}")

    def _end(self, plural: str, key: str) -> None:
        document = self.get(plural, key)
        if document is not None:
            document["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
            self.put(plural, document)

    def running(self, name: str) -> int:
        """Return how many pods of the set are Ready."""
        return sum(_is_ready(pod) for pod in self.all("pods") if pod["metadata"]["name"].startswith(f"{name}-"))

    def lose_data(self, disk: str) -> None:
        """Let the driver say, in two complete sweeps, that the data of the disk is lost."""
        volume = self.objects["persistentvolumes", disk]
        words = {OURS.health: "DataLoss", OURS.health_reason: "Gone", OURS.health_since: "2026-01-01T11:00:00Z"}
        volume["metadata"].setdefault("annotations", {}).update(words)
        self.put("persistentvolumes", volume)
        lost = [
            disk for disk in self.all("persistentvolumes") if OURS.health in (disk["metadata"].get("annotations") or {})
        ]
        handles = [disk["spec"]["csi"]["volumeHandle"] for disk in lost]
        ended = (START + timedelta(seconds=-5)).strftime("%Y-%m-%dT%H:%M:%SZ")
        sweep: dict[str, Any] = {
            "driver": "disk.csi.example",
            "began": ended,
            "ended": ended,
            "intervalSeconds": 86400,
            "resourceVersion": "1",
            "volumes": len(self.all("persistentvolumes")),
            "unhealthy": len(lost),
            "unknown": 0,
            "unsupported": 0,
            "exceptions": [],
            "lost": len(lost),
            "lostTwice": handles,
        }
        meta = {"name": "controller", "namespace": "system", "annotations": {OURS.sweeps: json.dumps([sweep])}}
        self.put("leases", {"metadata": meta})


class Connection:
    """The connection of one command. `before` is called before each request; it dies after so many writes."""

    def __init__(self, cluster: ModelCluster, before: Callable[[], None], dies_after: int | None = None) -> None:
        self._cluster, self._before, self._left = cluster, before, dies_after
        self.writes: list[Request] = []

    async def send(self, request: Request) -> Response:
        self._before()
        response = await self._cluster.send(request)
        if request.method != "GET" and response.status < 300:
            self.writes.append(request)
            self._cluster.judge()
            if self._left is not None:
                self._left -= 1
                if self._left <= 0:
                    raise Killed
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        raise NotImplementedError


class ModelClock:
    """Sleeping lets the controllers act, and time pass."""

    def __init__(self, cluster: ModelCluster) -> None:
        self._cluster, self._elapsed = cluster, 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        self._elapsed += seconds
        for _ in range(20):
            self._cluster.act()


def model(random: Random, nodes: int, disks: int) -> ModelCluster:
    """Return a cluster with a class and so many nodes with so many disks of 10 and 20 GiB."""
    cluster = ModelCluster(random)
    cluster.put("namespaces", {"metadata": {"name": "shop"}})
    cluster.put(
        "storageclasses",
        {
            "metadata": {"name": "local"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )
    for node in range(nodes):
        cluster.add_node(f"n{node}")
        for disk in range(disks):
            cluster.add_disk(f"pv-{node}-{disk}", f"n{node}", random.choice(("10Gi", "20Gi")))
    return cluster


def uid_of(document: Object) -> str:
    return str(document["metadata"]["uid"])


def _templates(each: Object) -> list[Object]:
    return list(each["spec"]["volumeClaimTemplates"])


def _claims_of(pod: Object) -> list[str]:
    return [f"shop/{volume['persistentVolumeClaim']['claimName']}" for volume in pod["spec"]["volumes"]]


def _size(spec: Object) -> int:
    return int(spec["capacity"]["storage"].removesuffix("Gi"))


def _wanted(claim: Object) -> int:
    return int(claim["spec"]["resources"]["requests"]["storage"].removesuffix("Gi"))


def _is_ready(pod: Object) -> bool:
    return bool(pod["status"].get("conditions")) and "deletionTimestamp" not in pod["metadata"]
