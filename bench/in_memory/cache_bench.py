"""(b) How long our controller takes to read a large cluster, how much memory it keeps, and how long it stops for that.

The whole process is measured, its imports included, with the settings it ships with.
"""

import asyncio
import sys

import msgspec

from bench.in_memory.large_cluster import LargeCluster
from bench.in_memory.reader import Report
from bench.progress import say
from bench.rows import Row

PAIRS, NODES = 100_000, 5_000


def run(quick: bool) -> list[Row]:
    """Measure with 100,000 volumes, 100,000 claims and 5,000 nodes; quick: a hundredth of it."""
    pairs, nodes = (PAIRS // 100, NODES // 100) if quick else (PAIRS, NODES)
    return asyncio.run(_run(pairs, nodes))


async def _run(pairs: int, nodes: int) -> list[Row]:
    say(f"making {pairs} volumes, {pairs} claims, {nodes} nodes")
    cluster = LargeCluster(pairs, nodes)
    async with cluster.serving() as url:
        say(f"reading {cluster.megabytes():.0f} MB of JSON")
        report = await _read(url)
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


async def _read(url: str) -> Report:
    command = [sys.executable, "-m", "bench.in_memory.reader", url]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    # The last line: before it the dry run reports what it would reserve.
    return msgspec.json.decode(output.splitlines()[-1], type=Report)
