"""The whole of binder against an API server in memory, with a clock that the test controls.

A `Process` is one run of the controller with its own store; it can be killed after any write. The PV controller and
kube-scheduler are not here: a test replaces them by writing what they would write.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any, cast

from binder.controllers.reconciler import Reconciler
from binder.model.decision import Mode
from binder.rebalance.integer_program import solve
from binder.reporting.tracing import UNTRACED, Tracing
from binder.reservation.contract import DEFAULT_PREFIX, Holder, format_time
from csi.client.endpoint import Endpoint
from csi.health.health import Debounce
from csi.health.verdict import HealthState, Verdict
from csi.records import HealthRecords
from kube.client.api import KubeApi
from kube.client.dry_run import DryRun
from kube.client.event_recorder import EventDraft, EventSink
from kube.client.rate_limit import UNLIMITED, RateLimit, Unlimited
from kube.leaderelection.leadership import Leadership
from kube.store.store import Store
from prebinder.config.feature_gates import ALL_ON, FeatureGates
from prebinder.config.settings import (
    BindingSettings,
    ClusterSettings,
    HealthSettings,
    HoldSettings,
    Settings,
    StaticMode,
)
from prebinder.controller.term import compose
from prebinder.tracing.requests import TracedTransport
from tests.binder.counts import Counts
from tests.fake_clock import START, FakeClock, settle
from tests.fakes.aside import at_once
from tests.fakes.kube_api import Connection, FakeKubeApi, Killed
from tests.fakes.objects import class_object, node_object
from tests.invariants import violations
from tests.kube.counted import CountedRequests


class Doctor:
    """Every volume is healthy unless a test sets its state. `hang` never responds. `down` are drivers that do not."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.states: dict[str, HealthState] = {}
        self.hang: set[str] = set()
        self.down: set[str] = set()
        self.probed: list[str] = []
        self._answering: list[Callable[[str], None]] = []

    @contextmanager
    def listening(self, listener: Callable[[str], None]) -> Iterator[None]:
        self._answering.append(listener)
        try:
            yield
        finally:
            self._answering.remove(listener)

    def answers(self, driver: str) -> None:
        """The driver responds again."""
        for listener in self._answering:
            listener(driver)

    def silent(self) -> Mapping[str, Verdict]:
        return {driver: Verdict(HealthState.UNKNOWN, "Down", "", driver, self._clock.now()) for driver in self.down}

    async def verdict(self, driver: str, handle: str, max_age: timedelta) -> Verdict:
        self.probed.append(handle)
        if handle in self.hang:
            await asyncio.Event().wait()
        state = self.states.get(handle, HealthState.HEALTHY)
        return Verdict(state, "Said", "", "ControllerGetVolume", self._clock.now())


class Sink:
    """An EventSink that records what is published, and passes it to `forward` if there is one."""

    def __init__(self) -> None:
        self.events: list[EventDraft] = []
        self.forward: EventSink | None = None

    def publish(self, draft: EventDraft) -> None:
        self.events.append(draft)
        if self.forward is not None:
            self.forward.publish(draft)

    def reasons_of(self, kind: str, name: str) -> list[str]:
        """Return the reasons of the Events about one object, in order."""
        return [event.reason for event in self.events if (event.regarding.kind, event.regarding.name) == (kind, name)]


@dataclass
class World:
    """A server with two zones of two nodes each and a class `fast`. `drivers` are those with an endpoint.

    `qps`: requests that the server can take a second. `binds`: whenever time has passed, the PV controller has bound
    what volumes name.
    """

    mode: Mode = Mode.ANNOTATE
    ttl: timedelta = timedelta(minutes=10)
    allow_delete_policy: bool = False
    quarantine: bool = False
    max_share: float = 0.3
    drivers: frozenset[str] = frozenset({"disk.csi.example"})
    only_probed: bool = False
    qps: float | None = None
    concurrency: int = 10
    binds: bool = False
    holds: HoldSettings = field(default_factory=HoldSettings)
    gates: FeatureGates = ALL_ON
    tracing: Tracing = UNTRACED
    server: FakeKubeApi = field(default_factory=FakeKubeApi)
    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.server.put(class_object())
        for name, zone in (("node-a1", "a"), ("node-a2", "a"), ("node-b1", "b"), ("node-b2", "b")):
            self.server.put(node_object(name, zone))
        self.doctor = Doctor(self.clock)
        self.records = HealthRecords(Debounce())
        self.recovered = asyncio.Event()
        """Cleared by tests in which the watches are cut off from the server."""
        self.recovered.set()

    def settings(self) -> Settings:
        return Settings(
            cluster=ClusterSettings() if self.qps is None else ClusterSettings(qps=self.qps),
            binding=BindingSettings(
                mode=cast(StaticMode, self.mode),
                reservation_ttl=self.ttl,
                concurrency=self.concurrency,
                allow_delete_policy=self.allow_delete_policy,
            ),
            health=HealthSettings(
                endpoints=tuple(Endpoint(driver, "unix:///csi.sock") for driver in sorted(self.drivers)),
                quarantine=self.quarantine,
                quarantine_max_share=self.max_share,
            ),
            holds=self.holds,
            feature_gates=self.gates,
        )

    def rate(self) -> RateLimit | Unlimited:
        return UNLIMITED if self.qps is None else RateLimit(self.clock, CountedRequests(), qps=self.qps, burst=1)

    def put(self, *documents: dict[str, Any]) -> None:
        for document in documents:
            self.server.put(document)

    def observe(self, state: HealthState, *volumes: str, reason: str = "Said") -> None:
        """The driver reports this about the volumes from now on, and a sweep has just received it."""
        for name in volumes:
            self.doctor.states[f"handle-{name}"] = state
            verdict = Verdict(state, reason, "", "ControllerGetVolume", self.clock.now())
            self.records.observe("disk.csi.example", f"handle-{name}", verdict)

    def process(self, dies_after: int | None = None, transition: int = 1, *, dry_run: bool = False) -> "Process":
        return Process(self, dies_after, transition, dry_run)

    def violations(self) -> list[str]:
        volumes, claims = self.server.all("persistentvolumes"), self.server.all("persistentvolumeclaims")
        return violations(volumes, claims, self.clock.now())

    def annotations(self, plural: str, key: str) -> dict[str, str]:
        """Return our own annotations of an object, without the prefix."""
        annotations = self.server.get(plural, key)["metadata"].get("annotations", {})
        return {
            name.removeprefix(DEFAULT_PREFIX): text
            for name, text in annotations.items()
            if name.startswith(DEFAULT_PREFIX)
        }

    def volume(self, name: str) -> dict[str, Any]:
        return self.server.get("persistentvolumes", name)

    def claim(self, name: str) -> dict[str, Any]:
        return self.server.get("persistentvolumeclaims", f"default/{name}")

    def reserved(self, claim_name: str) -> str | None:
        return self.annotations("persistentvolumeclaims", f"default/{claim_name}").get("reserved-volume")


class Process:
    """One run of the controller. Use it as a context manager; `killed` tells whether `dies_after` ended it."""

    def __init__(self, world: World, dies_after: int | None, transition: int, dry_run: bool) -> None:
        clock = world.clock
        self._world = world
        self.metrics = Counts()
        self.sink = Sink()
        self.connection = Connection(world.server, dies_after)
        self.leadership = Leadership.unelected(clock, "host")
        self.leadership.transition = transition
        self.store = Store()
        transport = TracedTransport(DryRun(self.connection) if dry_run else self.connection, world.tracing)
        self.term = compose(
            world.settings(),
            KubeApi(transport, rate=world.rate(), fence=self.leadership.fence),
            store=self.store,
            probes=world.doctor,
            known=world.records,
            events=self.sink,
            metrics=self.metrics,
            clock=clock,
            rng=Random(1),
            holder=Holder(self.leadership.holder, transition),
            namespace="pvc-prebinder-system",
            publish_only=world.only_probed,
            tracing=world.tracing,
            aside=at_once,
            solving=lambda: nullcontext(solve),
            recovered=self._recovered,
        )

    async def _recovered(self) -> bool:
        waits = not self._world.recovered.is_set()
        await self._world.recovered.wait()
        return waits

    async def __aenter__(self) -> "Process":
        self._world.server.feed(self.store)
        self._task = asyncio.create_task(self.term.run())
        await settle()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._world.server.forget(self.store)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    @property
    def reconciler(self) -> Reconciler:
        assert self.term.reconciler is not None
        return self.term.reconciler

    @property
    def killed(self) -> bool:
        failure = self._task.exception() if self._task.done() and not self._task.cancelled() else None
        return isinstance(failure, BaseExceptionGroup) and failure.split(Killed)[1] is None

    async def run(self, seconds: float = 8.0) -> None:
        """Let time pass. A failure of the process that is not a kill fails the test."""
        await self._world.clock.advance(seconds)
        if self._world.binds:
            bind_committed(self._world)
            await self._world.clock.advance(1.0)
        if self._task.done() and not self.killed:
            self._task.result()


def bind(world: World, claim_name: str, volume_name: str) -> None:
    """Bind as the PV controller does."""
    claim = world.claim(claim_name)
    uid = claim["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": claim_name}

    def on_volume(document: dict[str, Any]) -> None:
        document["spec"]["claimRef"] = reference | {"uid": uid}
        document["status"]["phase"] = "Bound"

    def on_claim(document: dict[str, Any]) -> None:
        document["spec"]["volumeName"] = volume_name
        document["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"
        document["status"]["phase"] = "Bound"

    world.server.change("persistentvolumes", volume_name, on_volume)
    world.server.change("persistentvolumeclaims", f"default/{claim_name}", on_claim)


def bind_committed(world: World) -> None:
    """Bind each claim that a volume names, as the PV controller does."""
    for volume in world.server.all("persistentvolumes"):
        reference = volume["spec"].get("claimRef", {})
        claims = [
            claim
            for claim in world.server.all("persistentvolumeclaims")
            if claim["metadata"]["name"] == reference.get("name")
            and claim["metadata"]["namespace"] == reference["namespace"] == "default"
            and reference.get("uid") in {None, claim["metadata"]["uid"]}
        ]
        for claim in claims:
            if not claim["spec"].get("volumeName"):
                bind(world, claim["metadata"]["name"], volume["metadata"]["name"])


def reservation(claim_name: str, minutes: float = 0, **changes: str) -> dict[str, str]:
    """A volume's reservation annotations, made so many minutes after the clock's start by another holder."""
    made = START + timedelta(minutes=minutes)
    values = {
        "reserved-for": f"default/{claim_name}",
        "reserved-for-uid": f"uid-persistentvolumeclaims-default/{claim_name}",
        "bound-at": format_time(made),
        "expires-at": format_time(made + timedelta(minutes=10)),
        "reserved-by": "dead-host/1",
    }
    return {DEFAULT_PREFIX + word.replace("_", "-"): text for word, text in (values | changes).items()}
