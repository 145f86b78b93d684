"""A story's own part of the cluster: a namespace, classes and volumes that no other story touches."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final

from devcluster.cluster import DevCluster
from tests.invariants import violations
from tests.scenarios.environment import documents
from tests.scenarios.environment.admin import Admin, Document, Rejected
from tests.scenarios.environment.waiting import eventually

_NAMESPACED: Final = (
    *("StatefulSet", "Pod", "PersistentVolumeClaim", "Lease"),
    *("PodDisruptionBudget", "CSIStorageCapacity", "ResourceClaim"),
)
"""What stories create in their namespaces and others could notice."""

_numbers: Final = count(1)


class World:
    """Made by the fixtures `world` and `own_world`. Names of classes and volumes begin with the namespace's name.

    `prefix` is the annotation prefix of the controller that manages the story: classes get their mode under it, so
    controllers of other prefixes, whose default mode is off, leave the story alone.
    """

    def __init__(self, cluster: DevCluster, admin: Admin, prefix: str | None = None) -> None:
        self.cluster, self.admin = cluster, admin
        self.namespace = f"story-{next(_numbers)}"
        self.prefix = prefix or f"{self.namespace}.example/"

    # Creating

    async def open(self) -> None:
        await self.cluster.create_namespace(self.namespace)

    def name(self, word: str) -> str:
        """The name of a cluster-scoped object."""
        return f"{self.namespace}-{word}"

    async def storage_class(self, mode: str | None, word: str = "disks", **how: Any) -> str:
        name = self.name(word)
        await self.admin.create(documents.storage_class(name, mode, prefix=self.prefix, **how))
        return name

    async def volumes(self, storage_class: str, *volumes: Document) -> list[str]:
        """Create volumes (see `volume`), wait until they are Available, and return their names."""
        await self.admin.create_at_once(volumes)
        names = [each["metadata"]["name"] for each in volumes]
        await eventually(
            self.volume_phases,
            lambda phases: all(phases.get(name) not in {None, "Pending"} for name in names),
            f"volumes of {storage_class} are Available",
        )
        return names

    def volume(self, word: str, storage_class: str, **how: Any) -> Document:
        return documents.volume(self.name(word), storage_class, **how)

    async def pod(self, name: str, claims: dict[str, Document], **how: Any) -> None:
        """Create claims (name -> spec) and a pod that uses them all."""
        await self.admin.create(*self.pod_documents(name, claims, **how))

    def pod_documents(self, name: str, claims: dict[str, Document], **how: Any) -> list[Document]:
        how.setdefault("gate", f"{self.prefix}volumes")
        made = [documents.claim(self.namespace, claim, spec) for claim, spec in claims.items()]
        return [*made, documents.pod(self.namespace, name, documents.pod_spec(tuple(claims), **how))]

    # Observing

    async def own_volumes(self) -> dict[str, Document]:
        volumes = await self.admin.list("PersistentVolume")
        return {volume["metadata"]["name"]: volume for volume in volumes if self._is_ours(volume)}

    async def volume_phases(self) -> dict[str, str]:
        return {name: volume["status"].get("phase") for name, volume in (await self.own_volumes()).items()}

    async def claims(self) -> dict[str, Document]:
        return {
            claim["metadata"]["name"]: claim for claim in await self.admin.list("PersistentVolumeClaim", self.namespace)
        }

    async def some_node(self) -> str:
        """Return the name of a node."""
        return str((await self.admin.list("Node"))[0]["metadata"]["name"])

    async def pods(self) -> dict[str, Document]:
        return {pod["metadata"]["name"]: pod for pod in await self.admin.list("Pod", self.namespace)}

    async def pod_phases(self) -> dict[str, str]:
        return {name: pod["status"].get("phase", "") for name, pod in (await self.pods()).items()}

    async def bound(self) -> dict[str, str]:
        """Claim -> volume, of claims whose bind is complete."""
        return {
            name: claim["spec"]["volumeName"]
            for name, claim in (await self.claims()).items()
            if claim["status"].get("phase") == "Bound"
        }

    async def reserved(self) -> dict[str, str]:
        """Claim -> volume: our annotation on the claim, or the volume that it is bound to, or that is committed to its
        uid.
        """
        reserved = {}
        committed = {
            volume["spec"].get("claimRef", {}).get("uid"): name for name, volume in (await self.own_volumes()).items()
        }
        for name, claim in (await self.claims()).items():
            reservation = claim["metadata"].get("annotations", {}).get(f"{self.prefix}reserved-volume")
            if volume := claim["spec"].get("volumeName") or reservation or committed.get(claim["metadata"]["uid"]):
                reserved[name] = volume
        return reserved

    async def held(self) -> dict[str, list[str]]:
        """Claim -> volumes, by the volumes: claimRef or our annotation. Claims without one are not in it."""
        held: defaultdict[str, list[str]] = defaultdict(list)
        for name, volume in (await self.own_volumes()).items():
            reference = volume["spec"].get("claimRef", {}).get("name")
            reserved_for = (
                volume["metadata"].get("annotations", {}).get(f"{self.prefix}reserved-for", "").rpartition("/")[2]
            )
            if holder := reference or reserved_for:
                held[holder].append(name)
        return dict(held)

    async def events(self, reason: str | None = None, about: str | None = None) -> list[Document]:
        """Our Events, by reason and by the name of their object."""
        return [
            event
            for event in await self.admin.list("Event", self.namespace)
            if event.get("reportingController") == "scheduler.cloud.example/pvc-prebinder"
            and reason in {None, event["reason"]}
            and about in {None, event["regarding"]["name"]}
        ]

    async def zones(self) -> dict[str, str | None]:
        """Volume -> the zone of its node affinity."""
        return {name: zone_of(volume) for name, volume in (await self.own_volumes()).items()}

    async def violations(self) -> list[str]:
        """What is broken among the story's objects, see tests.invariants."""
        own, claims = await self.own_volumes(), await self.claims()
        return violations(own.values(), claims.values(), datetime.now(UTC), prefix=self.prefix)

    # Waiting

    async def all_run(self, *pods: str, seconds: float = 60) -> None:
        """Wait until the pods run and the binds of their claims are over.

        kube-scheduler does not wait for the last write of a bind, the phase of the claim.
        """
        await eventually(
            self.pod_phases,
            lambda phases: all(phases.get(pod) == "Running" for pod in pods),
            f"pods run: {', '.join(pods)}",
            seconds,
        )
        stored = await self.pods()
        used = {claim for pod in pods for claim in documents.claims_of(stored[pod])}
        await eventually(self.bound, lambda bound: used <= set(bound), f"claims are bound: {used}", seconds)

    async def event(self, reason: str, about: str) -> Document:
        """Wait for an Event of ours and return it."""
        recorded = await eventually(
            lambda: self.events(about=about),
            lambda events: any(each["reason"] == reason for each in events),
            f"an Event {reason} about {about}",
        )
        return next(each for each in recorded if each["reason"] == reason)

    async def noted(self, about: str, *words: str) -> Document:
        """Wait for an Event of ours whose note has all of these words, whatever else was reported before it."""
        recorded = await eventually(
            lambda: self.events(about=about),
            lambda events: any(all(word in each["note"] for word in words) for each in events),
            f"an Event about {about} that says {', '.join(words)}",
        )
        return next(each for each in recorded if all(word in each["note"] for word in words))

    @asynccontextmanager
    async def scheduler_paused(self) -> AsyncIterator[None]:
        """While inside, kube-scheduler is suspended, so it cannot choose volumes before us."""
        self.cluster.scheduler.pause()
        try:
            yield
        finally:
            self.cluster.scheduler.resume()

    @asynccontextmanager
    async def pv_controller_paused(self) -> AsyncIterator[None]:
        """While inside, only our controller binds, and deleted claims stay."""
        self.cluster.controller_manager.pause()
        try:
            yield
        finally:
            self.cluster.controller_manager.resume()

    async def clear(self) -> None:
        """Remove what the story created, so that later ones find the nodes empty; does not wait for it.

        The empty namespace stays: to remove it costs the API server two requests for each kind of object there is.
        """
        for kind in _NAMESPACED:
            await self.admin.delete_all(kind, self.namespace)
        gone = []
        for kind in ("PersistentVolume", "StorageClass", "Node"):
            names = [
                document["metadata"]["name"] for document in await self.admin.list(kind) if self._is_ours(document)
            ]
            gone += [self.admin.delete(kind, name) for name in names]
        for outcome in await asyncio.gather(*gone, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, Rejected):
                raise outcome

    def _is_ours(self, document: Document) -> bool:
        return str(document["metadata"]["name"]).startswith(f"{self.namespace}-")


@asynccontextmanager
async def lived_in(world: World) -> AsyncIterator[World]:
    """Open a world; at the end the invariants must hold in it."""
    await world.open()
    try:
        yield world
        # Kubernetes settles a race between kube-scheduler and us a moment later, when it releases the other volume.
        await eventually(world.violations, lambda broken: not broken, "the invariants hold")
    finally:
        await world.clear()


def zone_of(volume: Document) -> str | None:
    affinity = volume["spec"].get("nodeAffinity")
    return affinity["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"][0] if affinity else None
