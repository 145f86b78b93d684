"""The drift check against a scripted list: what it repairs, what it leaves alone, and what it costs."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from kube.client.api import METADATA_ONLY, KubeApi
from kube.client.drift_check import CheckedKind, DriftCheck
from kube.client.transport import Request
from kube.errors import Unavailable
from kube.objects.api_resource import CLAIMS, NODES, VOLUMES, Resource
from tests.kube.counted import CountedDrift
from tests.kube.scripted_transport import Answer, ScriptedTransport, answer, failure, listing, query, thing


class Kept(msgspec.Struct):
    name: str
    uid: str
    resource_version: int


def decode(raw: bytes) -> Kept:
    document = msgspec.json.decode(raw)
    if "unhealthy" in document:
        raise ValueError("malformed")
    metadata = document["metadata"]
    return Kept(metadata["name"], metadata["uid"], int(metadata["resourceVersion"]))


class Collected:
    """A collection, its reflector and what the check counts."""

    def __init__(self, **versions: int) -> None:
        self.items = {name: Kept(name, f"uid-{name}", version) for name, version in versions.items()}
        self.synced = asyncio.Event()
        self.synced.set()
        self.relists = 0
        self.metrics = CountedDrift()
        self.version = 0

    def upsert(self, item: Kept) -> None:
        self.items[item.name] = item

    def remember(self, item: Kept, as_of: int) -> None:
        self.items[item.name] = item

    def forget(self, key: str, version: int) -> None:
        self.items.pop(key, None)

    def relist(self) -> None:
        self.relists += 1

    @property
    def versions(self) -> dict[str, int]:
        return {name: item.resource_version for name, item in self.items.items()}


class Cluster:
    """Lists and gets the objects it has."""

    def __init__(self, **versions: int) -> None:
        self.version = 1000
        self.things: dict[str, dict[str, Any]] = {name: thing(name, version) for name, version in versions.items()}
        self.page = 5000

    def __call__(self, request: Request) -> Answer:
        name = request.path.removeprefix("/api/v1/persistentvolumes").strip("/")
        if name:
            stored = self.things.get(name)
            return answer(200, stored) if stored else answer(404, failure(404, "NotFound"))
        start = int(query(request, "continue") or 0)
        items = list(self.things.values())
        following = str(start + self.page) if start + self.page < len(items) else ""
        return answer(200, listing(self.version, *items[start : start + self.page], following=following))


def checking(
    cluster: Cluster, held: Collected, requests: int = 12, resource: Resource = VOLUMES
) -> tuple[DriftCheck, ScriptedTransport]:
    transport = ScriptedTransport(cluster)
    part = CheckedKind(resource, decode, held, held)
    return DriftCheck(KubeApi(transport), [part], held.metrics, requests=requests), transport


async def test_no_drift_costs_one_metadata_request_a_kind() -> None:
    held = Collected(a=1, b=2)
    check, transport = checking(Cluster(a=1, b=2), held)
    for _ in range(10):
        await check.check()
    assert len(transport.requests) == 10
    assert {request.accept for request in transport.requests} == {METADATA_ONLY}
    assert held.metrics.differences == {"missing": 0, "extra": 0, "outdated": 0}
    assert held.versions == {"a": 1, "b": 2}


async def test_what_the_watch_missed_is_repaired_at_the_second_look_and_counted() -> None:
    held = Collected(outdated=1, extra=2, same=3)
    check, _ = checking(Cluster(outdated=8, missing=9, same=3), held)
    await check.check()
    assert held.versions == {"outdated": 1, "extra": 2, "same": 3}
    await check.check()
    assert held.versions == {"outdated": 8, "missing": 9, "same": 3}
    assert held.metrics.differences == {"missing": 1, "extra": 1, "outdated": 1}
    await check.check()
    assert held.metrics.differences == {"missing": 0, "extra": 0, "outdated": 0}


async def test_a_part_picked_by_a_selector_is_repaired_by_a_list() -> None:
    held = Collected(outdated=1)
    part = VOLUMES.selected("free", "spec.claimRef=")
    check, transport = checking(Cluster(outdated=8), held, resource=part)
    for _ in range(2):
        await check.check()
    assert held.relists == 1
    assert {query(request, "fieldSelector") for request in transport.requests} == {"spec.claimRef="}
    assert held.metrics.differences["outdated"] == 1


async def test_what_the_watch_brings_in_the_meantime_is_no_drift() -> None:
    held = Collected(late=1, going=2)
    cluster = Cluster(late=8, coming=9)
    check, transport = checking(cluster, held)
    await check.check()
    held.upsert(decode(json.dumps(thing("late", 8)).encode()))
    held.upsert(decode(json.dumps(thing("coming", 9)).encode()))
    del held.items["going"]
    await check.check()
    assert held.metrics.differences == {"missing": 0, "extra": 0, "outdated": 0}
    assert len(transport.requests) == 2


async def test_an_object_newer_than_the_list_is_not_extra_and_a_newer_version_not_outdated() -> None:
    held = Collected(created=1001, changed=1002)
    check, transport = checking(Cluster(changed=5), held)
    for _ in range(3):
        await check.check()
    assert held.versions == {"created": 1001, "changed": 1002}
    assert len(transport.requests) == 3


async def test_an_object_deleted_between_the_looks_does_not_come_back() -> None:
    held = Collected()
    cluster = Cluster(brief=5)
    check, _ = checking(cluster, held)
    await check.check()
    cluster.things.clear()
    await check.check()
    assert held.versions == {}
    assert held.metrics.differences["missing"] == 0


async def test_a_malformed_object_is_not_drift_and_is_read_once() -> None:
    held = Collected()
    cluster = Cluster()
    cluster.things["bad"] = thing("bad", 5, unhealthy=True)
    check, transport = checking(cluster, held)
    for _ in range(5):
        await check.check()
    assert held.metrics.differences["missing"] == 0
    assert len([request for request in transport.requests if request.path.endswith("/bad")]) == 1


async def test_a_flood_of_differences_is_repaired_by_one_list() -> None:
    held = Collected()
    check, transport = checking(Cluster(**{f"v{n}": n + 1 for n in range(30)}), held)
    await check.check()
    await check.check()
    assert held.relists == 1
    assert held.metrics.differences["missing"] == 30
    assert len(transport.requests) == 2


async def test_what_the_collection_does_not_take_from_a_single_read_is_repaired_by_a_list() -> None:
    class Moving(Collected):
        def remember(self, item: Kept, as_of: int) -> None: ...

    held = Moving()
    check, _ = checking(Cluster(missing=5), held)
    await check.check()
    await check.check()
    assert held.relists == 1
    assert held.metrics.differences["missing"] == 1


async def test_a_server_restored_from_a_backup_is_relisted() -> None:
    held = Collected(a=1)
    held.version = 2000
    check, _ = checking(Cluster(a=1), held)
    await check.check()
    assert held.relists == 1


async def test_a_large_kind_is_walked_over_several_checks_within_the_budget() -> None:
    names = {f"v{n:04}": n + 1 for n in range(100)}
    held = Collected(**{**names, "extra": 7})
    del held.items["v0099"]
    cluster = Cluster(**names)
    cluster.page = 10
    check, transport = checking(cluster, held, requests=4)
    for requests in (4, 8, 10, 16):
        await check.check()
        assert len(transport.requests) == requests
    assert "v0099" in held.items
    assert "extra" not in held.items


@pytest.mark.parametrize(
    "broken",
    [
        Unavailable("GET", "/", 0, "ClientConnectorError", "rejected"),
        answer(410, failure(410, "Expired")),
        answer(403, failure(403, "Forbidden")),
        answer(200, b"<html>"),
        answer(200, {"metadata": {}, "items": [{"metadata": {"name": "x"}}]}),
    ],
    ids=["rejected", "410", "403", "html", "no version"],
)
async def test_a_kind_that_cannot_be_listed_does_not_keep_the_others_from_it(broken: Answer) -> None:
    held = {resource: Collected(gone=1) for resource in (CLAIMS, VOLUMES, NODES)}

    def respond(request: Request) -> Answer:
        if "claims" in request.path:
            return broken
        return answer(404, failure(404, "NotFound")) if "gone" in request.path else answer(200, listing(9))

    def part(resource: Resource) -> CheckedKind[Kept]:
        return CheckedKind(resource, decode, held[resource], held[resource])

    check = DriftCheck(KubeApi(ScriptedTransport(respond)), map(part, held), CountedDrift())
    for _ in range(3):
        await check.check()
    assert [len(collected.items) for collected in held.values()] == [1, 0, 0]


async def test_a_kind_that_was_never_listed_is_left_alone() -> None:
    held = Collected()
    held.synced.clear()
    check, transport = checking(Cluster(a=1), held)
    await check.check()
    assert transport.requests == []
