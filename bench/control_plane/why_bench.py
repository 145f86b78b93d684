"""(m) `why -A` over 100,000 claims of which 10,000 are pending, read from a real API server: seconds, and memory."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator
from itertools import islice
from typing import Final

import aiohttp

from bench.control_plane.documents import NAMESPACE, Document, claim, pod, volume
from bench.control_plane.stage import Stage, in_parallel, stage
from bench.progress import say
from bench.rows import Row
from devcluster.control_plane.nodes import DEFAULT_ZONES
from kube.objects.api_resource import CLAIMS, PODS, VOLUMES

PENDING: Final = 10_000
BOUND: Final = 90_000
SECONDS: Final = 15.0
_AT_A_TIME: Final = 100
"""Objects in one transaction of etcd, which takes 128."""
_CREATED: Final = "2026-01-01T00:00:00Z"


def run(quick: bool) -> list[Row]:
    """Measure with all of them, and with a tenth of the bound claims: memory does not grow with these."""
    return asyncio.run(_measure(PENDING // 100, BOUND // 100) if quick else _measure(PENDING, BOUND))


async def _measure(pending: int, bound: int) -> list[Row]:
    rows = []
    async with stage(lifted=True) as ready:
        # Nobody is to change what is laid out, and nothing of it needs anybody.
        await ready.cluster.controller_manager.stop()
        await ready.cluster.scheduler.stop()
        await _fill(ready, _waiting(pending))
        laid_out = 0
        for count in (bound // 10, bound):
            await _fill(ready, _settled(laid_out, count))
            laid_out = count
            await _caught_up(ready)
            seconds, peak, summary = await asyncio.to_thread(_run_why, ready)
            say(f"why -A: {pending} of {pending + count} claims pending: {seconds:.1f} s, {peak:.0f} MB, {summary}")
            name = f"{pending:,} of {pending + count:,} claims pending"
            goal = SECONDS if (pending, count) == (PENDING, BOUND) else None
            rows += [Row(name, seconds, "s", summary, at_most=goal), Row(f"{name}: peak memory", peak, "MB")]
    return rows


async def _caught_up(ready: Stage) -> None:
    """Wait until the API server has read what was written behind its back: a list waits for its cache."""
    for resource in (CLAIMS, VOLUMES, PODS):
        await ready.api.list_page(resource, limit=1)


def _run_why(ready: Stage) -> tuple[float, float, str]:
    """Return what the command takes as its own process: seconds, megabytes at the peak, and what it says."""
    command = [sys.executable, "-m", "prebinder.cli", "why", "-A", f"--kubeconfig={ready.cluster.kubeconfig}"]
    with tempfile.TemporaryFile() as out:
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=out)
        _, _, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
        out.seek(0)
        lines = out.read().decode().splitlines()
    summary = "; ".join(" ".join(line.split()[:2]) for line in lines[1:4])
    return seconds, usage.ru_maxrss * 1024 / 1e6, f"{usage.ru_utime + usage.ru_stime:.1f} s of processor; {summary}"


def _waiting(count: int) -> Iterator[tuple[str, Document]]:
    """A third wants a class that is not there, a third is too large, and a third has a pod that no node takes."""
    for number in range(count):
        name = f"pending-{number:06}"
        made = claim(name, gibibytes=100 if number % 3 == 1 else 1)
        if number % 3 == 0:
            made["spec"]["storageClassName"] = "absent"
        yield _key(made), made | {"status": {"phase": "Pending"}}
        if number % 3:
            waiting = pod(name, [name], gated=False)
            waiting["spec"]["schedulerName"] = "default-scheduler"
            waiting["spec"]["nodeSelector"] = {"disk": "ssd"}
            verdict = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            yield _key(waiting), waiting | {"status": {"phase": "Pending", "conditions": [verdict]}}


def _settled(begin: int, end: int) -> Iterator[tuple[str, Document]]:
    """Claims with their volumes, bound for good."""
    for number in range(begin, end):
        name = f"bound-{number:06}"
        owned, owner = volume(name, DEFAULT_ZONES[number % len(DEFAULT_ZONES)]), claim(name)
        owner["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        owner["spec"]["volumeName"] = name
        owned["spec"]["claimRef"] = {"namespace": NAMESPACE, "name": name, "uid": _uid(owner)}
        yield _key(owner), owner | {"status": {"phase": "Bound"}}
        yield _key(owned), owned | {"status": {"phase": "Bound"}}


def _key(document: Document) -> str:
    """Return where the API server keeps the object."""
    plural = {"Pod": "pods", "PersistentVolume": "persistentvolumes"}.get(document["kind"], "persistentvolumeclaims")
    metadata = document["metadata"]
    within = f"{metadata['namespace']}/" if "namespace" in metadata else ""
    return f"/registry/{plural}/{within}{metadata['name']}"


def _uid(document: Document) -> str:
    return f"uid-{document['kind']}-{document['metadata']['name']}"


async def _fill(ready: Stage, objects: Iterator[tuple[str, Document]]) -> None:
    """Write the objects where the API server keeps its own: that many requests would take longer than the rest."""
    flag = "--etcd-servers="
    address = next(each for each in ready.cluster.apiserver.command if each.startswith(flag)).removeprefix(flag)
    async with aiohttp.ClientSession() as session:

        async def put(some: list[tuple[str, Document]]) -> None:
            operations = [{"requestPut": {"key": _base64(key), "value": _base64(_stored(made))}} for key, made in some]
            async with session.post(f"{address}/v3/kv/txn", json={"success": operations}) as answer:
                answer.raise_for_status()

        await in_parallel((put(some) for some in iter(lambda: list(islice(objects, _AT_A_TIME)), [])), at_once=4)


def _stored(made: Document) -> str:
    metadata = {**made["metadata"], "uid": _uid(made), "creationTimestamp": _CREATED}
    return json.dumps({**made, "metadata": metadata})


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()
