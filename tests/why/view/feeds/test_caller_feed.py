"""The page behind the caller's own token: each token sees what it may read, and without one nothing is shown."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from kube.client.api import KubeApi
from kube.client.transport import Request, Response, StreamResponse
from kube.clock import SystemClock
from prebinder.metrics.unobserved import Unobserved
from tests.prebinder.view.served_view import Browser, served
from tests.why.view.clusters import small
from tests.why.view.watched_cluster import WatchedCluster, everything
from why.view.feeds.caller_feed import MAX_PAGES, CallerFeed
from why.view.feeds.cluster_feed import Scope

VIEW, WHY = "/api/v1alpha1/view", "/api/v1alpha1/why?kind=pvc&namespace={}&name={}"


class NobodyKnown:
    """What an API server answers to a token that it does not know."""

    async def send(self, request: Request) -> Response:
        return Response(401, b'{"kind":"Status","code":401,"reason":"Unauthorized","message":"Unauthorized"}')

    def stream(self, request: Request) -> "asynccontextmanager[StreamResponse]":  # type: ignore[valid-type]
        raise AssertionError(request)


def shop_only(_plural: str, namespace: str) -> bool:
    return namespace == "shop"


@pytest.fixture
def cluster() -> WatchedCluster:
    return WatchedCluster(small().objects)


@asynccontextmanager
async def page(cluster: WatchedCluster, longest: float = 300.0) -> AsyncIterator[Browser]:
    @asynccontextmanager
    async def connect(token: str) -> AsyncIterator[KubeApi]:
        rights = {"admin": everything, "shop": shop_only}
        known = cluster.as_user(rights[token], token) if token in rights else NobodyKnown()
        yield KubeApi(known)

    async with served(CallerFeed(connect, Scope("test", "", "shop"), SystemClock(), Unobserved(), longest)) as browser:
        yield browser


@pytest.mark.parametrize(
    "header", [{}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer "}, {"Authorization": "Bearer a b"}]
)
@pytest.mark.parametrize("path", [VIEW, "/api/v1alpha1/stream", WHY.format("shop", "data-orders-0")])
async def test_without_a_token_there_is_no_answer(cluster: WatchedCluster, path: str, header: dict[str, str]) -> None:
    async with page(cluster) as browser:
        answer = await browser.get(path, **header)
    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert cluster.requests == []


async def test_a_token_that_the_api_server_does_not_know_gets_nothing(cluster: WatchedCluster) -> None:
    async with page(cluster) as browser:
        for path in (VIEW, WHY.format("shop", "data-orders-0")):
            answer = await browser.get(path, Authorization="Bearer stolen")
            assert answer.status == 401
            assert "does not accept the token" in answer.text


async def test_each_token_sees_what_it_may_read(cluster: WatchedCluster) -> None:
    async with page(cluster) as browser:
        everyone = (await browser.get(VIEW, Authorization="Bearer admin")).document
        document = (await browser.get(VIEW, Authorization="Bearer shop")).document
    assert len(everyone["nodes"]) == 12
    assert document["nodes"] == document["volumes"] == {}
    assert {key.partition("/")[0] for key in document["pods"]} == {"shop"}
    assert {key.split("/")[1] for key in document["pending"]} == {"shop"}
    assert {"resource": "nodes", "because": "forbidden"} in document["unreadable"]


async def test_each_request_is_made_with_the_callers_token(cluster: WatchedCluster) -> None:
    async with page(cluster) as browser:
        await browser.get(VIEW, Authorization="Bearer admin")
        assert {token for token, _ in cluster.requests} == {"admin"}
        cluster.requests.clear()
        answer = await browser.get(WHY.format("data", "archive"), Authorization="Bearer shop")
        assert {token for token, _ in cluster.requests} == {"shop"}
    assert answer.status == 403


async def test_pages_have_a_limit_and_leave_nothing_open(cluster: WatchedCluster) -> None:
    async with page(cluster) as browser:
        async with AsyncExitStack() as pages:
            for _ in range(MAX_PAGES):
                events = await pages.enter_async_context(browser.stream(Authorization="Bearer admin"))
                await anext(events)
            answer = await browser.get(VIEW, Authorization="Bearer admin")
            assert (answer.status, answer.headers["Retry-After"]) == (503, "30")
            assert f"{MAX_PAGES} pages are open" in answer.text
        # A page that is closed makes room as soon as the server has noticed.
        while (await browser.get(VIEW, Authorization="Bearer admin")).status == 503:
            pass
    assert cluster.streams == 0


async def test_a_page_ends_so_that_its_token_is_judged_again(cluster: WatchedCluster) -> None:
    async with page(cluster, longest=0.2) as browser, browser.stream(Authorization="Bearer admin") as events:
        names = [name async for name, _ in events]
    assert names[0] == "view"
