"""Two long looks at what the controller asks of the API server, side by side: when nothing changes, and of all it may.

The first shows that a quiet cluster stays quiet, the second that manifests/ grant what is used and nothing else.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest_asyncio

from devcluster.cluster import DevCluster
from devcluster.control_plane.nodes import NodeSpec
from tests.scenarios.environment.admin import Admin
from tests.scenarios.environment.documents import claim, claim_spec, pod, pod_spec, storage_class
from tests.scenarios.environment.final_state import settled
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World, lived_in
from tests.scenarios.processes.controller import ACCOUNT, SYSTEM, Controller, account, start_controller
from tests.scenarios.processes.proxy import Call, Proxy

WATCHED_SECONDS: Final = 65.0
"""Two drift checks and the renewals of the Lease between them."""
SILENT_SECONDS: Final = 5.0
KINDS: Final = frozenset(
    {
        "persistentvolumes",
        "persistentvolumeclaims",
        "pods",
        "nodes",
        "storageclasses",
        "csinodes",
        "csidrivers",
        "csistoragecapacities",
        "volumeattachments",
    }
)
Right = tuple[str, str, str]
"""Verb, API group, resource with its subresource."""


@dataclass(frozen=True, slots=True)
class Looks:
    quiet: "asyncio.Task[list[Call]]"
    rights: "asyncio.Task[Proxy]"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def looks(cluster: DevCluster, admin: Admin, rights: None) -> AsyncIterator[Looks]:
    quiet = asyncio.create_task(look_at_nothing(World(cluster, admin)))
    everything = asyncio.create_task(look_at_everything(World(cluster, admin)))
    yield Looks(quiet, everything)
    await asyncio.gather(quiet, everything, return_exceptions=True)  # each is somebody's to await


async def test_nothing_changes_so_nothing_is_written(looks: Looks) -> None:
    calls = await looks.quiet
    assert written(calls) == []
    assert len(calls) / WATCHED_SECONDS <= 1, calls


async def test_every_right_is_used_and_none_is_missing(looks: Looks, cluster: DevCluster) -> None:
    proxy = await looks.rights
    assert [(call.method, call.path) for call in proxy.forbidden] == []
    assert {right_of(call) for call in proxy.calls} == await granted(cluster)
    assert {name_of(call) for call in proxy.calls if "/leases/" in call.path} == {"pvc-prebinder"}


async def look_at_nothing(world: World) -> list[Call]:
    """Return the requests of some time in which nothing changes: pods run, one is rejected, one has its volume held."""
    async with lived_in(world), Proxy(world.cluster) as proxy:
        controller = await start_controller(world, kubeconfig=proxy.kubeconfig_for(await account(world.cluster)))
        for mode in ("annotate", "prebind", "complete"):
            disks = await world.storage_class(mode, mode)
            volumes = (world.volume(f"{mode}-{place}", disks, zone="zone-a") for place in range(4))
            await world.volumes(disks, *volumes)
            await world.pod(f"{mode}-runs", {f"{mode}-data": claim_spec(disks)}, gated=True)
            await world.pod(f"{mode}-rejected", {f"{mode}-big": claim_spec(disks, "1Ti")}, gated=True)
            await world.event("StaticOnlyNoMatch", about=f"{mode}-rejected")
        runs = ("annotate", "prebind", "complete")
        await settled(world, (f"{mode}-data" for mode in runs), *(f"{mode}-runs" for mode in runs))
        held = {"held": claim_spec(world.name("annotate"))}
        await world.pod("held", held, extra={"schedulerName": "nobody"})
        await eventually(world.reserved, lambda reserved: "held" in reserved, "a volume is held")
        await world.event("VolumeReserved", about="held")
        await eventually(lambda: silent(proxy), bool, "all that was to be said is said")
        begun = len(proxy.calls)
        await asyncio.sleep(WATCHED_SECONDS)  # not to wait for something: to see that nothing comes
        seen = proxy.calls[begun:]
        await controller.stop()
        return seen


async def silent(proxy: Proxy) -> bool:
    """Whether nothing was written for some seconds."""
    before = written(proxy.calls)
    await asyncio.sleep(SILENT_SECONDS)
    return written(proxy.calls) == before


def written(calls: Sequence[Call]) -> list[tuple[str, str]]:
    """The writes, other than those that keep the Lease."""
    return [(call.method, call.path) for call in calls if call.writes and "/leases/" not in call.path]


async def look_at_everything(world: World) -> Proxy:
    """Return a proxy that has seen the controller do all that it ever does."""
    async with lived_in(world), Proxy(world.cluster) as proxy:
        # What is called so is not seen by watches, so the drift check has to find it and read it.
        proxy.distort = lambda call, document: (
            None if call.watches and name_in(document).endswith("unseen") else document
        )
        controller = await start_controller(world, kubeconfig=proxy.kubeconfig_for(await account(world.cluster)))
        await world.admin.create(*unseen(world))
        await served_and_rejected_twice(world, controller)
        await eventually(lambda: read_kinds(proxy), lambda kinds: kinds >= KINDS, "every kind was read", 180)
        await controller.stop()
        for kind in ("Node", "CSINode", "CSIDriver", "VolumeAttachment"):
            await world.admin.delete(kind, world.name("unseen"))
        return proxy


async def served_and_rejected_twice(world: World, controller: Controller) -> None:
    """Bind claims in mode complete; reject a pod, serve it, and reject it again for the same reason."""
    disks = await world.storage_class("complete")
    await world.volumes(disks, world.volume("one", disks, zone="zone-a"), world.volume("two", disks, zone="zone-a"))
    async with world.pv_controller_paused():  # or it may do all of the last write before us
        await world.pod("app", {"data": claim_spec(disks), "log": claim_spec(disks)}, gated=True)
        await eventually(world.bound, lambda bound: len(bound) == 2, "both claims are bound")
    await settled(world, ["data", "log"], "app")
    few = await world.storage_class("annotate", "few")
    await world.pod("late", {"late": claim_spec(few)}, extra={"schedulerName": "nobody"})
    await world.event("StaticOnlyNoMatch", about="late")
    await world.volumes(few, world.volume("last", few, zone="zone-a"))
    await world.event("VolumeReserved", about="late")
    # One that is still being deleted would be told of, in other words than the first time.
    controller.pause()
    await world.admin.delete("PersistentVolume", world.name("last"))
    await eventually(world.own_volumes, lambda seen: world.name("last") not in seen, "the volume is gone")
    controller.resume()
    await eventually(lambda: repeats(world, "late"), bool, "rejected as at first")


async def repeats(world: World, about: str) -> list[int]:
    return [event["series"]["count"] for event in await world.events(about=about) if event.get("series")]


def unseen(world: World) -> list[dict[str, Any]]:
    name, storage = world.name("unseen"), "storage.k8s.io/v1"
    return [
        NodeSpec(name, "zone-a").manifest() | {"kind": "Node"},
        world.volume("unseen", "none"),
        storage_class(name, None),
        claim(world.namespace, "unseen", claim_spec(name)),
        pod(world.namespace, "unseen", pod_spec(extra={"schedulerName": "nobody"})),
        {"apiVersion": storage, "kind": "CSIDriver", "metadata": {"name": name}, "spec": {}},
        {"apiVersion": storage, "kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": []}},
        {
            "apiVersion": storage,
            "kind": "CSIStorageCapacity",
            "metadata": {"name": "unseen", "namespace": world.namespace},
            "storageClassName": name,
        },
        {
            "apiVersion": storage,
            "kind": "VolumeAttachment",
            "metadata": {"name": name},
            "spec": {"attacher": "none.csi.example", "nodeName": "none", "source": {"persistentVolumeName": "none"}},
        },
    ]


def name_in(document: dict[str, Any]) -> str:
    return str(document.get("metadata", {}).get("name", ""))


async def read_kinds(proxy: Proxy) -> set[str]:
    return {resource for verb, _, resource in map(right_of, proxy.calls) if verb == "get"}


def right_of(call: Call) -> Right:
    """Return the right that the API server asks for: kubernetes/apiserver pkg/endpoints/request/requestinfo.go."""
    group, resource, name, subresource = parts_of(call)
    read = "get" if name else "watch" if call.watches else "list"
    verb = {"GET": read, "POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}[call.method]
    return verb, group, f"{resource}/{subresource}" if subresource else resource


def name_of(call: Call) -> str:
    return parts_of(call)[2]


def parts_of(call: Call) -> tuple[str, str, str, str]:
    parts = call.path.strip("/").split("/")
    group = "" if parts[0] == "api" else parts[1]
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    resource, name, subresource = [*(rest[2:] if rest[0] == "namespaces" else rest), "", ""][:3]
    return group, resource, name, subresource


async def granted(cluster: DevCluster) -> set[Right]:
    """Return what the roles of manifests/ allow the controller, as they were applied."""
    kinds = "clusterroles,roles,clusterrolebindings,rolebindings"
    objects = json.loads(await cluster.run_kubectl("get", kinds, "-n", SYSTEM, "-o", "json"))["items"]
    controller = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SYSTEM}
    bound = {
        (binding["roleRef"]["kind"], binding["roleRef"]["name"])
        for binding in objects
        if controller in binding.get("subjects", ())
    }
    # The rights of the component holds are used where volumes are held: tests/scenarios/holds.
    bound.discard(("ClusterRole", "pvc-prebinder-holds"))
    roles = [role for role in objects if (role["kind"], role["metadata"]["name"]) in bound]
    rules = [rule for role in roles for rule in role["rules"]]
    return {
        (verb, group, resource)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
