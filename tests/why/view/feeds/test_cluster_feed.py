"""A view that follows a cluster: what changes, what may not be read, and what happens without an answer."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from kube.client.api import KubeApi
from kube.clock import SystemClock
from prebinder.metrics.unobserved import Unobserved
from tests.prebinder.view.served_view import Browser, served
from tests.why.view.clusters import Cluster, small
from tests.why.view.watched_cluster import May, WatchedCluster, everything
from why.view.feeds.cluster_feed import ClusterFeed, Scope


@asynccontextmanager
async def following(
    cluster: WatchedCluster, may: May = everything, namespace: str = "", heartbeat: float = 10.0
) -> AsyncIterator[tuple[Browser, "Page"]]:
    scope = Scope("test", namespace, "shop")
    feed = ClusterFeed(KubeApi(cluster.as_user(may)), scope, SystemClock(), Unobserved(), heartbeat)
    async with feed.open(), served(feed) as browser, browser.stream() as events:
        yield browser, Page(events)


class Page:
    """What a page knows: the view, and all changes after it."""

    def __init__(self, events: AsyncIterator[tuple[str, Any]]) -> None:
        self._events = events
        self._view: dict[str, Any] = {}

    async def until(self, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the view once it is as expected."""
        while not (self._view and done(self._view)):
            name, data = await anext(self._events)
            if name == "view":
                self._view = data
            else:
                self._take(data)
        return self._view

    def _take(self, change: dict[str, Any]) -> None:
        for table in ("volumes", "nodes", "classes", "pending", "pods"):
            self._view[table] |= change.get(table, {})
            for key in change.get("gone", {}).get(table, ()):
                del self._view[table][key]
        self._view |= {key: change[key] for key in ("at", "stale", "unreadable")}


async def test_a_change_arrives() -> None:
    cluster = WatchedCluster(small().objects)
    async with following(cluster) as (_, page):
        await page.until(lambda view: len(view["nodes"]) == 12)
        more = Cluster()
        more.volume("pv-new", "us-east-1a", "static")
        more.node("ip-10-0-9-9", "us-east-1d")
        for document in more.objects:
            cluster.put(document)
        cluster.remove("PersistentVolume", "pv-free-a00")
        view = await page.until(lambda view: "pv-new" in view["volumes"] and "ip-10-0-9-9" in view["nodes"])
    assert "pv-free-a00" not in view["volumes"]
    assert view["classes"]["us-east-1a/static"]["volumes"] == 11


async def test_causes_come_with_the_view_and_go_with_them() -> None:
    cluster = WatchedCluster(small().objects)
    async with following(cluster) as (_, page):
        known = await page.until(lambda view: "code" in view["pending"].get("pvc/ml/scratch-0", {}))
        assert known["pending"]["pvc/ml/scratch-0"]["code"] == "StorageClassNotFound"
        more = Cluster()
        more.storage_class("gold", "disk.csi.example")
        cluster.put(more.objects[0])
        await page.until(lambda view: view["pending"]["pvc/ml/scratch-0"].get("code") != "StorageClassNotFound")
        cluster.remove("PersistentVolumeClaim", "ml/scratch-0")
        await page.until(lambda view: "pvc/ml/scratch-0" not in view["pending"])


async def test_an_answer_is_read_again() -> None:
    cluster = WatchedCluster(small().objects)
    async with following(cluster) as (browser, _):
        answer = await browser.get("/api/v1alpha1/why?kind=pvc&namespace=data&name=archive")
        assert "StaticOnlyNoMatch" in answer.document["text"]
        cluster.remove("PersistentVolumeClaim", "data/archive")
        assert (await browser.get("/api/v1alpha1/why?kind=pvc&namespace=data&name=archive")).status == 404


async def test_what_may_not_be_read_everywhere_is_read_in_the_own_namespace() -> None:
    def may(plural: str, namespace: str) -> bool:
        cluster_scoped = {"storageclasses", "persistentvolumes", "nodes"}
        return plural in cluster_scoped or namespace == "shop"

    async with following(WatchedCluster(small().objects), may) as (_, page):
        view = await page.until(lambda view: bool(view["pods"]))
    assert {key.partition("/")[0] for key in view["pods"]} == {"shop"}
    unreadable = {each["resource"]: each["because"] for each in view["unreadable"]}
    assert unreadable["pods"] == "only namespace shop may be read"
    assert unreadable["volumeattachments"] == "forbidden"
    assert "nodes" not in unreadable


async def test_one_namespace_is_shown_alone() -> None:
    cluster = WatchedCluster(small().objects)
    async with following(cluster, namespace="web") as (_, page):
        view = await page.until(lambda view: bool(view["pods"]))
    assert {key.partition("/")[0] for key in view["pods"]} == {"web"}
    read = {path for _, path in cluster.requests if path.endswith("persistentvolumeclaims")}
    assert read == {"/api/v1/namespaces/web/persistentvolumeclaims"}


async def test_silence_of_the_server_shows() -> None:
    cluster = WatchedCluster(small().objects)
    async with following(cluster, heartbeat=0.05) as (_, page):
        await page.until(lambda view: view["stale"] is None)
        cluster.down = True
        await page.until(lambda view: view["stale"] is not None)
        cluster.down = False
        await page.until(lambda view: view["stale"] is None)


async def test_nothing_stays_open_when_it_ends() -> None:
    cluster = WatchedCluster(small().objects)
    async with following(cluster) as (_, page):
        await page.until(lambda view: bool(view["nodes"]))
        assert cluster.streams > 5
    assert cluster.streams == 0
