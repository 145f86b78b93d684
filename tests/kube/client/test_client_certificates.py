"""Which server is trusted, which certificate is shown, and what happens when the files change."""

import ssl
from pathlib import Path
from shutil import copyfile

import pytest

from kube.client.client_certificates import POLL_SECONDS, ClientCertificates
from kube.client.credentials import ApiServer, CallerToken, Credentials
from kube.errors import KubeconfigError
from tests.fake_clock import FakeClock
from tests.kube.plain_certificates import write_plain_certificates

FILES = ("ca.crt", "client.crt", "client.key")


@pytest.fixture
def authorities(tmp_path: Path) -> tuple[Path, Path]:
    """Two authorities, as before and after a rotation."""
    for name in ("old", "new", "mount"):
        (tmp_path / name).mkdir()
    return write_plain_certificates(tmp_path / "old"), write_plain_certificates(tmp_path / "new")


@pytest.fixture
def mount(authorities: tuple[Path, Path], tmp_path: Path) -> Path:
    return put(authorities[0], tmp_path / "mount")


def put(authority: Path, mount: Path) -> Path:
    """Replace the files that the client reads."""
    for file in FILES:
        copyfile(authority / file, mount / file)
    return mount


def certificates(mount: Path, clock: FakeClock) -> ClientCertificates:
    authority, certificate, key = (str(mount / file) for file in FILES)
    server = ApiServer("https://127.0.0.1", authority, certificate=certificate, key=key)
    return ClientCertificates(Credentials(server, CallerToken("t"), "a test", clock))


def shown_to(authority: Path, client: ssl.SSLContext) -> str | None:
    """Return the common name that the client shows a server of this authority; None if either rejects the other."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(authority / "server.crt", authority / "server.key")
    # An API server trusts the authority itself, whether it is a root or not.
    server.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    server.load_verify_locations(authority / "ca.crt")
    server.verify_mode = ssl.CERT_REQUIRED
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    there = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(10):
        for side in (here, there):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return None
    certificate = there.getpeercert()
    assert certificate is not None
    return str(dict(part[0] for part in certificate["subject"])["commonName"])  # type: ignore[misc]


def test_an_authority_need_not_be_a_root(authorities: tuple[Path, Path], mount: Path) -> None:
    """As for kubectl; before Python 3.13 it is rejected by default."""
    old, new = authorities
    context = certificates(mount, FakeClock()).context
    assert shown_to(old, context) == "client"
    assert shown_to(new, context) is None


def test_new_files_are_used_a_minute_later(authorities: tuple[Path, Path], mount: Path) -> None:
    """A cluster's authority is rotated while the controller runs; it had to be restarted."""
    clock = FakeClock()
    client = certificates(mount, clock)
    put(authorities[1], mount)
    client.refresh()
    assert shown_to(authorities[1], client.context) is None
    clock.jump(POLL_SECONDS)
    client.refresh()
    assert shown_to(authorities[1], client.context) == "client"
    assert shown_to(authorities[0], client.context) is None


def test_files_that_cannot_be_used_are_reported_once_and_the_old_ones_stay(
    authorities: tuple[Path, Path], mount: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    client = certificates(mount, clock)
    (mount / "client.crt").write_text("half a certif")
    for _ in range(2):
        clock.jump(POLL_SECONDS)
        client.refresh()
    assert [record.message for record in caplog.records] == ["Certificates rejected; the previous ones stay in use"]
    assert shown_to(authorities[0], client.context) == "client"


def test_files_that_cannot_be_read_name_their_origin(mount: Path) -> None:
    (mount / "ca.crt").unlink()
    with pytest.raises(KubeconfigError, match=r"cannot use the certificates of a test: .*ca\.crt"):
        certificates(mount, FakeClock())
