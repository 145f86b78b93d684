"""What the demo observes while it runs: the cluster, its Events, and the CSI driver's volume health."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Final

import msgspec

from csi.client.endpoint import parse_endpoint
from csi.drivers import Drivers
from csi.health.size_limit import SizeLimit
from csi.health.verdict import HealthState, Verdict
from demo import scene as demo_scene
from demo.documents import Document
from demo.view import Patient, Row, claim_rows, patient_row
from kube.client.api import KubeApi
from kube.client.connect import connect
from kube.client.reflector import Reflector
from kube.clock import SystemClock
from kube.decoding.decode import decode_claim, decode_node_record, decode_pod_record, decode_volume
from kube.objects.api_resource import CLAIMS, EVENTS, NODES, PODS, VOLUMES
from kube.objects.model import Volume
from kube.store.snapshot import Snapshot
from kube.store.store import Store

_VERDICT_AGE: Final = timedelta(seconds=0.5)


class _Regarding(msgspec.Struct, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""


class SeenEvent(msgspec.Struct, frozen=True, rename="camel"):
    """An Event of the events.k8s.io API, as far as the demo shows it."""

    type: str = ""
    reason: str = ""
    note: str = ""
    reporting_controller: str = ""
    regarding: _Regarding = _Regarding()

    @property
    def rejects_pod(self) -> bool:
        """Whether it is ours and explains why a pod gets no volumes."""
        ours = self.reporting_controller.rpartition("/")[2].startswith("pvc-prebinder")
        return ours and self.note.startswith("No volumes") and self.regarding.kind == "Pod" and self._in_the_scene

    @property
    def _in_the_scene(self) -> bool:
        return self.regarding.namespace == demo_scene.NAMESPACE


_EVENT: Final = msgspec.json.Decoder(SeenEvent)


class _Silent:
    """Observer of the watches and of the driver calls: the demo shows none of these figures."""

    def watch_restarted(self, resource: str, cause: str) -> None: ...
    def event_seen(self, resource: str, now: datetime) -> None: ...
    def malformed(self, resource: str) -> None: ...
    def exceeded(self, driver: str, limit: SizeLimit, details: str) -> None: ...

    def operation(self, driver: str, method: str, code: str, seconds: float) -> None: ...
    def probed(self, driver: str, method: str, state: HealthState, seconds: float) -> None: ...


@dataclass
class Watcher:
    """Follows the demo's namespace. `look` updates it and returns the table's rows.

    `rejections` holds the last rejection of each pod, though it may have got volumes since; `settled` is the last state
    in which a claim was seen bound or rejected, and since when. The `patient` has a row of its own while no claim has
    it.
    """

    api: KubeApi
    store: Store
    drivers: Drivers
    clock: SystemClock
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    rejections: dict[str, SeenEvent] = field(default_factory=dict)
    settled: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    patient: Patient | None = None

    @property
    def snapshot(self) -> Snapshot:
        return self.store.snapshot()

    async def look(self) -> list[Row]:
        await self._read_events()
        snapshot, now = self.snapshot, self.clock.now()
        rows = self._rows(snapshot, now)
        await self.ask_about([snapshot.volumes[row.volume] for row in rows if row.volume in snapshot.volumes])
        for row in rows:
            key = f"{demo_scene.NAMESPACE}/{row.claim}"
            if not row.settled:
                self.settled.pop(key, None)
            elif self.settled.get(key, ("", now))[0] != row.state:
                self.settled[key] = row.state, now
        return self._rows(snapshot, now)

    def may_use(self, documents: Iterable[Document]) -> bool:
        """Whether Kubernetes has processed all volumes among these documents: before that none is given to a claim.

        A pod created earlier would have to choose among those that happen to be there.
        """
        names = [document["metadata"]["name"] for document in documents if document["kind"] == VOLUMES.kind]
        seen = (self.snapshot.volumes.get(name) for name in names)
        return all(volume is not None and volume.phase not in {"", "Pending"} for volume in seen)

    def _rows(self, snapshot: Snapshot, now: datetime) -> list[Row]:
        reasons = {pod: event.reason for pod, event in self.rejections.items()}
        settled = {key: since for key, (_, since) in self.settled.items()}
        rows = claim_rows(snapshot, demo_scene.NAMESPACE, self.verdicts, reasons, settled, now)
        if self.patient is None or any(row.volume == self.patient.volume for row in rows):
            return rows
        row = patient_row(snapshot, self.verdicts, self.patient, now)
        return [*rows, row] if row else rows

    async def ask_about(self, volumes: list[Volume], max_age: timedelta = _VERDICT_AGE) -> None:
        """Probe these volumes, unless they were probed so recently: a moment ago by default."""
        answers = await asyncio.gather(
            *(self.drivers.verdict(volume.driver, volume.handle, max_age) for volume in volumes)
        )
        self.verdicts.update(zip((volume.name for volume in volumes), answers, strict=True))

    async def _read_events(self) -> None:
        events = await self.api.list_all(EVENTS, _EVENT.decode)
        for event in events.items:
            if event.rejects_pod:
                self.rejections[f"{event.regarding.namespace}/{event.regarding.name}"] = event


@asynccontextmanager
async def watching(kubeconfig: str, csi_endpoint: str) -> AsyncIterator[Watcher]:
    """Follow the cluster and the driver until the end of the block."""
    clock, silent = SystemClock(), _Silent()
    drivers = Drivers([parse_endpoint(f"{demo_scene.DRIVER}={csi_endpoint}")], clock, silent)
    async with await connect(kubeconfig) as transport:
        api, store = KubeApi(transport), Store()
        rng = Random()
        reflectors = [
            Reflector(api, CLAIMS, decode_claim, store.claims, clock=clock, observer=silent, rng=rng).run(),
            Reflector(api, VOLUMES, decode_volume, store.volumes, clock=clock, observer=silent, rng=rng).run(),
            Reflector(api, PODS, decode_pod_record, store.pods, clock=clock, observer=silent, rng=rng).run(),
            Reflector(api, NODES, decode_node_record, store.nodes, clock=clock, observer=silent, rng=rng).run(),
        ]
        tasks = [asyncio.create_task(run) for run in reflectors]
        try:
            yield Watcher(api, store, drivers, clock)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await drivers.close()
