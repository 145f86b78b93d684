"""Where an identity comes from; and when it takes long to come, no request waits while the old one is valid."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from kube.client.connect import find_api_server, load_credentials
from kube.client.credentials import REFRESH_SECONDS, REJECTED_SECONDS, ApiServer, CallerToken, Credentials, proxy_for
from kube.client.kubeconfig import KubeconfigUser
from kube.errors import KubeconfigError
from tests.fake_clock import START, FakeClock, settle
from tests.kube.scripted_server import kubeconfig

POD = {"HOME": "/nowhere", "KUBERNETES_SERVICE_HOST": "::1", "KUBERNETES_SERVICE_PORT": "6443"}


class Plugin:
    """Gives a new token each time it is let go on."""

    def __init__(self) -> None:
        self.header = "Bearer token-1"
        self.refreshes = 0
        self.answer = asyncio.Event()
        self.broken = False
        self.ended = False
        self.expiry = START + timedelta(seconds=300)

    async def renew(self) -> None:
        self.refreshes += 1
        try:
            await self.answer.wait()
        finally:
            self.ended = True
        if self.broken:
            raise KubeconfigError("the identity provider is away")
        self.header = f"Bearer token-{self.refreshes + 1}"

    def is_valid(self, now: datetime) -> bool:
        return now < self.expiry

    def invalidate(self) -> None:
        self.expiry = START


def hanging(clock: FakeClock) -> tuple[Credentials, Plugin]:
    plugin = Plugin()
    return Credentials(ApiServer("https://api.example:6443"), plugin, "kubeconfig", clock), plugin


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
    assert KubeconfigUser(SimpleNamespace(_user=user, **state), None).is_valid(START) == valid


async def test_a_plugin_is_run_again_once_its_credential_was_rejected_and_one_that_hangs_is_named() -> None:
    async def hang(_: object) -> None:
        raise TimeoutError

    loader = SimpleNamespace(_user={"exec": {}}, exec_plugin_expiry=START + timedelta(days=1), load_and_set=hang)
    user = KubeconfigUser(loader, None)
    user.invalidate()
    assert not hasattr(loader, "exec_plugin_expiry")
    with pytest.raises(KubeconfigError, match="the exec plugin did not answer within 60 s"):
        await user.renew()


async def test_the_places_are_searched_in_order(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    home = {"HOME": str(tmp_path)}
    with pytest.raises(KubeconfigError, match="no cluster configured"):
        await load_credentials(None, None, FakeClock(), environ=home)
    kubeconfig(tmp_path, "http://127.0.0.1:1")
    (tmp_path / "kubeconfig").rename(tmp_path / ".kube" / "config")
    assert (await load_credentials(None, None, FakeClock(), environ=home)).server.address == "http://127.0.0.1:1"
    environ = {**home, "KUBECONFIG": kubeconfig(tmp_path, "http://127.0.0.1:2")}
    assert (await load_credentials(None, None, FakeClock(), environ=environ)).server.address == "http://127.0.0.1:2"
    (other := tmp_path / "other").mkdir()
    given = kubeconfig(other, "http://127.0.0.1:3")
    assert (await load_credentials(given, None, FakeClock(), environ=environ)).server.address == "http://127.0.0.1:3"


@pytest.mark.parametrize(
    ("kubeconfig_path", "environ", "expected"),
    [
        pytest.param("/nowhere/config", {}, "from --kubeconfig", id="argument"),
        pytest.param(None, {"KUBECONFIG": "/nowhere/config"}, r"from \$KUBECONFIG", id="environment"),
        pytest.param(None, {"HOME": "/nowhere", "KUBERNETES_SERVICE_HOST": "h"}, "service account", id="broken pod"),
    ],
)
async def test_a_missing_configuration_says_where_it_was_looked_for(
    kubeconfig_path: str | None, environ: dict[str, str], expected: str
) -> None:
    with pytest.raises(KubeconfigError, match=expected):
        await load_credentials(kubeconfig_path, None, FakeClock(), environ=environ)


async def test_a_pods_rotated_token_is_read_again_and_while_it_cannot_be_read_the_last_one_is_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The API server decides when it has expired; without it the Lease would be lost at once."""
    clock = FakeClock()
    token = tmp_path / "token"
    token.write_text("one\n")
    (tmp_path / "ca.crt").write_text("ca")
    credentials = await load_credentials(None, None, clock, environ=POD, service_account=tmp_path)
    assert credentials.server.address == "https://[::1]:6443"
    assert await credentials.authorization() == "Bearer one"
    token.write_text("two\n")
    assert await credentials.authorization() == "Bearer one"
    clock.jump(61)
    assert await credentials.authorization() == "Bearer two"
    token.unlink()
    for _ in range(2):
        clock.jump(61)
        assert await credentials.authorization() == "Bearer two"
    assert [record.message for record in caplog.records] == [
        "Service account token cannot be read; the previous one stays in use"
    ]
    token.write_text("three\n")
    clock.jump(61)
    assert await credentials.authorization() == "Bearer three"


async def test_rejected_credentials_are_renewed_before_their_time_but_not_all_the_time() -> None:
    clock = FakeClock()
    credentials, plugin = hanging(clock)
    plugin.answer.set()
    credentials.rejected()
    assert await credentials.authorization() == "Bearer token-1"
    clock.jump(REJECTED_SECONDS)
    credentials.rejected()
    assert await credentials.authorization() == "Bearer token-2"
    credentials.rejected()
    assert await credentials.authorization() == "Bearer token-2"


@pytest.mark.parametrize("broken", [{"KUBERNETES_SERVICE_HOST": ""}, {"HOME": "~"}], ids=["no host", "no home"])
async def test_an_empty_environment_is_no_cluster(broken: dict[str, str]) -> None:
    with pytest.raises(KubeconfigError, match="no cluster configured"):
        await load_credentials(None, None, FakeClock(), environ={"HOME": "/nowhere", **broken})


async def test_a_pod_without_kubeconfig_has_no_contexts(tmp_path: Path) -> None:
    for load in (load_credentials, find_api_server):
        with pytest.raises(KubeconfigError, match='there is no context "prod"'):
            await load(None, "prod", FakeClock(), environ=POD, service_account=tmp_path)


@pytest.mark.parametrize(
    ("host", "no_proxy", "direct"),
    [
        ("10.96.0.1", "10.96.0.0/12,.svc", True),
        ("10.96.0.1", ".svc, 10.96.0.1", True),
        ("10.96.0.1", "10.97.0.0/16,.svc", False),
        ("[fd00:10:96::1]", "fd00:10:96::/112", True),
        ("[fd00:10:96::1]", "[fd00:10:96::1]", True),
        ("[fd00:10:96::1]", "10.0.0.0/8", False),
        ("127.0.0.2", "", True),
        ("api.svc", ".svc", True),
        ("api.example", ".svc", False),
    ],
)
def test_networks_in_no_proxy_are_reached_directly(
    monkeypatch: pytest.MonkeyPatch, host: str, no_proxy: str, direct: bool
) -> None:
    """As by Go's net/http; a pod's NO_PROXY often is the network of the services."""
    monkeypatch.setenv("HTTPS_PROXY", "http://corp:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    credentials = Credentials(ApiServer(f"https://{host}:443"), CallerToken("t"), "a test", FakeClock())
    assert proxy_for(credentials) == (None if direct else "http://corp:3128")


@pytest.mark.parametrize(
    ("token", "expected"),
    [(None, "No such file or directory"), (" \n", "is empty")],
    ids=["no token", "an empty token"],
)
async def test_a_missing_token_has_a_likely_cause(tmp_path: Path, token: str | None, expected: str) -> None:
    (tmp_path / "ca.crt").write_text("ca")
    if token is not None:
        (tmp_path / "token").write_text(token)
    with pytest.raises(KubeconfigError, match=f"{expected}.* automountServiceAccountToken"):
        await load_credentials(None, None, FakeClock(), environ=POD, service_account=tmp_path)


async def test_the_page_for_callers_needs_no_token_in_a_pod(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="kube-root-ca"):
        await find_api_server(None, None, FakeClock(), environ=POD, service_account=tmp_path)
    (tmp_path / "ca.crt").write_text("")
    server = await find_api_server(None, None, FakeClock(), environ=POD, service_account=tmp_path)
    assert server == ApiServer("https://[::1]:6443", str(tmp_path / "ca.crt"))


async def test_the_certificate_of_a_kubeconfig_is_not_used_for_callers(tmp_path: Path) -> None:
    user = {"client-certificate": str(tmp_path / "crt"), "client-key": str(tmp_path / "key")}
    for name in ("crt", "key"):
        (tmp_path / name).write_text("")
    path = kubeconfig(tmp_path, "https://api.example:6443", user, {"tls-server-name": "api"})
    assert (await load_credentials(path, None, FakeClock())).server.certificate
    server = await find_api_server(path, None, FakeClock())
    assert server == ApiServer("https://api.example:6443", server_name="api")


@pytest.mark.parametrize(("cluster", "called"), [("c", "c"), ("prod-eu", "c (cluster prod-eu)")])
async def test_a_cluster_is_called_by_its_context_and_by_its_own_name_if_that_is_another(
    tmp_path: Path, cluster: str, called: str
) -> None:
    path = kubeconfig(tmp_path, "https://api.example:6443", {"token": "t"})
    configuration = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    configuration["clusters"][0]["name"] = configuration["contexts"][0]["context"]["cluster"] = cluster
    configuration["contexts"][0]["name"] = configuration["current-context"] = "c"
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(configuration))
    assert (await load_credentials(path, None, FakeClock())).server.called == called


async def test_the_token_of_a_caller_stays_what_it_is() -> None:
    clock = FakeClock()
    credentials = Credentials(ApiServer("https://api.example:6443"), CallerToken("t"), "the caller's token", clock)
    for _ in range(2):
        assert await credentials.authorization() == "Bearer t"
        clock.jump(REFRESH_SECONDS)
