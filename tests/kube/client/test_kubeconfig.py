"""Which configuration is used, which is rejected, and the messages for the user."""

import ssl
import traceback
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from aiohttp import web

from kube.client.connect import KubernetesTransport, connect, load_credentials
from kube.client.credentials import proxy_for
from kube.client.transport import Request
from kube.errors import KubeconfigError, Unavailable
from tests.fake_clock import FakeClock
from tests.kube.plain_certificates import write_plain_certificates
from tests.kube.scripted_server import kubeconfig, serving

LOOPBACK = "http://127.0.0.1:1"
REMOTE = "https://api.example:6443"


@pytest.mark.parametrize(
    ("server", "user", "cluster", "expected"),
    [
        pytest.param("https://h", None, {"insecure-skip-tls-verify": True}, "insecure-skip-tls-verify", id="insecure"),
        pytest.param("http://h:8080", None, None, "without TLS", id="plain http"),
        pytest.param("http://127.0.0.1:1", None, {"proxy-url": "http://p:1"}, "through no proxy", id="http by proxy"),
        pytest.param("ftp://h", None, None, "no usable server", id="odd scheme"),
        pytest.param("https://h", {}, None, "no credentials", id="no credentials"),
        pytest.param(
            "https://h",
            {"exec": {"apiVersion": "v1", "command": "/nowhere"}},
            None,
            'exec plugin "/nowhere" is not there',
            id="exec",
        ),
        pytest.param("https://h", {"client-certificate": "/no"}, None, "/no", id="missing certificate"),
    ],
)
async def test_a_configuration_that_cannot_be_used_is_rejected(
    tmp_path: Path, server: str, user: dict[str, Any] | None, cluster: dict[str, Any] | None, expected: str
) -> None:
    path = kubeconfig(tmp_path, server, user, cluster)
    with pytest.raises(KubeconfigError) as caught:
        await connect(path)
    assert expected in str(caught.value)
    assert path in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "just text",
        "kind: Config",
        "current-context: x\ncontexts: []\nclusters: []\nusers: []",
        "a: \x00",
    ],
    ids=repr,
)
async def test_a_broken_file_is_one_sentence_with_its_path(tmp_path: Path, content: str) -> None:
    path = tmp_path / "broken"
    path.write_text(content)
    with pytest.raises(KubeconfigError) as caught:
        await connect(str(path))
    assert f"cannot use kubeconfig {path}: " in str(caught.value)


async def test_a_file_that_cannot_be_read_is_one_sentence_with_its_path() -> None:
    path = "/proc/self/mem"
    with pytest.raises(KubeconfigError, match=f"kubeconfig {path}"):
        await connect(path)


async def test_an_unknown_context_is_named(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=r'there is no context "elsewhere"; compare with: KUBECONFIG=.* kubectl '):
        await connect(kubeconfig(tmp_path, LOOPBACK), context="elsewhere")


async def test_a_user_that_the_context_names_and_no_file_has_is_named(tmp_path: Path) -> None:
    path = tmp_path / "without-user"
    context = {"name": "x", "context": {"cluster": "c", "user": "nobody"}}
    cluster = {"name": "c", "cluster": {"server": "https://h"}}
    path.write_text(
        yaml.safe_dump(
            {"current-context": "x", "contexts": [context], "clusters": [cluster], "users": [{"name": "me"}]}
        )
    )
    with pytest.raises(KubeconfigError, match='names user "nobody", which is not among its users; compare with'):
        await connect(str(path))


async def test_of_several_files_the_first_current_context_counts(tmp_path: Path) -> None:
    """As for kubectl, which ignores empty files too; compared with `kubectl config view --minify`."""
    files = []
    for name in ("empty", "dev", "prod"):
        (directory := tmp_path / name).mkdir()
        files.append(Path(kubeconfig(directory, f"https://{name}.example")))
        renamed = yaml.safe_load(files[-1].read_text())
        renamed["current-context"] = name
        for kind in ("clusters", "contexts", "users"):
            renamed[kind][0]["name"] = name
        renamed["contexts"][0]["context"] = {"cluster": name, "user": name}
        files[-1].write_text(yaml.safe_dump(renamed))
    files[0].write_text("")
    paths = ":".join(map(str, files))
    assert (await load_credentials(paths, None, FakeClock())).server.address == "https://dev.example"
    assert (await load_credentials(paths, "prod", FakeClock())).server.address == "https://prod.example"
    files[1].write_text(files[1].read_text().replace("current-context: dev", "current-context: ''"))
    assert (await load_credentials(paths, None, FakeClock())).server.address == "https://prod.example"


async def test_requests_impersonate_the_user_that_the_kubeconfig_names(tmp_path: Path) -> None:
    """Without these headers they would have the rights of the user itself, often an administrator."""
    extra = {"acme.example/scope": ["a", "b"]}
    user = {"token": "t", "as": "jane", "as-uid": "7", "as-groups": ["dev", "ops"], "as-user-extra": extra}
    credentials = await load_credentials(kubeconfig(tmp_path, REMOTE, user), None, FakeClock())
    assert credentials.impersonation == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-acme.example%2Fscope", "a"),
        ("Impersonate-Extra-acme.example%2Fscope", "b"),
    )


async def test_secrets_for_an_exec_plugin_are_not_in_messages(tmp_path: Path) -> None:
    plugin = {"apiVersion": "v1", "command": "x", "env": [{"name": "TOKEN", "value": "s3cret"}]}
    path = kubeconfig(tmp_path, REMOTE, {"client-certificate-data": None, "exec": plugin})
    with pytest.raises(KubeconfigError, match="client-certificate") as caught:
        await load_credentials(path, None, FakeClock())
    assert "s3cret" not in str(caught.value)


async def test_the_kubeconfigs_proxy_is_used(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, REMOTE, cluster={"proxy-url": "http://proxy:3128"})
    credentials = await load_credentials(path, None, FakeClock())
    assert proxy_for(credentials) == "http://proxy:3128"


async def test_a_proxy_without_scheme_is_one_of_http(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, REMOTE, cluster={"proxy-url": "proxy:3128"})
    assert proxy_for(await load_credentials(path, None, FakeClock())) == "http://proxy:3128"


@pytest.mark.parametrize(
    "proxy", ["socks5://u:s3cret@proxy:1080", "http://u:s3/cret@proxy:3128", "u:s3cret@proxy:port", "http://:s3cret@"]
)
async def test_what_is_no_address_of_a_proxy_is_rejected_without_being_shown(tmp_path: Path, proxy: str) -> None:
    path = kubeconfig(tmp_path, "https://api.example:6443", cluster={"proxy-url": proxy})
    credentials = await load_credentials(path, None, FakeClock())
    with pytest.raises(KubeconfigError, match=r"proxy-url of kubeconfig .* is not a proxy address") as caught:
        proxy_for(credentials)
    assert "s3" not in "".join(traceback.format_exception(caught.value))


async def test_a_password_in_the_servers_address_is_rejected_without_being_shown(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "https://admin:s3cret@api.example:6443")
    with pytest.raises(KubeconfigError, match="user or password in the server's address") as caught:
        await load_credentials(path, None, FakeClock())
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_plain_certificates(tmp_path_factory.mktemp("tls"))


@pytest_asyncio.fixture
async def tls_server(authority: Path) -> Any:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority / "ca.crt"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # which Python 3.13 sets, and no API server
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_cert_chain(authority / "server.crt", authority / "server.key")

    async def whoami(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peercert")
        return web.Response(text=dict(pair[0] for pair in peer["subject"])["commonName"])

    async with serving(whoami, context) as server:
        yield server


def client(authority: Path) -> dict[str, str]:
    return {"client-certificate": str(authority / "client.crt"), "client-key": str(authority / "client.key")}


async def body_of(transport: KubernetesTransport) -> bytes:
    async with transport:
        return (await transport.send(Request("GET", "/"))).body


async def test_a_client_certificate_is_presented(tmp_path: Path, authority: Path, tls_server: Any) -> None:
    cluster = {"certificate-authority": str(authority / "ca.crt")}
    path = kubeconfig(tmp_path, tls_server.url, client(authority), cluster)
    assert await body_of(await connect(path)) == b"client"


async def test_a_server_of_an_unknown_authority_is_not_talked_to(
    tmp_path: Path, authority: Path, tls_server: Any
) -> None:
    path = kubeconfig(tmp_path, tls_server.url, client(authority))
    with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
        await body_of(await connect(path))
    assert tls_server.requests == []
