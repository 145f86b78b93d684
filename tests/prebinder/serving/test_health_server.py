"""Probes and metrics over HTTP, on a free port of this machine."""

import socket
from collections.abc import Mapping

import aiohttp
import pytest

from prebinder.serving.health_server import Check, HealthServer, ProbePage, metrics_page, probe_pages

LOOPBACK = ("127.0.0.1", 0)


async def fetch(pages: tuple[ProbePage, ...], path: str) -> tuple[int, str]:
    async with HealthServer([(LOOPBACK, page) for page in pages]) as server, aiohttp.ClientSession() as session:
        (port,) = server.ports
        async with session.get(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, await answer.text()


def fine() -> None:
    return None


@pytest.mark.parametrize(
    ("path", "ready", "status", "text"),
    [
        pytest.param("/readyz", {"caches": fine}, 200, "ok\n", id="ready"),
        pytest.param("/readyz?verbose", {"caches": fine}, 200, "[+]caches ok\nok\n", id="verbose"),
        pytest.param(
            "/readyz",
            {"caches": lambda: "waiting for pods", "shutdown": fine},
            503,
            "[-]caches: waiting for pods\n[+]shutdown ok\nfailed\n",
            id="a failure says which and why, unasked",
        ),
        pytest.param("/livez", {"caches": lambda: "waiting for pods"}, 200, "ok\n", id="liveness asks its own checks"),
        pytest.param("/healthz", {}, 200, "ok\n", id="alias"),
        pytest.param("/other", {}, 404, "404: Not Found", id="nothing else"),
    ],
)
async def test_probes(path: str, ready: Mapping[str, Check], status: int, text: str) -> None:
    assert await fetch(probe_pages({"event loop": fine}, ready), path) == (status, text)


async def test_liveness_fails_by_its_own_check() -> None:
    assert (await fetch(probe_pages({"event loop": lambda: "40 s late"}, {}), "/livez"))[0] == 503


async def test_metrics_are_rendered_each_time() -> None:
    async def render() -> bytes:
        return b"pages 1.0\n"

    assert await fetch((metrics_page(render),), "/metrics") == (200, "pages 1.0\n")


async def test_a_page_without_an_address_is_not_served() -> None:
    async with HealthServer([(None, page) for page in probe_pages({}, {})]) as server:
        assert server.ports == []


async def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.create_server(LOOPBACK) as taken:
        page = probe_pages({}, {})[0]
        with pytest.raises(OSError, match="address already in use"):
            await HealthServer([(("127.0.0.1", taken.getsockname()[1]), page)]).__aenter__()
