"""Executes the operations of users and administrators. Requests that the API server rejects are only counted."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp

from soak import terrain
from soak.forgeries import forged
from soak.pool_users import CLAIM, PoolUsers
from soak.schedule import Operation
from soak.stage.client import Client, Document, Rejected
from soak.stage.driver import MoodyDriver
from soak.stage.operator import Operator
from soak.terrain import NAMESPACE, NODES, PREFIX

_AT_ONCE: Final = 12
_A_STEP: Final = 0.6
"""Seconds, roughly, that a step of `replace` takes: some are killed between two."""
_GARBAGE: Final = "%%% not a value"
_HEALTH: Final = PREFIX + "health"
_TAINT: Final = {"key": "soak.example/keep-away", "effect": "NoSchedule"}


class NotDone(Exception):
    """A command did not do what was wanted of it, which is expected."""


class Users(PoolUsers):
    """One administrator's client for many concurrent operations."""

    def __init__(
        self,
        client: Client,
        node_documents: dict[str, Document],
        operator: Operator,
        driver: MoodyDriver | None = None,
    ) -> None:
        super().__init__(client)
        self._operator, self._driver = operator, driver
        self._replacing = asyncio.Lock()
        self._node_documents = node_documents
        self._room = asyncio.Semaphore(_AT_ONCE)
        self.done: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()

    async def carry_out(self, operation: Operation) -> None:
        """Do it; a rejection or an unavailable API server is expected."""
        hand: Callable[[str, str], Awaitable[None]] = getattr(self, "_" + operation.kind.replace("-", "_"))
        async with self._room:
            try:
                await hand(operation.subject, operation.detail)
                self.done[operation.kind] += 1
            except (NotDone, Rejected, aiohttp.ClientError, TimeoutError, OSError):
                self.rejected[operation.kind] += 1

    # Users

    async def _create_pod(self, pod: str, detail: str) -> None:
        for claim in self._own_claims(pod):
            await self._unless_there(claim)
        await self._unless_there(terrain.pod(int(pod), gated=detail == "gated"))

    async def _create_claims(self, pod: str, _: str) -> None:
        """Claims without a pod yet; also one with the name of an ephemeral volume's, which the pod then does not
        own.
        """
        for claim in terrain.claims(int(pod)):
            await self._unless_there(claim)

    async def _delete_pod(self, pod: str, _: str) -> None:
        await self._client.delete("Pod", terrain.pod_name(int(pod)), NAMESPACE)

    async def _delete_claims(self, pod: str, _: str) -> None:
        for claim in terrain.claims(int(pod)):
            await self._gone("PersistentVolumeClaim", claim["metadata"]["name"], NAMESPACE)

    async def _delete_pod_and_claims(self, pod: str, _: str) -> None:
        await self._gone("Pod", terrain.pod_name(int(pod)), NAMESPACE)
        await self._delete_claims(pod, "")

    async def _recreate_pod_and_claims(self, pod: str, detail: str) -> None:
        await self._delete_pod_and_claims(pod, "")
        for document in (*self._own_claims(pod), terrain.pod(int(pod), gated=detail == "gated")):
            await self._created(document)

    async def _restart_pod(self, pod: str, detail: str) -> None:
        """Recreate a pod that has its node, on claims that it keeps, as a rolling restart does."""
        live = await self._client.get("Pod", terrain.pod_name(int(pod)), NAMESPACE)
        if live["spec"].get("nodeName"):
            await self._gone("Pod", terrain.pod_name(int(pod)), NAMESPACE)
            await self._created(terrain.pod(int(pod), gated=detail == "gated"))

    async def _forge_on_claim(self, pod: str, detail: str) -> None:
        claim = terrain.claims(int(pod))[-1]["metadata"]["name"]
        await self._client.patch("PersistentVolumeClaim", claim, await self._forged(detail), NAMESPACE)

    async def _forge_on_pod(self, pod: str, detail: str) -> None:
        await self._client.patch("Pod", terrain.pod_name(int(pod)), await self._forged(detail), NAMESPACE)

    # Administrators, about volumes

    async def _forge_on_volume(self, volume: str, detail: str) -> None:
        name = terrain.volume_name(*_split(volume))
        await self._client.patch("PersistentVolume", name, await self._forged(detail))

    async def _forge_on_node(self, node: str, detail: str) -> None:
        await self._client.patch("Node", node, await self._forged(detail))

    async def _forged(self, detail: str) -> Document:
        """Annotations that name the present claim of that pod by its uid, if there is one."""
        kind, volume, pod = detail.split(" ")
        claims = {each["metadata"]["name"]: each for each in await self._client.list(CLAIM, NAMESPACE)}
        live = claims.get(terrain.claims(int(pod))[0]["metadata"]["name"])
        return _annotations(forged(kind, volume, int(pod), live["metadata"]["uid"] if live else ""))

    async def _free_released(self, _: str, __: str) -> None:
        """Make released volumes Available, as an administrator does who has dealt with the data."""
        for volume in await self._client.list("PersistentVolume"):
            provisioned = volume["spec"]["storageClassName"] == terrain.POOL_CLASS
            if volume["status"].get("phase") == "Released" and not provisioned:
                marks = {"pv.kubernetes.io/bound-by-controller": None}
                body = {"metadata": {"annotations": marks, **_version(volume)}, "spec": {"claimRef": None}}
                await self._client.patch("PersistentVolume", volume["metadata"]["name"], body)

    async def _recreate_volume(self, volume: str, _: str) -> None:
        class_name, number = volume.split("/")
        name = terrain.volume_name(class_name, int(number))
        if (await self._client.get("PersistentVolume", name))["status"].get("phase") != "Bound":
            await self._gone("PersistentVolume", name)
            await self._created(terrain.volume(class_name, int(number)))

    async def _set_claim_ref(self, volume: str, detail: str) -> None:
        """Commit an Available volume to a claim by hand, as an administrator may."""
        pod, form = detail.split(" ")
        name, document = await self._volume(volume)
        claim = terrain.claims(int(pod))[0]["metadata"]["name"]
        reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": claim}
        if "claimRef" in document["spec"]:
            return
        if form == "uid":
            live = await self._client.get("PersistentVolumeClaim", claim, NAMESPACE)
            reference["uid"] = live["metadata"]["uid"]
        body = {"metadata": _version(document), "spec": {"claimRef": reference}}
        await self._client.patch("PersistentVolume", name, body)

    async def _clear_claim_ref(self, volume: str, _: str) -> None:
        name, document = await self._volume(volume)
        if "claimRef" in document["spec"] and document["status"].get("phase") == "Available":
            body: Document = {"metadata": _version(document), "spec": {"claimRef": None}}
            await self._client.patch("PersistentVolume", name, body)

    async def _touch_volume(self, volume: str, _: str) -> None:
        name, document = await self._volume(volume)
        count = int((document["metadata"].get("labels") or {}).get("touched", "0")) + 1
        await self._client.patch("PersistentVolume", name, {"metadata": {"labels": {"touched": str(count)}}})

    async def _garbage_on_volume(self, volume: str, key: str) -> None:
        name = terrain.volume_name(*_split(volume))
        await self._client.patch("PersistentVolume", name, _annotations({PREFIX + key: _GARBAGE}))

    async def _garbage_on_claim(self, pod: str, _: str) -> None:
        name = terrain.claims(int(pod))[0]["metadata"]["name"]
        values = {PREFIX + "reserved-volume": _GARBAGE, PREFIX + "expires-at": "tomorrow"}
        await self._client.patch("PersistentVolumeClaim", name, _annotations(values), NAMESPACE)

    async def _steal_annotations(self, volume: str, other: str) -> None:
        """Copy the reservation annotations of one volume to another."""
        source = await self._client.get("PersistentVolume", other)
        ours = {key: value for key, value in _annotations_of(source).items() if key.startswith(PREFIX)}
        if _split(volume)[0] == terrain.DRIVEN_CLASS:
            # Nobody reads health there: the driver is probed.
            ours = {key: value for key, value in ours.items() if not key.startswith(f"{PREFIX}health")}
        await self._client.patch("PersistentVolume", terrain.volume_name(*_split(volume)), _annotations(ours))

    async def _strip_annotations(self, volume: str, _: str) -> None:
        name, document = await self._volume(volume)
        ours = {key: None for key in _annotations_of(document) if key.startswith(PREFIX)}
        await self._client.patch("PersistentVolume", name, _annotations(ours))

    async def _mark_unhealthy(self, volume: str, state: str) -> None:
        await self._publish(volume, state, "the disk is on fire")

    async def _mark_healthy(self, volume: str, _: str) -> None:
        _, document = await self._volume(volume)
        if _split(volume)[0] == terrain.DRIVEN_CLASS or _HEALTH in _annotations_of(document):
            await self._publish(volume, "Healthy", "")

    # Of the StatefulSet for whose replicas to come volumes are held

    async def _scale_set(self, _: str, detail: str) -> None:
        """Scale it, or create it again, and change for how many replicas volumes are held."""
        replicas, hold = map(int, detail.split(" "))
        await self._unless_there(terrain.stateful_set(replicas, hold))
        wants: Document = {**_annotations({PREFIX + "hold-replicas": str(hold)}), "spec": {"replicas": replicas}}
        await self._client.patch("StatefulSet", terrain.SET, wants, NAMESPACE)

    async def _delete_set(self, _: str, __: str) -> None:
        """Its pods and claims stay, as long as no other is created."""
        await self._client.delete("StatefulSet", terrain.SET, NAMESPACE, orphan=True)

    async def _delete_set_replica(self, _: str, detail: str) -> None:
        """Delete the claims of a replica, then its pod: the set makes both again."""
        ordinal = int(detail.split(" ", maxsplit=1)[0])
        for claim in terrain.set_claims(ordinal):
            await self._gone(CLAIM, claim, NAMESPACE)
        await self._gone("Pod", f"{terrain.SET}-{ordinal}", NAMESPACE)

    async def _lose_set_volume(self, _: str, detail: str) -> None:
        """A volume that is held for a replica, or that it has, becomes unhealthy, or is deleted with its driver."""
        ordinal, what = map(int, detail.split(" "))
        for volume in await self._client.list("PersistentVolume"):
            named = (volume["spec"].get("claimRef") or {}).get("name", "")
            if named not in terrain.set_claims(ordinal):
                continue
            if what % 2 and volume["status"].get("phase") != "Bound":
                await self._gone("PersistentVolume", volume["metadata"]["name"])
            else:
                await self._publish("/".join(volume["metadata"]["name"].rsplit("-", 1)), "DataLoss", "the disk is gone")

    async def _replace_set_volumes(self, _: str, detail: str) -> None:
        """The node of a replica is lost with its disks; the replica gets others, or what has begun goes on."""
        if self._replacing.locked():
            raise NotDone("one replacement at a time")
        async with self._replacing:
            await self._replace_lost(detail)

    async def _replace_lost(self, detail: str) -> None:
        ordinal, what = map(int, detail.split(" "))
        nodes = {node["metadata"]["name"] for node in await self._client.list("Node")}
        pods = {
            pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in await self._client.list("Pod", NAMESPACE)
        }
        running = sorted(name for name, on in pods.items() if name.startswith(f"{terrain.SET}-") and on in nodes)
        pod = await self._replaced() or (running[ordinal % len(running)] if running else "")
        if pod in running:
            await self._lose_node(pods[pod], "")
        elif not pod:
            raise NotDone("no replica has a node")
        if what % 2:
            await self._operator.replace(pod, killed_after=what * _A_STEP)
        code = await self._operator.replace(pod)
        if code:
            raise NotDone(f"replace exits with {code}")

    async def finish_replacement(self) -> None:
        """Let a replacement that has begun go on, as far as it can."""
        with suppress(Rejected, aiohttp.ClientError, TimeoutError, OSError):
            pod = await self._replaced()
            if pod:
                await self._operator.replace(pod)

    async def _replaced(self) -> str:
        """Return the pod whose volumes are being replaced; empty if there is none."""
        for owner in await self._client.list("StatefulSet", NAMESPACE):
            turn = _annotations_of(owner).get(PREFIX + "replaces")
            if turn:
                return str(json.loads(turn)["pod"]).rpartition("/")[2]
        return ""

    async def _keep_volume(self, volume: str, detail: str) -> None:
        """Mark a volume that is not in use as replaced, with the data of a claim, as `pvc-prebinder replace` does."""
        name, document = await self._volume(volume)
        if document["status"].get("phase") == "Bound":
            return
        claim = terrain.set_claims(int(detail.split(" ", maxsplit=1)[0]))[0]
        marks = {PREFIX + "was-for": f"{NAMESPACE}/{claim}/uid-of-old", PREFIX + "namespace-uid": "uid-of-namespace"}
        body: Document = {"metadata": {"annotations": marks, **_version(document)}, "spec": {"claimRef": None}}
        await self._client.patch("PersistentVolume", name, body)

    async def _give_volumes_free(self, _: str, __: str) -> None:
        """Wipe the kept volumes, repair the lost ones, and allow them to be used again."""
        for volume in await self._client.list("PersistentVolume"):
            if volume["spec"]["storageClassName"] == terrain.SET_CLASS and _annotations_of(volume).get(_HEALTH):
                await self._publish("/".join(volume["metadata"]["name"].rsplit("-", 1)), "Healthy", "")
            elif PREFIX + "was-for" in _annotations_of(volume):
                marks = {PREFIX + "was-for": None, PREFIX + "namespace-uid": None}
                body: Document = {"metadata": {"annotations": marks, **_version(volume)}}
                await self._client.patch("PersistentVolume", volume["metadata"]["name"], body)

    # Administrators, about nodes and classes

    async def _cordon(self, node: str, _: str) -> None:
        await self._client.patch("Node", node, {"spec": {"unschedulable": True}})

    async def _uncordon(self, node: str, _: str) -> None:
        await self._client.patch("Node", node, {"spec": {"unschedulable": None}})

    async def _taint(self, node: str, _: str) -> None:
        await self._set_taint(node, [_TAINT])

    async def _untaint(self, node: str, _: str) -> None:
        await self._set_taint(node, [])

    async def _lose_node(self, node: str, _: str) -> None:
        if len(await self._client.list("Node")) > len(NODES) - 2:
            await self._client.delete("Node", node)

    async def _return_nodes(self, _: str, __: str) -> None:
        for node in NODES:
            await self._unless_there(self._node_documents[node])

    async def _flip_mode(self, class_name: str, mode: str) -> None:
        await self._client.patch("StorageClass", class_name, _annotations({PREFIX + "mode": mode}))

    # How

    @staticmethod
    def _own_claims(pod: str) -> list[Document]:
        """The claims that the user has to create; Kubernetes creates those of ephemeral volumes."""
        return [] if terrain.is_ephemeral(int(pod)) else terrain.claims(int(pod))

    async def _volume(self, volume: str) -> tuple[str, Document]:
        name = terrain.volume_name(*_split(volume))
        return name, await self._client.get("PersistentVolume", name)

    async def _publish(self, volume: str, state: str, reason: str) -> None:
        name = terrain.volume_name(*_split(volume))
        if _split(volume)[0] == terrain.DRIVEN_CLASS:
            if self._driver is not None:
                self._driver.set_state(name, state)
            return
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        values = {"health": state, "health-reason": reason, "health-since": now, "health-source": "soak"}
        body = _annotations({PREFIX + key: value for key, value in values.items()})
        await self._client.patch("PersistentVolume", name, body)

    async def _set_taint(self, node: str, ours: list[Document]) -> None:
        document = await self._client.get("Node", node)
        others = [each for each in document["spec"].get("taints") or () if each["key"] != _TAINT["key"]]
        body = {"metadata": _version(document), "spec": {"taints": [*others, *ours]}}
        await self._client.patch("Node", node, body)


def _split(volume: str) -> tuple[str, int]:
    class_name, number = volume.split("/")
    return class_name, int(number)


def _version(document: Document) -> dict[str, Any]:
    return {"resourceVersion": document["metadata"]["resourceVersion"]}


def _annotations(values: dict[str, Any]) -> Document:
    return {"metadata": {"annotations": values}}


def _annotations_of(document: Document) -> dict[str, str]:
    annotations: dict[str, str] = document["metadata"].get("annotations") or {}
    return annotations
