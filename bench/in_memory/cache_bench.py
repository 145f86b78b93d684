"""(b) How long our controller takes to read a large cluster, how much memory it keeps, and how long it stops for that.

The whole process is measured, its imports included, with the settings it ships with.
"""

import asyncio
import sys
from typing import Final

import msgspec

from bench.in_memory.large_cluster import LargeCluster, with_pools
from bench.in_memory.reader import Report
from bench.progress import say
from bench.rows import Row

PAIRS, NODES = 100_000, 5_000
FLYING: Final = 20_000
"""Claims in flight in as many pools as there are nodes."""
WATCHED_SECONDS, WATCHED_WITH_POOLS = 3.0, 15.0
"""How long it is measured after everything is in memory: until the ledger of pools is built and a pod is planned."""


def run(quick: bool) -> list[Row]:
    """Measure with 100,000 volumes, 100,000 claims and 5,000 nodes, then with 20,000 claims in flight in 5,000 pools;
    quick: a hundredth of it.
    """
    part = 100 if quick else 1
    rows = asyncio.run(_run(PAIRS // part, NODES // part))
    return rows + asyncio.run(_with_pools(NODES // part, FLYING // part))


async def _run(pairs: int, nodes: int) -> list[Row]:
    say(f"making {pairs} volumes, {pairs} claims, {nodes} nodes")
    cluster = LargeCluster(pairs, nodes)
    async with cluster.serving() as url:
        say(f"reading {cluster.megabytes():.0f} MB of JSON")
        report = await _read(url, WATCHED_SECONDS)
    size = f"{pairs} PV + {pairs} PVC + {nodes} nodes"
    return [
        Row("read, decode and index", report.seconds, "s", f"{size}, {cluster.megabytes():.0f} MB of JSON"),
        Row(
            "memory held", report.held_mb, "MB", f"whole process, {report.imported_mb:.0f} MB are imports", at_most=200
        ),
        Row("memory at the peak", report.peak_mb, "MB", "whole process"),
        Row("longest pause of the event loop", report.longest_pause * 1e3, "ms", "collector included", at_most=100),
        Row(
            "longest garbage collection", report.longest_collection * 1e3, "ms", "while reading and after", at_most=100
        ),
        Row("a full collection afterwards", report.full_collection * 1e3, "ms", "with the heap frozen", at_most=100),
    ]


async def _with_pools(pools: int, claims: int) -> list[Row]:
    say(f"making {pools} nodes with a pool each, {claims} claims in flight")
    cluster = with_pools(pools, claims)
    async with cluster.serving() as url:
        report = await _read(url, WATCHED_WITH_POOLS)
    size = f"{claims} PVC in flight in {pools} pools, as many nodes, a pod planned"
    return [
        Row("memory held, with pools", report.held_mb, "MB", size),
        Row("memory at the peak, with pools", report.peak_mb, "MB", "whole process"),
        Row(
            "longest pause of the event loop, with pools",
            report.longest_pause * 1e3,
            "ms",
            f"collector included, whose longest run was {report.longest_collection * 1e3:.0f} ms",
            at_most=100,
        ),
    ]


async def _read(url: str, seconds: float) -> Report:
    command = [sys.executable, "-m", "bench.in_memory.reader", url, str(seconds)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    # The last line: before it the dry run reports what it would reserve.
    return msgspec.json.decode(output.splitlines()[-1], type=Report)
