"""The real transport against a real HTTP server that misbehaves."""

import asyncio
import ssl
import sys
import traceback
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from devcluster.credentials.certificates import Authority
from kube.client.api import KubeApi
from kube.client.connect import MAX_LINE_BYTES, REQUESTS_AT_ONCE, LineTooLong, connect, split_lines
from kube.client.credentials import REJECTED_SECONDS
from kube.client.transport import Request
from kube.errors import Expired, KubeError, Unavailable
from kube.objects.api_resource import VOLUMES
from tests.fake_clock import FakeClock
from tests.kube.scripted_server import connected, kubeconfig, reset, serving, streamed
from tests.kube.scripted_transport import event, failure, thing


async def collect(api: KubeApi, silence: float = 20.0) -> list[str]:
    """Watch until the stream ends by itself and return the event types."""
    types: list[str] = []
    async with api.watch(VOLUMES, "1", timeout_seconds=240, silence=silence) as events:
        async for item in events:
            types.append(item.type)
    return types


async def test_request_arrives_as_it_was_meant(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.json_response({"got": (await request.read()).decode()}, headers={"Retry-After": "3"})

    async with connected(tmp_path, handler) as (transport, server):
        response = await transport.send(
            Request("PATCH", "/api/v1/x", (("fieldSelector", "a=b"),), b"{}", "application/merge-patch+json")
        )
        (came,) = server.requests
        assert (came.method, came.path_qs) == ("PATCH", "/api/v1/x?fieldSelector=a%3Db")
        assert came.headers["Authorization"] == "Bearer secret"
        assert came.headers["Content-Type"] == "application/merge-patch+json"
        assert came.headers["User-Agent"].startswith("pvc-prebinder/")
        assert response.body == b'{"got": "{}"}'
        assert response.headers["retry-after"] == "3"


async def test_a_path_stays_quoted_as_it_is_behind_the_path_of_the_server(tmp_path: Path) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.json_response({})

    async with serving(handler) as server:
        path = kubeconfig(tmp_path, f"{server.url}/k8s/clusters/c-1")
        async with await connect(path) as transport:
            await transport.send(Request("GET", "/api/v1/x/a%2Fb+%25c", (("continue", "a/b+c=&d"),)))
        (came,) = server.requests
        assert came.raw_path == "/k8s/clusters/c-1/api/v1/x/a%2Fb+%25c?continue=a/b%2Bc%3D%26d"


async def test_a_stream_is_read_line_by_line_and_a_clean_end_is_an_end(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        whole = event("ADDED", thing("a", 2)) + b"\n" + event("MODIFIED", thing("a", 3)) + b"\n"
        return await streamed(request, whole[:30], whole[30:90], whole[90:])

    async with connected(tmp_path, handler) as (transport, _):
        assert await collect(KubeApi(transport)) == ["ADDED", "MODIFIED"]


async def test_objects_with_megabytes_of_annotations_pass(tmp_path: Path) -> None:
    large = thing("a", 2)
    large["metadata"]["annotations"] = {"k": "x" * 5_000_000}

    async def handler(request: web.Request) -> web.StreamResponse:
        return await streamed(request, event("ADDED", large) + b"\n" + event("ADDED", thing("b", 3)) + b"\n")

    async with connected(tmp_path, handler) as (transport, _):
        assert await collect(KubeApi(transport)) == ["ADDED", "ADDED"]


async def closes_at_once(request: web.Request) -> web.StreamResponse:
    reset(request)
    return web.Response()


async def resets_mid_stream(request: web.Request) -> web.StreamResponse:
    response = await streamed(request, event("ADDED", thing("a", 2)) + b"\n")
    reset(request)
    return response


async def truncates(request: web.Request) -> web.StreamResponse:
    return await streamed(request, event("ADDED", thing("a", 2)) + b'\n{"type":"MOD')


async def bad_gateway(request: web.Request) -> web.StreamResponse:
    return web.Response(status=502, text="<html>Bad Gateway</html>")


async def html(request: web.Request) -> web.StreamResponse:
    return web.Response(text="<html>\n<body>Welcome</body>\n</html>")


async def gone(request: web.Request) -> web.StreamResponse:
    return web.json_response(failure(410, "Expired"), status=410)


async def redirects(request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("http://127.0.0.1:9/")


async def silent(request: web.Request) -> web.StreamResponse:
    response = await streamed(request, event("ADDED", thing("a", 2)) + b"\n")
    await asyncio.sleep(60)
    return response


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (closes_at_once, Unavailable),
        (resets_mid_stream, Unavailable),
        (truncates, Unavailable),
        (bad_gateway, Unavailable),
        (html, Unavailable),
        (redirects, Unavailable),
        (gone, Expired),
        (silent, Unavailable),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_every_fault_of_a_stream_is_one_of_our_errors(
    tmp_path: Path, handler: object, expected: type[KubeError]
) -> None:
    async with connected(tmp_path, handler) as (transport, _):  # type: ignore[arg-type]
        with pytest.raises(expected):
            await collect(KubeApi(transport), silence=0.3)


async def test_a_request_without_an_answer_ends_at_its_timeout(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    async with connected(tmp_path, handler) as (transport, server):
        with pytest.raises(Unavailable) as caught:
            await transport.send(Request("GET", "/version", timeout=0.2))
        assert server.url in str(caught.value)


async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A proxy that takes connections and answers none."""
    await reader.read()
    writer.close()


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_silent_proxy_blocks_neither_a_watch_nor_a_request_for_ever(tmp_path: Path, scheme: str) -> None:
    proxy = await asyncio.start_server(says_nothing, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    path = kubeconfig(tmp_path, "https://api.example:6443", cluster={"proxy-url": f"{scheme}://127.0.0.1:{port}"})
    async with proxy, await connect(path, connect_seconds=0.05) as transport, asyncio.timeout(60):
        with pytest.raises(Unavailable):
            await collect(KubeApi(transport), silence=100)
        with pytest.raises(Unavailable):
            await transport.send(Request("GET", "/version", timeout=100))


@pytest.mark.parametrize("listening", [True, False])
async def test_a_proxys_password_is_sent_to_it_and_never_shown(tmp_path: Path, listening: bool) -> None:
    heads: list[bytes] = []

    async def rejects(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        await reader.read()
        writer.close()

    proxy = await asyncio.start_server(rejects, "127.0.0.1", 0)
    address = f"http://user:s3cret@127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
    if not listening:
        proxy.close()
        await proxy.wait_closed()
    path = kubeconfig(tmp_path, "https://api.example:6443", cluster={"proxy-url": address})
    async with await connect(path) as transport:
        with pytest.raises(Unavailable) as caught:
            await transport.send(Request("GET", "/version"))
    proxy.close()
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert "s3cret" not in shown
    assert "dXNlcjpzM2NyZXQ=" not in shown
    assert [b"Proxy-Authorization: Basic dXNlcjpzM2NyZXQ=" in head for head in heads] == [True] * listening


async def test_urgent_requests_do_not_wait_behind_any_number_of_others(tmp_path: Path) -> None:
    released, under_way, busy = asyncio.Event(), 0, asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        nonlocal under_way
        if request.method == "PATCH":
            under_way += 1
            if under_way == REQUESTS_AT_ONCE:
                busy.set()
            await released.wait()
        return web.json_response({})

    async with connected(tmp_path, handler) as (transport, server), asyncio.timeout(60):
        patches = [
            asyncio.ensure_future(transport.send(Request("PATCH", f"/pv-{number}", timeout=120)))
            for number in range(2 * REQUESTS_AT_ONCE)
        ]
        await busy.wait()
        async with transport.stream(Request("GET", "/watch")) as watch:
            assert watch.status == 200
        await KubeApi(transport, urgent=True).get(VOLUMES, "lease")
        assert under_way == REQUESTS_AT_ONCE
        assert not any(patch.done() for patch in patches)
        released.set()
        assert {answer.status for answer in await asyncio.gather(*patches)} == {200}
        assert len(server.requests) == 2 * REQUESTS_AT_ONCE + 2


async def test_a_rejected_connection_names_host_path_and_next_step(tmp_path: Path) -> None:
    async with serving(html) as server:
        path = kubeconfig(tmp_path, server.url)
    async with await connect(path) as transport:
        with pytest.raises(Unavailable) as caught:
            await transport.send(Request("GET", "/version"))
    text = str(caught.value)
    assert server.url in text
    assert path in text
    assert "is the API server running" in text


async def test_a_host_that_cannot_be_resolved_is_named_without_the_librarys_objects(tmp_path: Path) -> None:
    async with await connect(kubeconfig(tmp_path, "https://no-such-host.invalid:6443")) as transport:
        with pytest.raises(Unavailable, match=r"no-such-host.invalid:6443: [A-Z][a-z ]+; is the API server") as caught:
            await transport.send(Request("GET", "/version"))
    assert "object at" not in str(caught.value)


async def test_a_certificate_of_an_unknown_authority_names_the_kubeconfig(tmp_path: Path) -> None:
    pair = Authority(tmp_path, datetime.now(UTC)).serving("somebody")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    async with serving(html, context) as server:
        path = kubeconfig(tmp_path, server.url)
        async with await connect(path) as transport:
            with pytest.raises(Unavailable) as caught:
                await transport.send(Request("GET", "/version"))
    assert f"does the certificate authority in kubeconfig {path} match this server?" in str(caught.value)


async def test_leaving_a_watch_early_closes_its_connection(tmp_path: Path) -> None:
    closed = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        response = await streamed(request, event("ADDED", thing("a", 2)) + b"\n")
        try:
            while True:
                await response.write(event("BOOKMARK", thing("", 3)) + b"\n")
                await asyncio.sleep(0.01)
        except (ConnectionError, asyncio.CancelledError):
            closed.set()
            raise

    async with connected(tmp_path, handler) as (transport, _):
        async with KubeApi(transport).watch(VOLUMES, "1", timeout_seconds=240, silence=20) as events:
            assert (await anext(events)).type == "ADDED"
        await asyncio.wait_for(closed.wait(), 10)


async def test_an_exec_plugins_token_is_used_and_refreshed(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        "import json, pathlib\n"
        f"calls = pathlib.Path({str(tmp_path / 'calls')!r})\n"
        "n = int(calls.read_text()) + 1 if calls.exists() else 1\n"
        "calls.write_text(str(n))\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',\n"
        "  'status': {'token': f'token-{n}', 'expirationTimestamp': '2020-01-01T00:00:00Z'}}))\n"
    )
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(plugin)],
            "interactiveMode": "Never",
        }
    }
    clock = FakeClock()
    async with connected(tmp_path, html, clock, user) as (transport, server):
        for wait in (0, 30, 31):
            clock.jump(wait)
            await transport.send(Request("GET", "/version"))
        assert [came.headers["Authorization"] for came in server.requests] == [
            "Bearer token-1",
            "Bearer token-1",
            "Bearer token-2",
        ]


async def test_a_rejected_token_is_read_again_for_the_next_request(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    clock = FakeClock()

    async def reject(request: web.Request) -> web.StreamResponse:
        return web.Response(status=200 if request.headers["Authorization"] == "Bearer two" else 401)

    async with connected(tmp_path, reject, clock, {"tokenFile": str(token), "as": "jane"}) as (transport, server):
        clock.jump(REJECTED_SECONDS)
        assert (await transport.send(Request("GET", "/version"))).status == 401
        token.write_text("two\n")
        assert (await transport.send(Request("GET", "/version"))).status == 200
        assert {came.headers["Impersonate-User"] for came in server.requests} == {"jane"}


async def test_a_proxy_that_does_not_answer_is_named(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "https://api.example:6443", cluster={"proxy-url": "http://u:s3cret@127.0.0.1:9"})
    async with await connect(path) as transport:
        with pytest.raises(Unavailable, match=r"is the proxy http://127\.0\.0\.1:9 running\?") as caught:
            await transport.send(Request("GET", "/version"))
    assert "s3cret" not in str(caught.value)


async def test_a_rotated_token_file_is_read_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    clock = FakeClock()
    async with connected(tmp_path, html, clock, {"tokenFile": str(token)}) as (transport, server):
        await transport.send(Request("GET", "/version"))
        token.write_text("two\n")
        clock.jump(61)
        await transport.send(Request("GET", "/version"))
        assert [came.headers["Authorization"] for came in server.requests] == ["Bearer one", "Bearer two"]


async def chunked(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def split(chunks: list[bytes]) -> list[bytes]:
    return [line async for line in split_lines(chunked(chunks))]


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([b"a\nb\n"], [b"a", b"b"], id="two in one"),
        pytest.param([b"a", b"", b"b", b"\n"], [b"ab"], id="one in many"),
        pytest.param([b"a\nb"], [b"a", b"b"], id="unended rest"),
        pytest.param([b"\n\n"], [b"", b""], id="empty lines"),
    ],
)
async def test_lines(chunks: list[bytes], lines: list[bytes]) -> None:
    assert await split(chunks) == lines


@given(st.lists(st.sampled_from([b"", b"x", b"yz", b"\n", b"\nq"])))
def test_chunks_do_not_matter(chunks: list[bytes]) -> None:
    whole = b"".join(chunks).split(b"\n")
    expected = whole if whole[-1] else whole[:-1]

    def drive() -> list[bytes]:
        coroutine = split(chunks)
        with pytest.raises(StopIteration) as stop:
            coroutine.send(None)
        lines: list[bytes] = stop.value.value
        return lines

    assert drive() == expected


async def test_a_line_without_end_is_given_up() -> None:
    with pytest.raises(LineTooLong):
        await split([b"x" * (MAX_LINE_BYTES // 2), b"x" * (MAX_LINE_BYTES // 2), b"x"])
