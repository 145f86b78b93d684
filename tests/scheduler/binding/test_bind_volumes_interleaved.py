"""Our PreBind, a PV controller, a rival scheduler and people, in every order that chance brings about."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from binder.matching.rejection import Rejection
from scheduler.framework.plugin import ScheduleResult
from tests.fake_clock import START
from tests.fakes.objects import ZONE, claim_object, pod_object, volume_object
from tests.invariants import violations
from tests.scheduler.storage import CLAIMS, REFERENCE, VOLUMES, Cluster

COMPLETED, BOUND_BY = "pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"
NODES = {"node-a": "a", "node-b": "b"}
NAMES = ("one", "two", "three")
TURNS = 60


class PVController:
    """Binds as the in-tree one: the volume's phase, if the volume is as it was seen; then the claim; then it heals."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._seen: dict[str, str] = {}
        self._half: dict[str, str] = {}

    def look(self, name: str) -> None:
        self._seen[name] = self._cluster.volume(name)["metadata"]["resourceVersion"]

    def step(self, name: str) -> bool:
        """Go one write on with a volume; False when there is nothing to do."""
        cluster, volume = self._cluster, self._cluster.volume(name)
        reference = volume["spec"].get("claimRef")
        claim = cluster.server.objects.get((CLAIMS, f"default/{reference['name']}")) if reference else None
        if reference is None or claim is None or reference.get("uid", "") != claim["metadata"]["uid"]:
            return False
        held = claim["spec"].get("volumeName")
        if held and held != name:
            return self._let_go(name, volume)
        if volume["status"]["phase"] != "Bound":
            current = self._seen.pop(name, "") == volume["metadata"]["resourceVersion"]
            if current:
                cluster.change(VOLUMES, name, "status", phase="Bound")
                self._half[reference["name"]] = name
            self.look(name)
            return True
        if not held:
            key = f"default/{reference['name']}"
            cluster.change(CLAIMS, key, "spec", volumeName=name)
            cluster.annotate(CLAIMS, key, **{COMPLETED: "yes"})
            return True
        return False

    def _let_go(self, name: str, volume: dict[str, Any]) -> bool:
        if BOUND_BY not in volume["metadata"].get("annotations", {}):
            return False
        self._cluster.change(VOLUMES, name, "spec", claimRef=None)
        self._cluster.change(VOLUMES, name, "status", phase="Available")
        return True


class Play:
    """Three claims, five volumes in two zones, and two pods whose volumes were chosen by chance."""

    def __init__(self, random: Random) -> None:
        self.random, self.cluster = random, Cluster()
        self.cluster.put(*(claim_object(name) for name in NAMES))
        zones = {f"pv-{number}": random.choice("ab") for number in range(5)}
        self.cluster.put(*(volume_object(name, zone=zone) for name, zone in zones.items()))
        self.volumes = list(zones)
        self.controller = PVController(self.cluster)
        self.stolen: list[str] = []
        self.ours = self.cluster.instance()
        self.ours.store.volumes.listeners.append(self._witness)
        self.placements = [
            placement for pod in ("red", "blue") if (placement := self._placement(pod, zones)) is not None
        ]

    def _placement(self, pod: str, zones: dict[str, str]) -> ScheduleResult | None:
        node = self.random.choice(list(NODES))
        within = [name for name, zone in zones.items() if zone == NODES[node]]
        claims = self.random.sample(NAMES, min(self.random.randint(1, 3), len(within)))
        if not claims:
            return None
        chosen = dict(zip(claims, self.random.sample(within, len(claims)), strict=True))
        self.cluster.put(pod_object(pod, claims))
        return self.ours.placement(chosen, pod=pod, node=node)

    def _witness(self, old: Any, new: Any) -> None:
        before, after = (
            volume.claim.uid if volume is not None and volume.claim is not None else "" for volume in (old, new)
        )
        if before and after and before != after:
            self.stolen.append(new.name)

    def turn(self) -> None:
        """Let one of the others do something."""
        acts: list[Callable[[], object]] = [*[self._bind] * 4, self._rival, *[self._look] * 2]
        if self.random.random() < 0.1:
            acts.append(self._delete_pod)
        self.random.choice(acts)()

    def _look(self) -> None:
        self.controller.look(self.random.choice(self.volumes))

    def _bind(self) -> None:
        self.controller.step(self.random.choice(self.volumes))

    def _rival(self) -> None:
        """kube-scheduler takes an Available volume for an unbound claim, as its cache allows."""
        name, claim = self.random.choice(self.volumes), self.random.choice(NAMES)
        if (
            "claimRef" not in self.cluster.volume(name)["spec"]
            and "volumeName" not in self.cluster.claim(claim)["spec"]
        ):
            reference = REFERENCE | {"name": claim, "uid": self.cluster.uid(claim)}
            self.cluster.change(VOLUMES, name, "spec", claimRef=reference)
            self.cluster.annotate(VOLUMES, name, **{BOUND_BY: "yes"})

    def _delete_pod(self) -> None:
        key = f"default/{self.random.choice(('red', 'blue'))}"
        if ("pods", key) in self.cluster.server.objects:
            self.cluster.server.remove("pods", key)

    async def perform(self) -> list[tuple[ScheduleResult, Rejection | None]]:
        """Carry out all placements at once while the others act, and then let the PV controller finish."""
        tasks = [asyncio.create_task(self.ours.carry_out(placement)) for placement in self.placements]
        for _ in range(TURNS):
            self.turn()
            for _ in range(self.random.randint(0, 3)):
                await asyncio.sleep(0)
        for _ in range(200):
            for name in self.volumes:
                self.controller.step(name)
            await asyncio.sleep(0)
        assert all(task.done() for task in tasks), "it waits for what never comes"
        return list(zip(self.placements, [task.result() for task in tasks], strict=True))

    def reaches(self, node: str, claim: str) -> bool:
        volume = self.cluster.volume(self.cluster.claim(claim)["spec"]["volumeName"])
        (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["key"] == ZONE
        return bool(term["matchExpressions"][0]["values"] == [NODES[node]])


@pytest.mark.parametrize("first", range(0, 300, 100))
async def test_in_any_order_claims_and_volumes_belong_to_each_other(first: int) -> None:
    for seed in range(first, first + 100):
        await played(seed)


async def played(seed: int) -> None:
    play = Play(Random(seed))
    outcomes = await play.perform()
    server = play.cluster.server
    assert violations(server.all(VOLUMES), server.all(CLAIMS), START) == [], seed
    assert play.stolen == [], seed
    for claim in server.all(CLAIMS):
        if volume := claim["spec"].get("volumeName"):
            assert play.cluster.volume(volume)["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"], seed
    for placement, rejected in outcomes:
        if rejected is None:
            assert all(play.reaches(placement.node, claim.name) for claim, _ in placement.volumes.volumes), seed
    assert play.ours.listening() == 1, "only the witness listens"
