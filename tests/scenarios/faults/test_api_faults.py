"""Whatever the API server or the network does to single requests, pods get their volumes and nothing is broken."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from itertools import count

import pytest
import pytest_asyncio

from devcluster.cluster import DevCluster
from tests.scenarios.environment.admin import Admin
from tests.scenarios.environment.documents import claim_spec
from tests.scenarios.environment.final_state import settled
from tests.scenarios.environment.waiting import eventually
from tests.scenarios.environment.world import World, lived_in
from tests.scenarios.processes.controller import Controller, account, start_controller
from tests.scenarios.processes.proxy import Call, Fault, Proxy, writes_of

MODES = ("annotate", "prebind", "complete")
VOLUMES, CLAIMS, PODS = "persistentvolumes", "persistentvolumeclaims", "pods"


@dataclass(frozen=True, slots=True)
class Harmed:
    """One controller that reaches its API server only through a proxy, for all stories here, one after the other."""

    world: World
    proxy: Proxy
    controller: Controller
    numbers: "count[int]"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def harmed(cluster: DevCluster, admin: Admin, rights: None) -> AsyncIterator[Harmed]:
    async with lived_in(World(cluster, admin)) as world, Proxy(cluster) as proxy:
        controller = await start_controller(world, kubeconfig=proxy.kubeconfig_for(await account(cluster)))
        yield Harmed(world, proxy, controller, count(1))
        assert controller.component.running
        await controller.stop()
        assert "Traceback" not in controller.log()


def lists_of(word: str) -> Callable[[Call], bool]:
    return lambda call: call.method == "GET" and not call.watches and call.path.endswith(f"/{word}")


def watches_of(word: str) -> Callable[[Call], bool]:
    return lambda call: call.watches and call.path.endswith(f"/{word}")


def writes_for(mode: str, word: str) -> Callable[[Call], bool]:
    """Writes of objects of the story in that mode, whose names say so."""
    return lambda call: call.writes and f"/{word}/" in call.path and mode in call.path


def rejects(
    mode: str, word: str, status: int, reason: str = "InternalError", times: int = 2, after: int | None = None
) -> Fault:
    return Fault(about=writes_for(mode, word), status=status, reason=reason, times=times, retry_after=after)


def event_410() -> bytes:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


HTML = b"<html><body>502 Bad Gateway</body></html>"

WRITES: dict[str, Callable[[str], list[Fault]]] = {
    "409-volume": lambda mode: [rejects(mode, VOLUMES, 409, "Conflict", times=4)],
    "409-claim": lambda mode: [rejects(mode, CLAIMS, 409, "Conflict", times=4)],
    "409-pod": lambda mode: [rejects(mode, PODS, 409, "Conflict")],
    "422": lambda mode: [rejects(mode, word, 422, "Invalid") for word in (VOLUMES, CLAIMS, PODS)],
    "429": lambda mode: [rejects(mode, word, 429, "TooManyRequests", after=1) for word in (VOLUMES, CLAIMS, PODS)],
    "500": lambda mode: [rejects(mode, word, 500) for word in (VOLUMES, CLAIMS, PODS)],
    "no-answer": lambda mode: [Fault(about=writes_for(mode, word), times=2) for word in (VOLUMES, CLAIMS, PODS)],
    "done-but-answer-lost": lambda mode: [
        Fault(about=writes_for(mode, word), times=2, forwarded=True) for word in (VOLUMES, CLAIMS, PODS)
    ],
    "done-but-500": lambda mode: [
        Fault(about=writes_for(mode, word), status=500, times=2, forwarded=True) for word in (VOLUMES, CLAIMS)
    ],
    "html": lambda mode: [Fault(about=writes_for(mode, word), status=502, body=HTML) for word in (VOLUMES, CLAIMS)],
    "html-as-success": lambda mode: [Fault(about=writes_for(mode, VOLUMES), status=200, body=HTML)],
    "events-and-lease": lambda _: [
        Fault(about=writes_of("/events"), status=500, times=3),
        Fault(about=writes_of("/leases/"), status=500, times=2),
    ],
}

READS: dict[str, Callable[[], list[Fault]]] = {
    "dropped": list,
    "410-watch": lambda: [
        Fault(about=watches_of(word), status=410, reason="Expired") for word in (VOLUMES, CLAIMS, PODS)
    ],
    "410-event": lambda: [
        Fault(about=watches_of(word), status=200, body=event_410()) for word in (VOLUMES, CLAIMS, PODS)
    ],
    "410-list": lambda: [
        Fault(about=watches_of(CLAIMS), status=410, reason="Expired"),
        Fault(about=lists_of(CLAIMS), status=410, reason="Expired", times=2),
    ],
    "429-watch": lambda: [Fault(about=watches_of(CLAIMS), status=429, reason="TooManyRequests", retry_after=1)],
    "500-list": lambda: [
        Fault(about=watches_of(PODS), status=410, reason="Expired"),
        Fault(about=lists_of(PODS), status=500, times=2),
    ],
    "half-a-line": lambda: [Fault(about=watches_of(CLAIMS), status=200, body=b'{"type":"MODIFIED","object":{"kin')],
    "html": lambda: [Fault(about=watches_of(VOLUMES), status=200, body=HTML)],
}


RELISTED = {
    "410-watch": {VOLUMES, CLAIMS, PODS},
    "410-event": {VOLUMES, CLAIMS, PODS},
    "410-list": {CLAIMS},
    "500-list": {PODS},
}
"""Case -> the kinds that are listed again. All other watches go on where they were."""


async def wanting_two(harmed: Harmed, *modes: str) -> dict[str, list[str]]:
    """For each mode make three volumes, and a pod with two claims; return the pods' names and those of their claims."""
    world, number = harmed.world, next(harmed.numbers)
    pods: dict[str, list[str]] = {}
    for mode in modes:
        disks = await world.storage_class(mode, f"{mode}-{number}")
        await world.volumes(disks, *(world.volume(f"{mode}-{number}-{n}", disks, zone="zone-a") for n in range(3)))
        claims = [f"{mode}-{number}-data", f"{mode}-{number}-log"]
        await world.pod(f"{mode}-{number}", {claim: claim_spec(disks) for claim in claims}, gated=True)
        pods[f"{mode}-{number}"] = claims
    return pods


async def survived(harmed: Harmed, pods: dict[str, list[str]]) -> None:
    await settled(harmed.world, [claim for claims in pods.values() for claim in claims], *pods)
    harmed.proxy.faults.clear()
    assert await harmed.world.violations() == []
    assert harmed.controller.component.running


@pytest.mark.parametrize("case", WRITES)
async def test_a_write_that_fails(harmed: Harmed, case: str) -> None:
    """For a pod of each mode. In complete the PV controller may have done a write before it was tried again."""
    faults = {mode: WRITES[case](mode) for mode in MODES}
    harmed.proxy.faults += [fault for each in faults.values() for fault in each]
    await survived(harmed, await wanting_two(harmed, *MODES))
    if case != "events-and-lease":
        # In mode prebind no claim is written.
        sure = {"annotate"} if case == "409-claim" else {"annotate", "prebind"}
        assert {mode for mode, each in faults.items() if any(fault.struck for fault in each)} >= sure


@pytest.mark.parametrize("case", READS)
async def test_a_watch_or_list_that_fails(harmed: Harmed, case: str) -> None:
    faults, begun = READS[case](), len(harmed.proxy.calls)
    harmed.proxy.faults += faults
    harmed.proxy.drop_watches()
    pods = await wanting_two(harmed, "prebind")
    await eventually(lambda: left(faults), lambda waiting: not waiting, "every fault has struck", 60)
    await survived(harmed, pods)
    assert {plural for call in harmed.proxy.calls[begun:] for plural in relisted(call)} == RELISTED.get(case, set())


def relisted(call: Call) -> list[str]:
    """The kind that the call lists for the cache; the drift check takes larger pages."""
    lists = call.method == "GET" and not call.watches and f"{call.query}&".startswith("limit=500&")
    return [call.path.rpartition("/")[2]] if lists else []


async def left(faults: list[Fault]) -> list[int]:
    return [fault.times for fault in faults if fault.times]


async def test_watches_break_all_the_time(harmed: Harmed) -> None:
    """Each write is answered only after all watches have been dropped again."""

    async def drop(_: object) -> None:
        harmed.proxy.drop_watches()

    harmed.proxy.after_write = drop
    await survived(harmed, await wanting_two(harmed, *MODES))
    harmed.proxy.after_write = None
    assert await harmed.controller.metric("pvc_prebinder_watch_restarts_total", cause="error") > 0
