"""Credentials that take long to come: no request waits for them while the old ones are valid."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest
from kubernetes.aio.client import Configuration

from kube.client.kubeconfig import REFRESH_SECONDS, Credentials, is_exec_credential_valid
from kube.errors import KubeconfigError
from tests.fake_clock import START, FakeClock, settle


class Plugin:
    """Gives a new token each time it is let go on."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self.refreshes = 0
        self.answer = asyncio.Event()
        self.broken = False
        self.ended = False
        self.expiry = START + timedelta(seconds=300)

    async def reload(self) -> None:
        self.refreshes += 1
        try:
            await self.answer.wait()
        finally:
            self.ended = True
        if self.broken:
            raise ValueError("the identity provider is away")
        self._configuration.api_key["BearerToken"] = f"Bearer token-{self.refreshes + 1}"

    def still_valid(self, now: datetime) -> bool:
        return now < self.expiry


def hanging(clock: FakeClock) -> tuple[Credentials, Plugin]:
    configuration = Configuration()
    configuration.api_key["BearerToken"] = "Bearer token-1"
    plugin = Plugin(configuration)
    return Credentials(configuration, plugin.reload, "kubeconfig", clock, plugin.still_valid), plugin


async def soon(request: Callable[[], Awaitable[str | None]]) -> str | None:
    """Return the answer if there is one without waiting."""
    answering = asyncio.ensure_future(request())
    await settle()
    assert answering.done()
    return await answering


async def test_requests_continue_with_valid_credentials_while_a_plugin_hangs() -> None:
    clock = FakeClock()
    credentials, plugin = hanging(clock)
    clock.jump(REFRESH_SECONDS)
    for _ in range(3):
        assert await soon(credentials.authorization) == "Bearer token-1"
    assert plugin.refreshes == 1
    plugin.answer.set()
    await settle()
    assert await soon(credentials.authorization) == "Bearer token-2"
    assert plugin.refreshes == 1
    await credentials.close()


async def test_requests_wait_together_once_the_old_credentials_have_expired() -> None:
    clock = FakeClock()
    credentials, plugin = hanging(clock)
    clock.jump(301)
    waiting = [asyncio.ensure_future(credentials.authorization()) for _ in range(3)]
    await settle()
    assert not any(task.done() for task in waiting)
    waiting[0].cancel()
    plugin.answer.set()
    assert await asyncio.gather(*waiting[1:]) == ["Bearer token-2"] * 2
    assert plugin.refreshes == 1


async def test_a_refresh_that_fails_is_an_error_only_when_nothing_valid_is_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock()
    credentials, plugin = hanging(clock)
    plugin.broken = True
    plugin.answer.set()
    clock.jump(REFRESH_SECONDS)
    assert await soon(credentials.authorization) == "Bearer token-1"
    assert "Credential refresh failed" in caplog.text
    clock.jump(300)
    with pytest.raises(KubeconfigError, match="the identity provider is away"):
        await credentials.authorization()


async def test_closing_ends_a_refresh_that_hangs() -> None:
    clock = FakeClock()
    credentials, plugin = hanging(clock)
    clock.jump(REFRESH_SECONDS)
    await soon(credentials.authorization)
    assert not plugin.ended
    await credentials.close()
    assert plugin.ended


@pytest.mark.parametrize(
    ("user", "state", "valid"),
    [
        pytest.param({"exec": {}}, {}, True, id="a plugin that names no end"),
        pytest.param({"exec": {}}, {"exec_plugin_expiry": START + timedelta(seconds=1)}, True, id="valid"),
        pytest.param({"exec": {}}, {"exec_plugin_expiry": START}, False, id="expired"),
        pytest.param(None, {}, False, id="no user"),
        pytest.param({"tokenFile": "token"}, {}, False, id="a file"),
    ],
)
def test_when_a_plugins_credential_is_valid(
    user: dict[str, object] | None, state: dict[str, datetime], valid: bool
) -> None:
    assert is_exec_credential_valid(SimpleNamespace(_user=user, **state), START) == valid
