"""Whatever is lost, late or forged, and whatever restarts: no pod is committed where committed pods have left no room.

Users create, delete and recreate pods and forge annotations; writes fail, are executed without an answer, or are seen
late; the controller restarts. kube-scheduler places what it may, wherever that keeps the promise to the others. At the
end every pod that could be placed is.
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from binder.model.decision import Mode
from binder.reservation.contract import DEFAULT_PREFIX
from kube.errors import Unavailable
from kube.objects.model import SELECTED_NODE, Claim, Pod, Volume
from tests.binder.booking.promises import fitting_nodes, placeable, records_of
from tests.binder.world import Process, World, bind
from tests.fakes.objects import ZONE, claim_object, pod_object, volume_object

GATE = f"{DEFAULT_PREFIX}volumes"
NODES = ("node-a1", "node-a2", "node-b1", "node-b2")
DOWN = Unavailable("PATCH", "", 0, "Timeout", "down")


class Story:
    """A random sequence of what happens, and the judgement after each step."""

    def __init__(self, mode: Mode, seed: int) -> None:
        self.random = Random(seed)
        self.world = World(mode)
        self.server = self.world.server
        for name in NODES[2:] if self.random.random() < 0.7 else NODES[3:]:
            self.server.remove("nodes", name)
        self.promised: set[str] = set()
        self.inherited: dict[str, set[str]] = {}
        """Claims, by the uid of a pod, to which a volume was committed before that pod was created."""
        self.transition = 0
        self.log: list[str] = []
        self.waited = 0.0
        for number in range(10):
            where = self.random.choice((*NODES[:3], *NODES[:2], None))
            zone = self.random.choice("aab") if where is None else None
            self.world.put(volume_object(f"pv-{number}", f"{10 + number}Gi", zone=zone, node=where))

    # What happens.

    def pod(self) -> None:
        number = sum(1 for _ in self.server.all("persistentvolumeclaims"))
        claims = [f"c{number + part}" for part in range(self.random.choice((1, 1, 2)))]
        for claim in claims:
            self.world.put(claim_object(claim))
        self.put_pod(f"p{number}", claims)

    def put_pod(self, name: str, claims: list[str], *, gates: tuple[str, ...] = (GATE,), **spec: Any) -> None:
        document = pod_object(name, claims)
        document["metadata"]["creationTimestamp"] = self.world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        cpu = str(self.random.choice((3, 5, 5, 7)))
        document["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        document["spec"] |= {"schedulingGates": [{"name": gate} for gate in gates]} if gates else {}
        uid = document["metadata"]["uid"] = f"uid-{self.server._version}"
        self.inherited[uid] = self.committed(records_of(self.server))
        document["spec"] |= spec
        self.log.append(f"pod {name} {claims} cpu {cpu} {gates} {spec}")
        self.world.put(document)

    def delete(self) -> None:
        pods = [pod["metadata"]["name"] for pod in self.server.all("pods")]
        if pods:
            name = self.random.choice(pods)
            self.log.append(f"delete {name}")
            self.server.remove("pods", f"default/{name}")

    def restart_pod(self) -> None:
        pods = list(self.server.all("pods"))
        if pods:
            pod = self.random.choice(pods)
            name = pod["metadata"]["name"]
            claims = [volume["persistentVolumeClaim"]["claimName"] for volume in pod["spec"]["volumes"]]
            self.server.remove("pods", f"default/{name}")
            self.put_pod(name, claims)

    def idle_pods(self) -> None:
        """Pods that use a claim with a volume and can never run."""
        bound = [
            claim["metadata"]["name"]
            for claim in self.server.all("persistentvolumeclaims")
            if claim["spec"].get("volumeName")
        ]
        if bound:
            claim, number = self.random.choice(bound), self.server._version
            foreign = self.random.random() < 0.5
            gates = (GATE, "example.com/other") if foreign else (GATE,)
            self.put_pod(
                f"idle-{number}", [claim], gates=gates, **({} if foreign else {"nodeSelector": {ZONE: "none"}})
            )

    def forge(self) -> None:
        """What a user may write: everything on the claims of a namespace."""
        volume, name = f"pv-{self.random.randrange(10)}", f"evil-{self.random.randrange(3)}"
        mine = [claim["metadata"]["name"] for claim in self.server.all("persistentvolumeclaims")]
        words = {
            f"{DEFAULT_PREFIX}reserved-volume": volume,
            f"{DEFAULT_PREFIX}bound-at": "2026-01-01T00:00:00Z",
            f"{DEFAULT_PREFIX}expires-at": "9999-12-31T00:00:00Z",
            f"{DEFAULT_PREFIX}reserved-nodes": self.random.choice(NODES),
            f"{DEFAULT_PREFIX}claim-ref": f"default/{self.random.choice(mine or ['x'])}/uid",
            f"{DEFAULT_PREFIX}health": "DataLoss",
            SELECTED_NODE: self.random.choice(NODES),
        }
        chosen = dict(self.random.sample(sorted(words.items()), self.random.randrange(len(words) + 1)))
        self.log.append(f"forge {name} {chosen}")
        document = claim_object(name)
        document["metadata"]["annotations"] = chosen
        self.world.put(document)

    def lose(self) -> None:
        self.log.append("lose a response")
        self.server.lose_responses.add(len(self.server.writes) + self.random.randrange(1, 4))

    def fail(self) -> None:
        count = self.random.randrange(1, 8)
        self.log.append(f"fail {count} requests")
        self.server.reject_next += [("", DOWN)] * count

    def outage(self) -> None:
        """A write is executed without an answer, its volume cannot be read, and no watch shows it yet."""
        self.log.append("outage")
        self.server.lagging = True
        self.server.lose_responses.add(len(self.server.writes) + self.random.randrange(1, 3))
        self.server.reject_next += [("GET /api/v1/persistentvolumes", DOWN)] * self.random.randrange(1, 5)
        self.server.reject_next += [("PATCH", DOWN)] * self.random.choice((0, 0, 1))

    def lag(self) -> None:
        self.log.append("watches lag")
        self.server.lagging = True

    def bind(self) -> None:
        """As the PV controller does, for one volume whose claimRef names a claim."""
        claims = {claim["metadata"]["name"]: claim for claim in self.server.all("persistentvolumeclaims")}
        for volume in list(self.server.all("persistentvolumes")):
            claim = volume["spec"].get("claimRef", {}).get("name", "")
            if claim in claims and not claims[claim]["spec"].get("volumeName") and self.random.random() < 0.7:
                self.log.append(f"bind {claim} {volume['metadata']['name']}")
                bind(self.world, claim, volume["metadata"]["name"])

    def place(self, likelihood: float = 0.7) -> None:
        """As kube-scheduler does, keeping the promise to the others; not while watches lag, for what is not seen yet
        could not be kept.
        """
        if self.server.lagging:
            return
        self.waited = 0.0
        records = records_of(self.server)
        for pod in self.unplaced(records):
            if not pod.scheduling_gates and self.random.random() < likelihood:
                others = [other for other in self.counted(records) if other.key != pod.key]
                nodes = fitting_nodes(pod, records)
                self.random.shuffle(nodes)
                for node in nodes:
                    placed = replaced(records, pod, node)
                    if placeable(others, placed):
                        self.log.append(f"place {pod.name} {node}")
                        put_on(self.world, pod.name, node)
                        records = records_of(self.server)
                        break

    # What was promised.

    def unplaced(self, records: list[Any]) -> list[Pod]:
        return [record for record in records if isinstance(record, Pod) and not record.node_name]

    def committed(self, records: list[Any]) -> set[str]:
        return {record.claim.key for record in records if isinstance(record, Volume) and record.claim is not None}

    def counted(self, records: list[Any]) -> list[Pod]:
        """The pods to which a node is promised."""
        claims = {record.key: record for record in records if isinstance(record, Claim)}
        committed = self.committed(records)
        for pod in self.unplaced(records):
            new = committed - self.inherited[pod.uid]
            begun = any(key in new and not claims[key].volume_name for key in pod.claim_keys if key in claims)
            foreign = any(gate != GATE for gate in pod.scheduling_gates)
            if (not pod.scheduling_gates or begun) and not foreign:
                self.promised.add(pod.uid)
        return [pod for pod in self.unplaced(records) if pod.uid in self.promised]

    def check(self, was_kept: bool) -> bool:
        records = records_of(self.server)
        kept = placeable(self.counted(records), records)
        assert kept or not was_kept, "\n".join(["a promise cannot be kept", *self.log])
        return kept

    def placeable_now(self) -> bool:
        records = records_of(self.server)
        return placeable(self.counted(records), records)

    # The play.

    async def play(self, steps: int) -> None:
        actions: list[tuple[Callable[[], None], int]] = [
            (self.pod, 6),
            (self.delete, 1),
            (self.restart_pod, 3),
            (self.idle_pods, 1),
            (self.forge, 2),
            (self.lose, 1),
            (self.fail, 2),
            (self.outage, 2),
            (self.lag, 1),
            (self.bind, 4),
            (self.place, 4),
        ]
        kept = True
        process, stack = await self.start()
        for _ in range(steps):
            count = self.random.choice((1, 1, 2, 3))
            for action in self.random.choices(
                [action for action, _ in actions], [weight for _, weight in actions], k=count
            ):
                action()
            kept = self.placeable_now()
            seconds = self.random.choice((0.02, 0.3, 1.0, 5.0, 20.0))
            self.waited += seconds
            self.log.append(f"run {seconds}")
            await process.run(seconds)
            kept = self.check(kept)
            if self.server.lagging and (self.random.random() < 0.6 or self.waited > 8):
                self.log.append("watches catch up")
                self.server.lagging = False
                self.server.catch_up()
            if self.waited > 8:
                self.place(1.0)
            if self.random.random() < 0.1:
                self.log.append("restart")
                await stack.aclose()
                process, stack = await self.start()
        await self.settle(process)
        await stack.aclose()

    async def start(self) -> tuple[Process, AsyncExitStack]:
        self.transition += 1
        stack = AsyncExitStack()
        return await stack.enter_async_context(self.world.process(transition=self.transition)), stack

    async def settle(self, process: Process) -> None:
        """No more faults: every pod that fits a node gets one."""
        self.server.lagging = False
        self.server.catch_up()
        self.server.reject_next.clear()
        self.server.lose_responses.clear()
        for _ in range(12):
            await process.run(35)
            for _ in range(4):
                self.bind()
                self.place()
        await process.run(70)
        records = records_of(self.server)
        for pod in self.unplaced(records):
            if pod.scheduling_gates == (GATE,):
                assert fitting_nodes(pod, records) == [], "\n".join([f"{pod.name} is left out", *self.log])
        assert self.world.violations() == []


def put_on(world: World, pod: str, node: str) -> None:
    world.server.change("pods", f"default/{pod}", lambda document: document["spec"].update(nodeName=node))


def replaced(records: list[Any], pod: Pod, node: str) -> list[Any]:
    """Return the records with the pod on the node."""
    return [
        replace(record, node_name=node) if isinstance(record, Pod) and record.key == pod.key else record
        for record in records
    ]


@pytest.mark.parametrize("mode", [Mode.PREBIND, Mode.COMPLETE])
@given(seed=st.integers(0, 2**32))
@example(seed=43)
@example(seed=216)
@example(seed=30951)
@example(seed=1723324654)
@example(seed=500115)
@settings(max_examples=25, deadline=None)
def test_no_pod_is_committed_where_committed_pods_have_left_no_room(mode: Mode, seed: int) -> None:
    asyncio.run(Story(mode, seed).play(14))
