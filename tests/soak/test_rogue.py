"""A rogue with a replica's token plants every kind of violation on a real control plane: the judge finds each.

Nothing of ours runs, and what would tidy up is paused.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from soak import terrain
from soak.judge.facts import GATE, PREFIX
from soak.judge.replay import replay
from soak.judge.rules import Violation
from soak.judge.writes import Authors, Parties, read
from soak.run import judge_rest
from soak.schedule import Setting
from soak.stage.client import Client, Document, Rejected
from soak.stage.rights import SYSTEM
from soak.stage.stage import Stage, staged
from soak.terrain import NAMESPACE

SETTING = Setting((0.0, 0.0), None, False, "10m")
SECONDS = 60.0
Patch = dict[str, Any]


class Rogue:
    """Writes with a replica's rights and without its scruples."""

    def __init__(self, stage: Stage, client: Client) -> None:
        self.stage, self.client, self.admin = stage, client, stage.client

    async def volume(self, name: str, body: Patch, subresource: str = "", *, conditional: bool = True) -> None:
        await self._patch("PersistentVolume", name, body, "", subresource, conditional=conditional)

    async def claim(self, name: str, body: Patch) -> None:
        await self._patch("PersistentVolumeClaim", name, body, NAMESPACE)

    async def pod(self, name: str, body: Patch) -> None:
        await self._patch("Pod", name, body, NAMESPACE)

    async def lead(self) -> None:
        """Take the Lease."""
        body = {"spec": {"holderIdentity": f"rogue-{id(self)}", "leaseDurationSeconds": 15, "leaseTransitions": 1}}
        await self.client.patch("Lease", "pvc-prebinder", body, SYSTEM)

    async def _patch(
        self, kind: str, name: str, body: Patch, namespace: str, subresource: str = "", *, conditional: bool = True
    ) -> None:
        live = await self.admin.get(kind, name, namespace)
        metadata = dict(body.get("metadata", {}))
        if conditional:
            metadata["resourceVersion"] = live["metadata"]["resourceVersion"]
        await self.client.patch(kind, name, body | {"metadata": metadata}, namespace, subresource)


def reference(claim: Document) -> Patch:
    metadata = claim["metadata"]
    named = {"kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": metadata["name"], "uid": metadata["uid"]}
    return {"spec": {"claimRef": named}}


def annotate(**values: str | None) -> Patch:
    return {"metadata": {"annotations": {PREFIX + word.replace("_", "-"): value for word, value in values.items()}}}


async def claims_of(
    rogue: Rogue, pod: str, *classes: str, gates: tuple[str, ...] = (), cpu: str = "10m"
) -> list[Document]:
    """Create a pod that has a claim of each class, and return the claims."""
    claims = []
    for number, class_name in enumerate(classes):
        body = terrain.claims(0)[0] | {"metadata": {"namespace": NAMESPACE, "name": f"{pod}-{number}"}}
        requests = {"requests": {"storage": "1Gi"}}
        body["spec"] = body["spec"] | {"storageClassName": class_name, "resources": requests}
        claims += await rogue.admin.create(body)
    body = terrain.pod(0, gated=False)
    names = [each["metadata"]["name"] for each in claims]
    body["metadata"]["name"] = pod
    body["spec"]["volumes"] = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in names]
    body["spec"]["containers"][0]["volumeMounts"] = [{"name": each, "mountPath": f"/{each}"} for each in names]
    body["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    body["spec"]["schedulingGates"] = [{"name": gate} for gate in gates]
    await rogue.admin.create(body)
    return claims


async def plant(rogue: Rogue) -> None:
    """Plant one violation of each rule; volumes disks-N, hints-N and local-N are used once each."""
    await rogue.lead()
    first, second = await claims_of(rogue, "twice", "disks", "disks", gates=(GATE,))
    await rogue.volume("disks-0", reference(first))
    await rogue.volume("disks-3", reference(first))  # one claim, one volume
    for name in ("disks-0", "disks-3"):
        await rogue.volume(name, {"status": {"phase": "Bound"}}, "status")  # one claim, one Bound volume
    await rogue.volume("disks-0", reference(second))  # no claimRef is replaced

    other_class = {"reserved_for": f"{NAMESPACE}/twice-0", "reserved_for_uid": first["metadata"]["uid"]}
    await rogue.volume("hints-1", annotate(**other_class))  # a volume fits its claim

    (reserved,) = await claims_of(rogue, "reserved", "hints", gates=(GATE,))
    words = {"reserved_for": f"{NAMESPACE}/reserved-0", "reserved_for_uid": reserved["metadata"]["uid"]}
    for name in ("hints-0", "hints-3"):
        await rogue.volume(name, annotate(**words))  # one claim, one reservation; broken, and left behind

    (shared,) = await claims_of(rogue, "shared", "disks", gates=(GATE,))
    await rogue.claim("shared-0", {"spec": {"volumeName": "disks-6"}})  # volumeName
    await rogue.claim("twice-1", {"spec": {"volumeName": "disks-6"}})  # one volume, one claim
    await rogue.volume("disks-6", reference(shared))
    await rogue.volume("disks-6", {"spec": {"claimRef": None}})  # a bind is never undone

    await rogue.admin.patch("PersistentVolume", "hints-6", annotate(health="DataLoss"))
    await rogue.volume("hints-6", annotate(**words))  # no unhealthy volume

    (open_,) = await claims_of(rogue, "open", "disks")
    await rogue.volume("disks-9", reference(open_))  # only gated or unschedulable pods are committed

    await rogue.admin.patch("PersistentVolume", "hints-9", reference(reserved))
    await rogue.volume("hints-9", {"spec": {"claimRef": None}})  # claimRefs of others stay

    here, there = await claims_of(rogue, "apart", "local", "local", gates=(GATE, "other.example/gate"))
    await rogue.volume("local-0", reference(here))
    await rogue.volume("local-1", reference(there))  # one topology
    await rogue.pod("apart", {"spec": {"schedulingGates": None}})  # only our gate

    await rogue.volume("hints-12", {"metadata": {"labels": {"mine": "now"}}})  # only our fields
    await rogue.volume("hints-12", annotate(bound_at="now"), conditional=False)  # every write is conditional
    with pytest.raises(Rejected, match="403"):
        await rogue.client.delete("PersistentVolume", "hints-12")  # nothing is deleted

    await claims_of(rogue, "early", "disks", gates=(GATE,))
    await rogue.pod("early", {"spec": {"schedulingGates": None}})  # gated is guaranteed

    (huge,) = await claims_of(rogue, "huge", "local", gates=(GATE,), cpu="5")
    await rogue.volume("local-2", reference(huge))  # no pod is committed without room

    # Pods that can be served are: the gate stays, and volumes of its class are left.
    await claims_of(rogue, "waiting", "shares", gates=(GATE,))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def violations(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[list[Violation]]:
    directory: Path = tmp_path_factory.mktemp("rogue")
    async with AsyncExitStack() as stack:
        stage = await stack.enter_async_context(staged(SETTING, directory, processes=False))
        await available(stage)
        for component in (stage.cluster.controller_manager, stage.cluster.scheduler):
            component.pause()
            stack.callback(component.resume)
        leader, other = [await rogue(stack, stage) for _ in range(2)]
        await leader.client.create({"kind": "Lease", "metadata": {"namespace": SYSTEM, "name": "pvc-prebinder"}})
        await plant(leader)
        await other.volume("hints-13", annotate(bound_at="now"))  # no write without the Lease
        quiet = time.time()
        await asyncio.sleep(2)
        await leader.volume("hints-13", annotate(bound_at="later"))  # no write while it is quiet
        last = await stage.client.get("PersistentVolume", "hints-13")
        await asyncio.wait_for(stage.recorder.reached(int(last["metadata"]["resourceVersion"])), SECONDS)
        with stage.audit_log.open(encoding="utf-8") as lines:
            authors = Authors(read(lines, Parties()))
        judged = replay(stage.recorder.changes, authors)
        yield judged.violations + judge_rest(judged.cluster, authors.writes, quiet, time.time() + 1)


async def available(stage: Stage) -> None:
    """Return when the PV controller has looked at all volumes."""
    async with asyncio.timeout(SECONDS):
        while not all(  # noqa: ASYNC110 - another process cannot set an event
            volume["status"].get("phase") == "Available" for volume in await stage.client.list("PersistentVolume")
        ):
            await asyncio.sleep(0.1)


async def rogue(stack: AsyncExitStack, stage: Stage) -> Rogue:
    """A client with a token of the controller's ServiceAccount."""
    token = await stage.client.token(SYSTEM, "pvc-prebinder")
    authority = ssl.create_default_context(cafile=stage.cluster.directory / "certificates" / "ca.crt")
    client = await stack.enter_async_context(
        Client(stage.cluster.server, authority, {"Authorization": f"Bearer {token}"})
    )
    return Rogue(stage, client)


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("rule", "about"),
    [
        ("one claim, one volume", "disks-3"),
        ("one claim, one Bound volume", "disks-3"),
        ("no claimRef is replaced", "disks-0"),
        ("one claim, one reservation", "hints-3"),
        ("a volume fits its claim", "hints-1"),
        ("volumeName", "shared-0"),
        ("one volume, one claim", "twice-1"),
        ("a bind is never undone", "disks-6"),
        ("no unhealthy volume", "hints-6"),
        ("only gated or unschedulable pods are committed", "disks-9"),
        ("claimRefs of others stay", "hints-9"),
        ("one topology", "local-1"),
        ("gated is guaranteed", "early"),
        ("no pod is committed without room", "huge"),
        ("only our gate", "apart"),
        ("only our fields", "hints-12"),
        ("every write is conditional", "hints-12"),
        ("nothing is deleted", "hints-12"),
        ("no write without the Lease", "hints-13"),
        ("no write while it is quiet", "hints-13"),
        ("nothing is left behind", "hints-0"),
        ("pods that fit are scheduled", "waiting"),
    ],
)
async def test_what_the_rogue_did_is_found(violations: list[Violation], rule: str, about: str) -> None:
    texts = [violation.text for violation in violations if violation.rule == rule]
    assert any(about in text for text in texts), texts
