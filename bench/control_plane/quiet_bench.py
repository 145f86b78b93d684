"""(e) The controller's requests to the API server when nothing happens, by the API server's own audit log."""

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from bench.control_plane.audit import READING, Request, entries
from bench.control_plane.documents import claim, pod, volume
from bench.control_plane.stage import stage
from bench.control_plane.timeline import Timeline
from bench.progress import say
from bench.rows import Row
from devcluster.control_plane.nodes import DEFAULT_ZONES
from kube.objects.api_resource import CLAIMS, LEASES, PODS

PAIRS: Final = 100
SETTLE_SECONDS: Final = 30.0
"""After the last bind: Events are still being sent."""
SECONDS: Final = 300.0


def run(quick: bool) -> list[Row]:
    """Count for five minutes with 100 bound pairs, as many Available volumes and some pending claims; quick: 5 s."""
    return asyncio.run(
        count_requests(PAIRS // 10, 1.0, 5.0) if quick else count_requests(PAIRS, SETTLE_SECONDS, SECONDS)
    )


async def count_requests(pairs: int, settling: float, seconds: float) -> list[Row]:
    """Bind so many pairs, wait for so many seconds, and count for `seconds`."""
    with tempfile.TemporaryDirectory() as directory:
        audit = Path(directory) / "audit.log"
        async with stage(lifted=True, pods=pairs, audit=audit) as ready:
            zones = DEFAULT_ZONES
            await ready.add_volumes([volume(f"volume-{n:04}", zones[n % len(zones)]) for n in range(2 * pairs)])
            await ready.start_controller("complete")
            timeline = Timeline(ready.api)
            async with timeline.following():
                await ready.create_all(CLAIMS, [claim(f"claim-{n:04}") for n in range(pairs + 10)])
                await ready.create_all(PODS, [_pod(n) for n in range(pairs)])
                await timeline.until(lambda seen: len(seen.bound) == len(seen.placed) == pairs, 120)
            await asyncio.sleep(settling)
            say(f"quiet cluster: counting requests for {seconds:.0f} s")
            before = len(entries(audit))
            await asyncio.sleep(seconds)
            seen = entries(audit)[before:]
    return _rows(seen, seconds, pairs)


def _pod(number: int) -> dict[str, object]:
    return pod(f"pod-{number:04}", [f"claim-{number:04}"], gated=True)


def _rows(seen: list[Request], seconds: float, pairs: int) -> list[Row]:
    minutes = seconds / 60
    writes = [entry for entry in seen if entry.verb not in READING]
    renewals = [entry for entry in writes if entry.request.resource == LEASES.plural]
    others = Counter(f"{entry.verb} {entry.request.resource}" for entry in seen if entry not in renewals)
    details = ", ".join(f"{count} {what}" for what, count in others.most_common())
    return [
        Row("writes but for the Lease", (len(writes) - len(renewals)) / minutes, "1/min", f"{pairs} pairs", at_most=0),
        Row("renewals of the Lease", len(renewals) / minutes, "1/min", "every 2 s"),
        Row(
            "requests in total",
            len(seen) / seconds,
            "1/s",
            f"in {seconds:.0f} s without renewals: {details}",
            at_most=1,
        ),
    ]
