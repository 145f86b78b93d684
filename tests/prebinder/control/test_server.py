"""The control port over HTTP: who may use it, exact status codes, limits, and nothing that stops it."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import cbor2
import pytest

from prebinder.control.part import serving_control
from prebinder.control.server import CBOR, MAX_CALL_BYTES, ControlServer, Route
from prebinder.control.token import POLL_SECONDS
from prebinder.errors import CommandError
from scheduler.binding.pod_binding import Bound
from tests.fake_clock import FakeClock, settle
from tests.prebinder.control_port import LOOPBACK, TOKEN, Control, Scripted, configured, controlled

CALL = cbor2.dumps(
    {"jsonrpc": "2.0", "id": 1, "method": "bind.pod", "params": {"namespace": "default", "name": "web-0"}}
)
CBOR_TYPE = {"Content-Type": CBOR}


def padded(size: int) -> bytes:
    """A body of that many bytes, well-formed: an id takes what is left."""
    request = {"jsonrpc": "2.0", "method": "none", "id": ""}
    empty = len(cbor2.dumps(request)) + 2  # the length of a long text takes two bytes more
    body = cbor2.dumps(request | {"id": "x" * (size - empty)})
    assert len(body) == size
    return body


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        pytest.param("POST", "/rpc", CALL, CBOR_TYPE, 200, id="a call"),
        pytest.param("POST", "/rpc", b"\xff", CBOR_TYPE, 200, id="errors of calls are answers"),
        pytest.param("POST", "/rpc", CALL, {"Content-Type": f"{CBOR}; a=b"}, 200, id="type with a parameter"),
        pytest.param("POST", "/rpc", CALL, {"Content-Type": "application/json"}, 415, id="another type"),
        pytest.param("POST", "/rpc", CALL, {}, 415, id="no type"),
        pytest.param("POST", "/rpc", CALL, CBOR_TYPE | {"Content-Encoding": "gzip"}, 415, id="compressed"),
        pytest.param("POST", "/rpc", padded(MAX_CALL_BYTES), CBOR_TYPE, 200, id="as large as allowed"),
        pytest.param("POST", "/rpc", padded(MAX_CALL_BYTES + 1), CBOR_TYPE, 413, id="a byte too large"),
        pytest.param("GET", "/rpc", None, {}, 405, id="rpc is posted to"),
        pytest.param("POST", "/config", None, {}, 405, id="config is put"),
        pytest.param("HEAD", "/debug/profile", None, {}, 405, id="a profile is for reading"),
        pytest.param("GET", "/", None, {}, 404, id="nothing there"),
        pytest.param("GET", "/debug/profile/", None, {}, 404, id="another path"),
        pytest.param("GET", "/config", None, {"Host": "localhost:PORT"}, 200, id="another name of loopback"),
        pytest.param("GET", "/config", None, {"Host": "LOCALHOST:PORT"}, 200, id="in capitals"),
        pytest.param("GET", "/config", None, {"Host": "evil.example:PORT"}, 421, id="a name that was rebound"),
        pytest.param("GET", "/config", None, {"Host": "127.0.0.1"}, 421, id="without the port"),
        pytest.param("GET", "/config", None, {"Host": "127.0.0.1:1"}, 421, id="another port"),
        pytest.param("GET", "/config", None, {"Authorization": ""}, 401, id="an empty token"),
        pytest.param("GET", "/config", None, {"Authorization": TOKEN}, 401, id="not as a bearer token"),
        pytest.param("GET", "/config", None, {"Authorization": "Bearer " + TOKEN[:-1]}, 401, id="part of it"),
        pytest.param("GET", "/config", None, {"Authorization": "Bearer ü"}, 401, id="not ASCII"),
        pytest.param("GET", "/none", None, {"Authorization": "Bearer x"}, 401, id="without it not even a 404"),
    ],
)
async def test_status_codes(
    method: str, path: str, body: bytes | None, headers: Mapping[str, str], status: int, tmp_path: Path
) -> None:
    async with controlled(tmp_path, Scripted(Bound("n1"))) as control:
        sent = {name: text.replace("PORT", str(control.port)) for name, text in headers.items()}
        returned, content, answered = await control.request(method, path, body, sent)
        assert returned == status, content
        assert (answered.get("WWW-Authenticate") == "Bearer") == (status == 401)
        assert ("Allow" in answered) == (status == 405)
        assert (await control.call("bind.pod", {"namespace": "a", "name": "b"}))["result"]["node"] == "n1"


async def test_notifications_have_no_content_to_answer(tmp_path: Path) -> None:
    binding = Scripted(Bound("n1"))
    async with controlled(tmp_path, binding) as control:
        call = cbor2.dumps({"jsonrpc": "2.0", "method": "bind.pod", "params": {"namespace": "a", "name": "b"}})
        assert await control.post(call) == (204, b"")
    assert binding.calls == [("bind", "a/b", "", "")]


async def raw(control: Control, head: str) -> bytes:
    """Return the first line of the answer to a request of which nothing more comes."""
    reader, writer = await asyncio.open_connection(LOOPBACK, control.port)
    writer.write(head.replace("\n", "\r\n").encode())
    line = await reader.readline()
    writer.close()
    return line


async def test_a_body_that_is_too_large_is_not_read_to_its_end(tmp_path: Path) -> None:
    async with controlled(tmp_path) as control:
        head = f"POST /rpc HTTP/1.1\nHost: 127.0.0.1:{control.port}\nAuthorization: Bearer {TOKEN}\n"
        assert b" 413 " in await raw(control, f"{head}Content-Type: {CBOR}\nContent-Length: 1000000000\n\n")


async def test_a_body_that_does_not_say_how_large_it_is_is_limited_too(tmp_path: Path) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b"\x00" * (MAX_CALL_BYTES // 4)

    async with controlled(tmp_path) as control:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": CBOR}
        url = f"http://{LOOPBACK}:{control.port}/rpc"
        async with control.session.post(url, data=chunks(), headers=headers) as answer:
            assert answer.status == 413


async def test_without_a_host_the_server_is_unknown(tmp_path: Path) -> None:
    async with controlled(tmp_path) as control:
        assert b" 421 " in await raw(control, f"GET /config HTTP/1.0\nAuthorization: Bearer {TOKEN}\n\n")


async def test_a_bug_is_an_answer_too(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    async with controlled(tmp_path, Scripted(ZeroDivisionError())) as control:
        response = await control.call("bind.pod", {"namespace": "a", "name": "b"})
        assert response["error"]["code"] == -32603
        control_works = await control.request("GET", "/config")
        assert control_works[0] == 200
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "example.com"])
def test_it_listens_on_loopback_only(host: str) -> None:
    routes: list[Route] = []
    with pytest.raises(ValueError, match="expected a loopback address such as"):
        ControlServer((host, 0), lambda: TOKEN, routes)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_every_loopback_address_will_do(host: str) -> None:
    assert ControlServer((host, 10270), lambda: TOKEN, []).port == 10270


async def test_a_rotated_token_counts_and_the_old_one_does_not(tmp_path: Path) -> None:
    """As the kubelet replaces a Secret: another file takes the place of the one that was read."""
    clock, new = FakeClock(), "another" * 5
    async with controlled(tmp_path, clock=clock) as control:
        rotated = tmp_path / "rotated"
        rotated.write_text(f"{new}\n")
        rotated.chmod(0o400)
        rotated.rename(tmp_path / "token")
        assert (await control.request("GET", "/config"))[0] == 200
        await clock.advance(POLL_SECONDS)

        async def answer() -> int:
            return (await control.request("GET", "/config", None, {"Authorization": f"Bearer {new}"}))[0]

        async with asyncio.timeout(10):
            while await answer() != 200:
                pass
        assert (await control.request("GET", "/config"))[0] == 401


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    async with controlled(tmp_path) as control:
        taken = (LOOPBACK, control.port)
        with pytest.raises(CommandError, match="choose another address with --control-bind-address"):
            async with serving_control(taken, tmp_path / "token", Scripted, configured(), FakeClock()):
                pass


async def test_without_an_address_there_is_neither_a_port_nor_a_token(tmp_path: Path) -> None:
    async with serving_control(None, tmp_path / "token", Scripted, configured(), FakeClock()) as port:
        assert port == 0
    assert os.listdir(tmp_path) == []


async def test_an_unknown_path_is_answered_with_those_that_exist(tmp_path: Path) -> None:
    async with controlled(tmp_path) as control:
        contents = [(await control.request(*request))[1] for request in (("GET", "/metrics"), ("DELETE", "/config"))]
    assert contents == [b"there is no /metrics: expected /rpc or /config or /debug/profile\n", b"expected GET or PUT\n"]


class Lingering(FakeClock):
    """Whose sleepers take many turns of the loop to be cancelled."""

    sleeping = False

    async def sleep(self, seconds: float) -> None:
        self.sleeping = True
        try:
            await super().sleep(seconds)
        finally:
            for _ in range(1000):
                await asyncio.sleep(0)
            self.sleeping = False


async def test_the_token_is_not_followed_after_the_end(tmp_path: Path) -> None:
    clock = Lingering()
    async with serving_control((LOOPBACK, 0), tmp_path / "token", Scripted, configured(), clock):
        await settle()
        assert clock.sleeping
    assert not clock.sleeping
