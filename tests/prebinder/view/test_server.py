"""What the server answers, and to which clients."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from prebinder.cli import main
from tests.prebinder.view.served_view import Browser, served
from tests.why.view.clusters import Cluster, small
from why.explain.targets import Target
from why.reading.dump import read_dump
from why.report.report import WhyReport
from why.view.feeds.file_feed import FileFeed
from why.view.feeds.publisher import Caller, Message

WHY = "/api/v1alpha1/why"


def feed_of(cluster: Cluster, path: Path) -> FileFeed:
    dump = read_dump([cluster.dump(path)], io.BytesIO(), datetime.now(UTC))
    assert not dump.faults
    return FileFeed(dump.facts, "dump.json")


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[Browser]:
    async with served(feed_of(small(), tmp_path / "dump.json")) as browser:
        yield browser


async def test_the_page_loads_nothing_from_elsewhere(browser: Browser) -> None:
    page = await browser.get("/")
    assert page.status == 200
    policy = page.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert "http" not in page.text
    assert "style=" not in page.text


@pytest.mark.parametrize(
    ("name", "content_type"),
    [("main.js", "text/javascript"), ("page.css", "text/css"), ("icon.svg", "image/svg+xml")],
)
async def test_files_are_served_once_while_they_stay_the_same(browser: Browser, name: str, content_type: str) -> None:
    first = await browser.get(f"/assets/{name}")
    assert (first.status, first.headers["Content-Type"].partition(";")[0]) == (200, content_type)
    assert (await browser.get(f"/assets/{name}", If_None_Match=first.headers["ETag"])).status == 304


@pytest.mark.parametrize("path", ["/nothing", "/assets/none.js", "/assets/..%2fserver.py", "/api/v1alpha1/nothing"])
async def test_what_there_is_not_is_404(browser: Browser, path: str) -> None:
    answer = await browser.get(path)
    assert answer.status == 404
    assert "Content-Security-Policy" in answer.headers


@pytest.mark.parametrize("host", ["evil.example", "evil.example:10280", "10.0.0.1:10280", "localhost.evil.example", ""])
async def test_another_name_for_this_server_is_rejected(browser: Browser, host: str) -> None:
    """DNS rebinding: a page of another site whose name resolves to this machine."""
    assert (await browser.get("/api/v1alpha1/view", Host=host)).status == 421


@pytest.mark.parametrize("host", ["localhost:10280", "127.0.0.1", "[::1]:1", "LOCALHOST:9"])
async def test_this_machines_own_names_are_answered_at_any_port(browser: Browser, host: str) -> None:
    """`kubectl port-forward` may choose another port."""
    assert (await browser.get("/", Host=host)).status == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "http://localhost:1", "null", "http://[bad"])
async def test_another_origin_is_rejected(browser: Browser, origin: str) -> None:
    assert (await browser.get("/api/v1alpha1/view", Origin=origin)).status == 403


async def test_the_pages_own_origin_is_answered(browser: Browser) -> None:
    assert (await browser.get("/api/v1alpha1/view", Origin=browser.url, Sec_Fetch_Site="same-origin")).status == 200


@pytest.mark.parametrize(
    ("path", "mode", "status"),
    [
        pytest.param("/", "navigate", 200, id="a link opens the page"),
        pytest.param("/api/v1alpha1/view", "navigate", 403, id="but not what it reads"),
        pytest.param("/api/v1alpha1/view", "no-cors", 403, id="nor does an image"),
        pytest.param("/assets/main.js", "no-cors", 403, id="nor a script tag"),
    ],
)
async def test_other_sites_may_open_the_page_and_no_more(browser: Browser, path: str, mode: str, status: int) -> None:
    assert (await browser.get(path, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode=mode)).status == status


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_it_only_reads(browser: Browser, method: str) -> None:
    answer = await browser.get("/api/v1alpha1/view", method=method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


async def test_the_view_has_everything_that_the_page_shows(browser: Browser) -> None:
    view = (await browser.get("/api/v1alpha1/view")).document
    assert (view["apiVersion"], view["kind"], view["live"]) == ("pvc-prebinder/v1alpha1", "View", False)
    assert view["nodes"]["ip-10-0-2-61"]["state"] == "NotReady"
    assert view["volumes"]["pv-lost-1"] | {"driver": ""} == {
        "name": "pv-lost-1",
        "zone": "us-east-1c",
        "state": "Quarantined",
        "size": "20Gi",
        "bytes": 20 * 2**30,
        "storageClass": "fast",
        "health": "Inaccessible",
        "unhealthy": True,
        "reason": "Inaccessible: DeviceNotFound",
        "driver": "",
    }
    archive = view["pending"]["pvc/data/archive"]
    assert (archive["code"], archive["problem"], "zones" in archive) == ("StaticOnlyNoMatch", True, False)


async def test_a_stream_begins_with_the_view(browser: Browser) -> None:
    async with browser.stream() as events:
        name, view = await anext(events)
    assert (name, view["kind"]) == ("view", "View")


@pytest.mark.parametrize(
    ("query", "argument"),
    [
        ("kind=pod&namespace=shop&name=orders-0", "pod/orders-0"),
        ("kind=pvc&namespace=shop&name=data-orders-0", "pvc/data-orders-0"),
        ("kind=pv&name=pv-lost-1", "pv/pv-lost-1"),
    ],
)
async def test_a_click_says_what_the_command_says(
    query: str, argument: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = small()
    async with served(feed_of(cluster, tmp_path / "dump.json")) as browser:
        answer = (await browser.get(f"{WHY}?{query}")).document
    # Without the line that names the next command to type.
    main(["why", argument, "-n", "shop", "-f", str(tmp_path / "dump.json"), "--no-headers"])
    printed = capsys.readouterr().out
    assert answer["text"].split() == printed.split()
    assert answer["report"]["kind"] == "WhyReport"


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("kind=pvc&namespace=shop&name=nothing", 404, 'there is no PersistentVolumeClaim "nothing" in namespace shop'),
        ("kind=pv&name=nothing", 404, 'there is no PersistentVolume "nothing"'),
        ("kind=node&name=n", 400, "expected kind=pvc or pod"),
        ("kind=pvc&name=data", 400, "with namespace and name"),
        ("kind=pv", 400, "or kind=pv with name"),
    ],
)
async def test_questions_that_cannot_be_answered(browser: Browser, query: str, status: int, text: str) -> None:
    answer = await browser.get(f"{WHY}?{query}")
    assert answer.status == status
    assert text in answer.text


async def test_names_with_markup_are_data(tmp_path: Path) -> None:
    cluster = small()
    name = "<img src=x onerror=alert(1)>"
    cluster.volume(name, "<script>alert(2)</script>")
    async with served(feed_of(cluster, tmp_path / "dump.json")) as browser:
        answer = await browser.get("/api/v1alpha1/view")
    assert answer.headers["Content-Type"].startswith("application/json")
    assert answer.document["volumes"][name]["zone"] == "<script>alert(2)</script>"


class Endless:
    """A feed with more than a reader takes that never reads. `left` is set when it is no longer followed."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    @asynccontextmanager
    async def following(self, caller: Caller) -> AsyncIterator[AsyncIterator[Message]]:
        try:
            yield self._messages()
        finally:
            self.left.set()

    async def _messages(self) -> AsyncIterator[Message]:
        while True:
            yield Message("view", b"x" * 2**20)

    async def explain(self, target: Target, caller: Caller) -> tuple[WhyReport, datetime]:
        raise NotImplementedError


async def test_a_page_that_is_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would hold one of few places, with its watches, for as long as its client likes."""
    monkeypatch.setattr("prebinder.view.server._SEND_SECONDS", 0.1)
    feed = Endless()
    async with served(feed) as browser:
        _, writer = await asyncio.open_connection("127.0.0.1", browser.port)
        writer.write(b"GET /api/v1alpha1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await asyncio.wait_for(feed.left.wait(), 60)
        writer.transport.abort()
