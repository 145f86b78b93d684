"""The same code on a real kube-apiserver: what it accepts, and what its restarts do to us."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from devcluster.cluster import DevCluster
from kube.client.api import KubeApi
from kube.client.connect import KubernetesTransport, connect
from kube.client.drift_check import CheckedKind, DriftCheck
from kube.client.event_recorder import EventDraft, EventRecorder, ObjectRef
from kube.client.reflector import Reflector
from kube.client.transport import Request
from kube.clock import SystemClock
from kube.decoding.decode import decode_volume
from kube.errors import AlreadyExists, Conflict, Invalid, NotFound
from kube.leaderelection.elector import Elector, new_identity
from kube.leaderelection.leadership import Leadership
from kube.objects.api_resource import EVENTS, LEASES, VOLUMES
from kube.objects.model import Volume
from kube.store.store import Store
from tests.kube.counted import CountedDrift, CountedEvents, CountedTerms
from tests.running_task import running

CLOCK = SystemClock()


@dataclass
class Seen:
    """Follows a watch."""

    causes: list[str] = field(default_factory=list)

    def watch_restarted(self, resource: str, cause: str) -> None:
        self.causes.append(cause)

    def event_seen(self, resource: str, now: datetime) -> None: ...

    def malformed(self, resource: str) -> None: ...


def volume(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "real-api-server",
            "csi": {"driver": "none.example", "volumeHandle": name},
        },
    }


async def until(met: Callable[[], bool], seconds: float = 40.0) -> None:
    """Wait for a condition that another process brings about."""
    async with asyncio.timeout(seconds):
        while not met():  # noqa: ASYNC110 - the condition is a plain value
            await asyncio.sleep(0.02)


async def available(api: KubeApi, name: str) -> Volume:
    """Wait until the PV controller has set the phase; after that only we write the volume."""
    async with asyncio.timeout(40):
        while (volume := decode_volume(await api.get(VOLUMES, name))).phase != "Available":  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return volume


async def read_for_ever(api: KubeApi, name: str) -> None:
    """Read until it fails; a deleted volume stays until its finalizer is gone."""
    async with asyncio.timeout(40):
        while True:
            await api.get(VOLUMES, name)
            await asyncio.sleep(0.05)


@asynccontextmanager
async def reaching(kubeconfig: Path) -> AsyncIterator[tuple[KubeApi, KubernetesTransport]]:
    async with await connect(str(kubeconfig)) as transport:
        yield KubeApi(transport), transport


async def remove(transport: KubernetesTransport, *names: str) -> None:
    for name in names:
        await transport.send(Request("DELETE", VOLUMES.path("", name)))


def following(api: KubeApi, store: Store, seen: Seen) -> Reflector[Volume]:
    return Reflector(api, VOLUMES, decode_volume, store.volumes, clock=CLOCK, observer=seen, rng=random.Random(1))


async def test_conditional_writes_fail_when_the_object_is_another(kubeconfig: Path) -> None:
    async with reaching(kubeconfig) as (api, transport):
        await api.create(VOLUMES, volume("real-cond"))
        made = await available(api, "real-cond")
        with pytest.raises(AlreadyExists):
            await api.create(VOLUMES, volume("real-cond"))
        patch = {"metadata": {"annotations": {"a": "b"}}}
        await api.conditional_patch(VOLUMES, "real-cond", patch, resource_version=made.resource_version, uid=made.uid)
        with pytest.raises(Conflict):
            await api.conditional_patch(VOLUMES, "real-cond", patch, resource_version=made.resource_version)
        now = await available(api, "real-cond")
        with pytest.raises((Conflict, Invalid)):
            await api.conditional_patch(
                VOLUMES, "real-cond", patch, resource_version=now.resource_version, uid="00000000-0000"
            )
        status = {"status": {"phase": "Failed"}}
        await api.conditional_patch(
            VOLUMES, "real-cond", status, resource_version=now.resource_version, subresource="status"
        )
        await remove(transport, "real-cond")
        with pytest.raises(NotFound):
            await read_for_ever(api, "real-cond")


async def test_the_store_stays_equal_to_the_cluster_over_an_api_server_restart(
    cluster: DevCluster, kubeconfig: Path
) -> None:
    store, seen = Store(), Seen()
    async with reaching(kubeconfig) as (api, transport):
        await api.create(VOLUMES, volume("real-before"))
        async with running(following(api, store, seen).run()):
            await until(lambda: "real-before" in store.volumes.items)
            await api.create(VOLUMES, volume("real-watched"))
            await until(lambda: "real-watched" in store.volumes.items)
            await cluster.apiserver.restart()
            await api.create(VOLUMES, volume("real-after"))
            await remove(transport, "real-before")
            await until(lambda: "real-after" in store.volumes.items and "real-before" not in store.volumes.items)
            assert seen.causes
        await remove(transport, "real-watched", "real-after")


async def test_a_drifted_store_is_repaired_with_metadata_lists(kubeconfig: Path) -> None:
    store, drifted, drift = Store(), Store(), CountedDrift()
    ghost = {**volume("real-ghost"), "metadata": {"name": "real-ghost", "uid": "ghost", "resourceVersion": "1"}}
    async with reaching(kubeconfig) as (api, transport):
        await api.create(VOLUMES, volume("real-drift"))
        await available(api, "real-drift")
        reflector = following(api, store, Seen())
        async with running(reflector.run()):
            await until(reflector.synced.is_set)
        drifted.volumes.upsert(decode_volume(msgspec.json.encode(ghost)))
        check = DriftCheck(api, [CheckedKind(VOLUMES, decode_volume, drifted.volumes, reflector)], drift)
        await check.check()
        await check.check()
        assert "real-ghost" not in drifted.volumes.items
        assert drifted.volumes.items["real-drift"] == store.volumes.items["real-drift"]
        assert drift.differences["extra"] == 1
        await remove(transport, "real-drift")


async def test_the_lease_is_taken_renewed_and_released(kubeconfig: Path) -> None:
    leading = asyncio.Event()

    async def work(_: Leadership) -> None:
        leading.set()
        await asyncio.Event().wait()

    async with reaching(kubeconfig) as (api, _):
        names = new_identity(), new_identity()
        for name in names:
            elector = Elector(
                api, "default", "real-lease", name, clock=CLOCK, rng=random.Random(), metrics=CountedTerms()
            )
            leading.clear()
            async with running(elector.run(work)):
                await asyncio.wait_for(leading.wait(), 60)
                held = await spec_of(api)
                assert held["holderIdentity"] == name
                async with asyncio.timeout(60):
                    while (await spec_of(api))["renewTime"] == held["renewTime"]:  # noqa: ASYNC110 - a GET has no event
                        await asyncio.sleep(0.1)
        released = await spec_of(api)
        assert released.get("holderIdentity", "") == ""
        assert released["leaseTransitions"] == 1


async def spec_of(api: KubeApi) -> dict[str, Any]:
    spec: dict[str, Any] = msgspec.json.decode(await api.get(LEASES, "real-lease", "default"))["spec"]
    return spec


async def test_events_and_their_series_are_accepted(kubeconfig: Path) -> None:
    events = CountedEvents()
    async with reaching(kubeconfig) as (api, _):
        recorder = EventRecorder(api, CLOCK, events, controller="pvc-prebinder.example/controller", instance="i_1")
        about = ObjectRef("v1", "PersistentVolume", "real-event", uid="u")
        claim = ObjectRef("v1", "PersistentVolumeClaim", "c", "default")
        async with running(recorder.run()):
            for draft in (
                EventDraft(about, claim, "Normal", "VolumeReserved", "Reserve", "x" * 5000),
                EventDraft(claim, None, "Warning", "NoVolume", "Reserve", "ü" * 5000),
            ):
                for _ in range(3):
                    recorder.publish(draft)
            await recorder.flush(20)
        assert events.sent
        assert not events.dropped
        listing = await api.list_all(EVENTS.selected("reserved", "reason=VolumeReserved"), msgspec.json.decode)
        (stored,) = [item for item in listing.items if item["regarding"]["name"] == "real-event"]
        assert stored["series"]["count"] == 3
