"""How soon the page of `why --serve` shows a large cluster, and a change in it: in a real Chromium, from a fake server.

`python -m bench.view [NODES VOLUMES]` needs a Chromium. Times are the browser's own, from the moment at which the page
is opened, or the object changed on the server; the lists of a real API server come on top when the command starts.
"""

import asyncio
import statistics
import sys
import time
from typing import Any

from playwright.async_api import Page

from kube.client.api import KubeApi
from kube.clock import SystemClock
from prebinder.metrics.unobserved import Unobserved
from tests.prebinder.view.chromium import launched, opened
from tests.prebinder.view.served_view import served
from tests.why.view.clusters import Cluster, many
from tests.why.view.watched_cluster import WatchedCluster
from why.view.feeds.cluster_feed import ClusterFeed, Scope
from why.view.feeds.publisher import Caller

ROUNDS = 10

PAINTED = """() => new Promise((done) => {
    const painted = () => requestAnimationFrame(() => done(performance.now()));
    const look = () => document.querySelector('button.cell') ? painted() : setTimeout(look, 5);
    look();
})"""
SEEN = """(name) => new Promise((done) => {
    const wanted = `button.cell[data-volume="${name}"]`;
    const look = () => document.querySelector(wanted) ? done(Date.now()) : setTimeout(look, 5);
    look();
})"""


async def measure(nodes: int, volumes: int) -> dict[str, Any]:
    """Return seconds: until volumes are painted, and until a change is; medians and the worst of several."""
    cluster = WatchedCluster(many(nodes, volumes).objects)
    began = time.perf_counter()
    feed = ClusterFeed(KubeApi(cluster.as_user()), Scope("bench"), SystemClock(), Unobserved())
    paints, changes = [], []
    async with launched() as browser, feed.open(), served(feed) as server:
        async with feed.following(Caller()) as messages:
            await anext(messages)
        ready = time.perf_counter() - began
        for _ in range(ROUNDS):
            async with opened(browser, server.url) as page:
                paints.append(await page.evaluate(PAINTED) / 1000)
        async with opened(browser, server.url) as page:
            await page.evaluate(PAINTED)
            await page.evaluate("document.getElementById('map').scrollTop = 0")
            for number in range(ROUNDS):
                changes.append(await _change(cluster, page, number))
    return {
        "nodes": nodes,
        "volumes": volumes,
        "ready_s": round(ready, 2),
        "paint_median_s": round(statistics.median(paints), 2),
        "paint_worst_s": round(max(paints), 2),
        "change_median_s": round(statistics.median(changes), 2),
        "change_worst_s": round(max(changes), 2),
    }


async def _change(cluster: WatchedCluster, page: Page, number: int) -> float:
    more = Cluster()
    # Degraded volumes come first in their group, so it is in sight.
    more.volume(f"changed-{number}", "zone-0", health="Degraded")
    seen = asyncio.create_task(page.evaluate(SEEN, f"changed-{number}"))
    await asyncio.sleep(0.5)
    changed = time.time()
    cluster.put(more.objects[0])
    return float(await seen) / 1000 - changed


if __name__ == "__main__":
    sizes = [int(text) for text in sys.argv[1:3]] or [1000, 20_000]
    print(asyncio.run(measure(*sizes)))
