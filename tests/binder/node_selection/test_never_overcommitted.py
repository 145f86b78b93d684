"""Whatever happens between two passes, no driver is called for a volume that it has no room for, and no pod is split.

Random pods on random pools, some of which need existing volumes too; the PV controller, the provisioner and its reports
lag behind as they like, a provisioner may give up for reasons of its own, and the controller is killed after a random
write. Every report is a value that was true once, and they arrive in order.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from binder.provisioning.tracking import POLL
from tests.binder.provisioner import Provisioner, gated, mixed, mixed_world, report, selected
from tests.binder.world import World, bind_committed
from tests.fake_clock import START

NODES = ("node-a1", "node-a2", "node-b1")
POOL = 100
SIZES = st.lists(st.integers(10, 60), min_size=1, max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), SIZES),
        st.tuples(st.just("mixed"), SIZES),
        st.tuples(st.just("fail"), st.integers(0, 5)),
        st.tuples(st.just("make"), st.integers(0, 5)),
        st.tuples(st.just("wait"), st.integers(1, 40)),
        st.tuples(st.just("begin"), st.integers(0, 5)),
        st.tuples(st.just("make"), st.integers(0, 5)),
        st.tuples(st.just("report"), st.sampled_from(NODES)),
        st.tuples(st.just("restart"), st.integers(1, 4)),
    ),
    min_size=20,
    max_size=50,
)


@dataclass
class Cluster:
    """The steps, applied to a world."""

    world: World = field(
        default_factory=lambda: mixed_world(
            dict.fromkeys(NODES, f"{POOL}Gi"), {f"{node}-{number}": node for node in NODES for number in (1, 2)}
        )
    )
    pods: int = 0
    dies_after: int | None = None
    reported: dict[str, datetime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.provisioner = Provisioner(self.world, dict.fromkeys(NODES, f"{POOL}Gi"))

    def pending(self) -> list[tuple[str, str]]:
        """Claims with a selected node and no volume."""
        claims = sorted(selected(self.world).items())
        return [each for each in claims if self.world.claim(each[0])["status"]["phase"] == "Pending"]

    async def run(self, steps: list[tuple[str, object]]) -> None:
        transition = 1
        while steps:
            transition += 1
            async with self.world.process(dies_after=self.dies_after, transition=transition) as process:
                self.dies_after = None
                await process.run(1)
                while steps and not process.killed:
                    kind, value = steps.pop(0)
                    if kind == "restart":
                        assert isinstance(value, int)
                        self.dies_after = value
                        break
                    await self.step(kind, value)
                    await process.run(float(value) if kind == "wait" and isinstance(value, int) else 0.6)
                    self.poll()
                    assert halves(self.world) == []
                    bind_committed(self.world)

    def poll(self) -> None:
        """The provisioner reports every pool that it has not reported for a minute."""
        now = self.world.clock.now()
        for node in NODES:
            if now - self.reported.get(node, START) >= POLL:
                self.report(node)

    def report(self, node: str) -> None:
        self.reported[node] = self.world.clock.now()
        report(self.world, node, str(self.provisioner.free[node]))

    async def step(self, kind: str, value: object) -> None:
        waiting = self.pending()
        if kind == "pod" and isinstance(value, list):
            for _ in range(2):  # Both are planned in one pass.
                self.pods += 1
                gated(self.world, f"pod-{self.pods}", *(f"{size}Gi" for size in value))
        elif kind == "mixed" and isinstance(value, list):
            self.pods += 1
            mixed(self.world, f"pod-{self.pods}", *(f"{size}Gi" for size in value))
        elif kind == "report" and isinstance(value, str):
            self.report(value)
        elif kind in {"begin", "make", "fail"} and waiting and isinstance(value, int):
            claim, node = waiting[value % len(waiting)]
            self.provisioner.begin(claim)
            if kind == "make":
                self.provisioner.make(claim, node)
            elif kind == "fail":
                self.provisioner.give_up(claim)


def halves(world: World) -> list[str]:
    """Existing volumes that name a claim of a pod whose other volumes are not all made, or are made elsewhere."""
    places = {
        volume["metadata"]["name"]: volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]
        for volume in world.server.all("persistentvolumes")
    }
    committed = {
        volume["spec"]["claimRef"]["name"]: places[volume["metadata"]["name"]]
        for volume in world.server.all("persistentvolumes")
        if volume["spec"].get("claimRef", {}).get("namespace") == "default" and "-disk-" in str(volume["spec"])
    }
    made = [claim for claim in world.server.all("persistentvolumeclaims") if "-disk-" not in claim["metadata"]["name"]]
    return [
        claim["metadata"]["name"]
        for claim in made
        for disk, place in committed.items()
        if disk.startswith(claim["metadata"]["name"].rpartition("-")[0] + "-disk-")
        and places.get(claim["spec"].get("volumeName", "")) != place
    ]


@contextmanager
def own_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    try:
        yield loop
    finally:
        loop.close()


@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_no_pool_is_overcommitted_and_no_pod_is_split(steps: list[tuple[str, object]]) -> None:
    with own_loop() as loop:
        cluster = Cluster()
        loop.run_until_complete(cluster.run(list(steps)))
    assert cluster.provisioner.rejected == []
    nodes: dict[str, set[str]] = {}
    for claim, node in selected(cluster.world).items():
        nodes.setdefault(claim.rpartition("-")[0], set()).add(node)
    assert all(len(each) == 1 for each in nodes.values())
    assert cluster.world.violations() == []
