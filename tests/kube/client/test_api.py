import asyncio
import inspect
import json
import re
from pathlib import Path

import msgspec
import pytest

import kube
from kube.client.api import KubeApi
from kube.client.rate_limit import RateLimit
from kube.client.transport import Request, Response
from kube.errors import Conflict, Expired, KubeError, LeadershipLost, Throttled, Unavailable
from kube.objects.api_resource import CLAIMS, LEASES, PODS, VOLUMES, Resource
from tests.fake_clock import FakeClock, settle
from tests.kube.counted import CountedRequests
from tests.kube.scripted_transport import Answer, ScriptedTransport, answer, event, failure, listing, query, thing


def name_of(raw: bytes) -> str:
    return str(msgspec.json.decode(raw)["metadata"]["name"])


@pytest.mark.parametrize(
    ("resource", "arguments", "path"),
    [
        pytest.param(VOLUMES, (), "/api/v1/persistentvolumes", id="cluster-scoped collection"),
        pytest.param(VOLUMES, ("", "a"), "/api/v1/persistentvolumes/a", id="cluster-scoped object"),
        pytest.param(VOLUMES, ("ns", "a", "status"), "/api/v1/persistentvolumes/a/status", id="no namespace in path"),
        pytest.param(CLAIMS, (), "/api/v1/persistentvolumeclaims", id="all namespaces"),
        pytest.param(PODS, ("ns", "p"), "/api/v1/namespaces/ns/pods/p", id="namespaced object"),
        pytest.param(LEASES, ("ns",), "/apis/coordination.k8s.io/v1/namespaces/ns/leases", id="group"),
    ],
)
def test_paths(resource: Resource, arguments: tuple[str, ...], path: str) -> None:
    assert resource.path(*arguments) == path


async def test_pages_are_joined_and_the_last_version_kept() -> None:
    def respond(request: Request) -> Response:
        if query(request, "continue") == "":
            return answer(200, listing(5, thing("a", 1), thing("b", 2), following="more"))
        return answer(200, listing(5, thing("c", 3)))

    transport = ScriptedTransport(respond)
    page = await KubeApi(transport).list_all(VOLUMES, name_of, limit=2)
    assert (page.items, page.resource_version) == (["a", "b", "c"], "5")
    assert [query(request, "limit") for request in transport.requests] == ["2", "2"]


async def test_a_null_item_list_is_empty() -> None:
    transport = ScriptedTransport(lambda _: answer(200, {"metadata": {"resourceVersion": "9"}, "items": None}))
    assert (await KubeApi(transport).list_all(VOLUMES, name_of)).items == []


async def test_an_expired_continue_token_starts_the_list_once_more() -> None:
    answers = iter(
        [
            answer(200, listing(5, thing("old", 1), following="more")),
            answer(410, failure(410, "Expired")),
            answer(200, listing(8, thing("new", 7))),
        ]
    )
    page = await KubeApi(ScriptedTransport(lambda _: next(answers))).list_all(VOLUMES, name_of)
    assert (page.items, page.resource_version) == (["new"], "8")


async def test_a_list_that_expires_twice_is_an_error() -> None:
    def respond(request: Request) -> Response:
        if query(request, "continue"):
            return answer(410, failure(410, "Expired"))
        return answer(200, listing(5, thing("a", 1), following="more"))

    transport = ScriptedTransport(respond)
    with pytest.raises(Expired):
        await KubeApi(transport).list_all(VOLUMES, name_of)
    assert len(transport.requests) == 4


@pytest.mark.parametrize("body", [b"<html>", b"", b'{"metadata":{"name":"a"', b"[]", b'{"items":[]}'], ids=repr)
async def test_success_that_is_not_json_of_the_api_is_unavailable(body: bytes) -> None:
    api = KubeApi(ScriptedTransport(lambda _: answer(200, body)))
    with pytest.raises(Unavailable) as caught:
        await api.list_all(VOLUMES, name_of)
    assert ("or of a proxy in front of it?" in str(caught.value)) is not body.startswith(b"{")


async def test_conditional_patch_carries_its_preconditions() -> None:
    transport = ScriptedTransport(lambda _: answer(200, thing("a", 8)))
    body = {"metadata": {"annotations": {"k": "v"}}, "spec": {"volumeName": "a"}}
    stored = await KubeApi(transport).conditional_patch(
        CLAIMS, "c", body, namespace="ns", resource_version=7, uid="u", subresource="status"
    )
    (sent,) = transport.requests
    assert json.loads(sent.body or b"") == {
        "metadata": {"annotations": {"k": "v"}, "resourceVersion": "7", "uid": "u"},
        "spec": {"volumeName": "a"},
    }
    assert (sent.method, sent.path) == ("PATCH", "/api/v1/namespaces/ns/persistentvolumeclaims/c/status")
    assert sent.content_type == "application/merge-patch+json"
    assert name_of(stored) == "a"


@pytest.mark.parametrize("version", ["", 0])
async def test_a_patch_without_a_version_cannot_be_sent(version: str | int) -> None:
    transport = ScriptedTransport(lambda _: answer(200, thing("a", 8)))
    with pytest.raises(ValueError, match="resource version"):
        await KubeApi(transport).conditional_patch(VOLUMES, "a", {}, resource_version=version)
    assert transport.requests == []


@pytest.mark.parametrize(("status", "expected"), [(409, Conflict), (429, Throttled)])
async def test_rejected_write_raises_its_error(status: int, expected: type[KubeError]) -> None:
    api = KubeApi(ScriptedTransport(lambda _: answer(status, failure(status, "Any"))))
    with pytest.raises(expected):
        await api.conditional_patch(VOLUMES, "a", {}, resource_version=7)


async def test_watch_passes_events_and_skips_empty_lines() -> None:
    steps = [event("ADDED", thing("a", 6)), b"", event("BOOKMARK", thing("", 9))]
    transport = ScriptedTransport(lambda _: answer(500, b""), lambda _: (200, steps))
    async with KubeApi(transport).watch(PODS, "5", timeout_seconds=240, silence=9.0) as events:
        assert [event.type async for event in events] == ["ADDED", "BOOKMARK"]
    (request,) = transport.requests
    assert dict(request.query) == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "240",
    }
    assert request.timeout == 9.0


@pytest.mark.parametrize(
    ("status", "line", "expected"),
    [
        pytest.param(410, json.dumps(failure(410, "Expired")).encode(), Expired, id="410 as status"),
        pytest.param(200, event("ERROR", failure(410, "Expired")), Expired, id="410 in stream"),
        pytest.param(200, event("ERROR", failure(500, "InternalError")), Unavailable, id="500 in stream"),
        pytest.param(500, json.dumps(failure(500, "InternalError")).encode(), Unavailable, id="500"),
        pytest.param(502, b"<html>Bad Gateway</html>", Unavailable, id="502 with HTML"),
        pytest.param(200, b"<html>Bad Gateway</html>", Unavailable, id="HTML as success"),
        pytest.param(200, b'{"type":"ADDED","object":{"meta', Unavailable, id="truncated line"),
        pytest.param(200, b'{"type":"ADDED"}', Unavailable, id="no object"),
    ],
)
async def test_watch_faults_have_their_errors(status: int, line: bytes, expected: type[KubeError]) -> None:
    transport = ScriptedTransport(lambda _: answer(500, b""), lambda _: (status, [line]))

    async def watch() -> None:
        async with KubeApi(transport).watch(PODS, "5", timeout_seconds=240, silence=9.0) as events:
            async for _ in events:
                pass

    with pytest.raises(expected):
        await watch()


async def test_a_part_of_a_kind_is_listed_and_watched_by_its_selector() -> None:
    transport = ScriptedTransport(lambda _: answer(200, listing(5)), lambda _: (200, []))
    waiting = PODS.selected("waiting", "spec.nodeName=")
    await KubeApi(transport).list_all(waiting, name_of)
    async with KubeApi(transport).watch(waiting, "5", timeout_seconds=240, silence=9.0) as events:
        assert [event async for event in events] == []
    assert [query(request, "fieldSelector") for request in transport.requests] == ["spec.nodeName="] * 2
    assert {request.path for request in transport.requests} == {PODS.path()}
    assert (waiting.label, PODS.label) == ("pods/waiting", "pods")


async def test_an_object_is_posted_to_a_subresource() -> None:
    transport = ScriptedTransport(lambda _: answer(201, {"kind": "Status"}))
    await KubeApi(transport).create(PODS, {"kind": "Binding"}, "ns", name="p", subresource="binding")
    (request,) = transport.requests
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/ns/pods/p/binding")


@pytest.mark.parametrize(
    ("given", "code"),
    [(answer(200, {}), "200"), (answer(409, {}), "409"), (Unavailable("GET", "/", 0, "x", "y"), "<error>")],
    ids=["200", "409", "no answer"],
)
async def test_every_answer_is_counted(given: Answer, code: str) -> None:
    requests = CountedRequests()
    rate = RateLimit(FakeClock(), requests, qps=10.0, burst=5)
    await asyncio.gather(
        KubeApi(ScriptedTransport(lambda _: given), rate=rate).get(VOLUMES, "a"), return_exceptions=True
    )
    assert requests.done == {("GET", code): 1}


async def test_a_watch_is_counted_when_it_starts() -> None:
    requests = CountedRequests()
    wire = ScriptedTransport(lambda _: answer(500, b""), lambda _: (200, []))
    api = KubeApi(wire, rate=RateLimit(FakeClock(), requests, qps=10.0, burst=5))
    async with api.watch(VOLUMES, "5", timeout_seconds=240, silence=9.0):
        assert requests.done == {("WATCH", "200"): 1}


async def test_requests_and_watches_wait_for_their_token() -> None:
    clock = FakeClock()
    wire = ScriptedTransport(lambda _: answer(200, {}), lambda _: (200, []))
    api = KubeApi(wire, rate=RateLimit(clock, CountedRequests(), qps=1.0, burst=1))

    async def watch() -> None:
        async with api.watch(VOLUMES, "5", timeout_seconds=240, silence=9.0):
            return

    tasks = [asyncio.ensure_future(work) for work in (api.get(VOLUMES, "a"), watch(), api.get(VOLUMES, "b"))]
    for sent in (1, 2, 3):
        await settle()
        assert len(wire.requests) == sent
        await clock.advance(1.0)
    await asyncio.gather(*tasks)


async def test_the_fence_is_called_after_the_wait_for_a_token() -> None:
    """The term may end while a write waits: what was allowed before the wait says nothing about now."""
    clock, over = FakeClock(), list[bool]()
    wire = ScriptedTransport(lambda _: answer(200, thing("a", 2)))

    def fence(request: Request) -> Request:
        if over:
            raise LeadershipLost("the term is over")
        return request

    api = KubeApi(wire, rate=RateLimit(clock, CountedRequests(), qps=1.0, burst=1), fence=fence)
    await api.conditional_patch(VOLUMES, "a", {}, resource_version=1)
    waiting = asyncio.ensure_future(api.conditional_patch(VOLUMES, "a", {}, resource_version=2))
    await settle()
    over.append(True)
    await clock.advance(1.0)
    with pytest.raises(LeadershipLost):
        await waiting
    assert len(wire.requests) == 1


def test_nothing_can_be_deleted_or_written_unconditionally() -> None:
    verbs = {name for name, _ in inspect.getmembers(KubeApi, inspect.isfunction) if not name.startswith("_")}
    assert verbs == {"list_page", "list_all", "watch", "get", "create", "conditional_patch"}
    sources = "".join(path.read_text() for path in Path(kube.__file__).parent.rglob("*.py"))
    assert set(re.findall(r'Request\(\s*"(\w+)"', sources)) == {"GET", "POST", "PATCH"}
