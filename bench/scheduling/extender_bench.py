"""(h) How long the extender takes to answer about 5,000 nodes, beside an echo server of the same library.

Both run as processes of their own and are called in turn, one request at a time as kube-scheduler does, so that other
load on the machine affects both equally.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from statistics import quantiles
from time import perf_counter
from typing import Final

import aiohttp
import msgspec

from bench.control_plane.documents import Document
from bench.progress import say
from bench.rows import Row
from bench.scheduling.extender_target import LOCAL, MADE, PLAIN, RESERVED
from devcluster.processes.ports import LOOPBACK

NODES: Final = 5_000
REQUESTS: Final = 1_000
WARM_UP: Final = 50
MAX_MS: Final = 50
RATIO: Final = 1.5

CASES: Final = (
    ("", "a pod without claims"),
    (RESERVED, "a pod whose volume is reserved"),
    (PLAIN, "a pod that must not go to one zone of three"),
    (LOCAL, "a pod of local volumes, one on each node"),
    (MADE, "a pod whose volume is made in a pool, one on each node, half of them full"),
)
"""Claim, and what it is."""
VERBS: Final = ("filter", "prioritize")
_WORST: Final = frozenset({("filter", PLAIN), ("filter", LOCAL), ("prioritize", LOCAL), ("filter", MADE)})
"""Not compared: they answer with two thousand reasons, or evaluate as many volumes as there are nodes."""
LISTS: Final = 16
"""Different orders of the names, because kube-scheduler filters nodes in another order for each pod."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds from request to the last byte of the answer."""

    ours: list[float] = field(default_factory=list)
    echo: list[float] = field(default_factory=list)


def run(quick: bool) -> list[Row]:
    """Send 1,000 requests for each case about 5,000 nodes; quick: 20 about 100."""
    return asyncio.run(_run(100, 20) if quick else _run(NODES, REQUESTS))


async def _run(nodes: int, requests: int) -> list[Row]:
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        ours = await stack.enter_async_context(_server("ours", nodes))
        echo = await stack.enter_async_context(_server("echo", nodes))
        rows = []
        for claim, what in CASES:
            say(what)
            times = {verb: Times() for verb in VERBS}
            bodies = [request(names, claim) for names in _orders(nodes)]
            for number in range(WARM_UP + requests):
                for verb in VERBS:
                    for url, into in ((ours, times[verb].ours), (echo, times[verb].echo)):
                        seconds = await _call(session, f"{url}/{verb}", bodies[number % LISTS])
                        if number >= WARM_UP:
                            into.append(seconds)
            for verb in VERBS:
                rows += _rows(verb, what, times[verb], nodes, compared=(verb, claim) not in _WORST)
    return rows


def _orders(nodes: int) -> Iterator[Sequence[str]]:
    random = Random(nodes)
    for _ in range(LISTS):
        yield random.sample([f"node-{number}" for number in range(nodes)], nodes)


def request(names: Sequence[str], claim: str) -> bytes:
    """Return ExtenderArgs as kube-scheduler writes them, with a pod of the usual size."""
    return msgspec.json.encode({"Pod": _pod(claim), "Nodes": None, "NodeNames": names})


def _pod(claim: str) -> Document:
    container = {
        "image": "registry.example/app:1",
        "env": [{"name": f"VARIABLE_{number}", "value": "value" * 4} for number in range(20)],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
    return {
        "metadata": {"name": "web-0", "namespace": "default", "uid": "1", "labels": {"app": "web"}},
        "spec": {
            "volumes": [*volumes, {"name": "token", "projected": {"sources": [{"serviceAccountToken": {}}] * 3}}],
            "containers": [{"name": name, **container} for name in ("main", "sidecar")],
            "schedulerName": "default-scheduler",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}] * 2,
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


async def _call(session: aiohttp.ClientSession, url: str, body: bytes) -> float:
    began = perf_counter()
    async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as answer:
        await answer.read()
        answer.raise_for_status()
    return perf_counter() - began


@asynccontextmanager
async def _server(kind: str, nodes: int) -> AsyncIterator[str]:
    command = [sys.executable, "-m", "bench.scheduling.extender_target", kind, str(nodes)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://{LOOPBACK}:{int(await process.stdout.readline())}"
    finally:
        process.stdin.close()
        await process.wait()


def _rows(verb: str, what: str, times: Times, nodes: int, *, compared: bool) -> list[Row]:
    ours, echo = _percentiles(times.ours), _percentiles(times.echo)
    detail = f"p50 {ours[0]:.2f} ms; echo p50 {echo[0]:.2f}, p99 {echo[1]:.2f}; {nodes} nodes, {len(times.ours)} times"
    title = f"{verb}, {what}"
    rows = [Row(f"{title}: p99", ours[1], "ms", detail, at_most=MAX_MS)]
    if compared:
        rows.append(Row(f"{title}: p99 beside the echo's", ours[1] / echo[1], "x", at_most=RATIO))
    return rows


def _percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """Return the 50th and the 99th in milliseconds."""
    cuts = quantiles(seconds, n=100)
    return cuts[49] * 1e3, cuts[98] * 1e3
