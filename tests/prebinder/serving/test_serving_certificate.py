"""TLS of the extender: who is admitted, and what happens when files are replaced."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import copyfile

import aiohttp
import pytest

from prebinder.serving.serving_certificate import CertificateFiles, ServingCertificate
from tests.kube.plain_certificates import write_plain_certificates
from tests.prebinder.running_extender import LOOPBACK, Party, RunningExtender, running_extender
from tests.scheduler.extender_requests import arguments, extender, nodes


@pytest.fixture
def parties(tmp_path: Path) -> tuple[Party, Party]:
    """Two authorities, as before and after a rotation."""
    return Party(tmp_path / "old"), Party(tmp_path / "new")


def mount(party: Party, directory: Path) -> CertificateFiles:
    """Put a party's files where the server reads them."""
    directory.mkdir(exist_ok=True)
    files = CertificateFiles(directory / "tls.crt", directory / "tls.key", directory / "ca.crt")
    copyfile(party.server.certificate, files.certificate)
    copyfile(party.server.key, files.key)
    copyfile(party.authority.certificate, directory / "ca.crt")
    return files


@asynccontextmanager
async def served(certificate: ServingCertificate) -> AsyncIterator[RunningExtender]:
    async with running_extender(extender(nodes()), certificate=certificate) as server:
        yield server


async def admitted(server: RunningExtender, trusts: Party, shows: Party | None, host: str = LOOPBACK) -> bool:
    """Whether a client that trusts one party and shows another's certificate gets an answer, on a new connection."""
    return await answers(server, trusts.trust(shows=shows), host)


async def answers(server: RunningExtender, trust: ssl.SSLContext, host: str = LOOPBACK) -> bool:
    connector = aiohttp.TCPConnector(ssl=trust)
    async with aiohttp.ClientSession(connector=connector) as session:
        try:
            async with session.post(f"https://{host}:{server.port}/filter", data=arguments(["n1"])) as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False


@pytest.mark.parametrize("host", [LOOPBACK, "localhost"], ids=["by address", "by name"])
async def test_only_clients_of_the_authority_are_admitted(
    parties: tuple[Party, Party], tmp_path: Path, host: str
) -> None:
    ours, others = parties
    async with served(ServingCertificate(mount(ours, tmp_path / "mount"))) as server:
        assert await admitted(server, ours, ours, host)
        assert not await admitted(server, ours, None, host)
        assert not await admitted(server, ours, others, host)
        assert not await admitted(server, others, ours, host)


async def test_clients_need_no_extension_that_kubernetes_does_not_require(tmp_path: Path) -> None:
    """Python 3.13 rejects these by default, and older ones an authority that is not a root."""
    write_plain_certificates(tmp_path)
    files = CertificateFiles(tmp_path / "server.crt", tmp_path / "server.key", tmp_path / "ca.crt")
    client = ssl.create_default_context(cafile=files.client_authority)
    client.verify_flags &= ~ssl.VERIFY_X509_STRICT
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_cert_chain(tmp_path / "client.crt", tmp_path / "client.key")
    async with served(ServingCertificate(files)) as server:
        assert await answers(server, client)


async def test_without_an_authority_every_client_is_admitted(parties: tuple[Party, Party]) -> None:
    ours, _ = parties
    files = CertificateFiles(ours.server.certificate, ours.server.key)
    async with served(ServingCertificate(files)) as server:
        assert await admitted(server, ours, None)


@pytest.mark.parametrize("host", [LOOPBACK, "localhost"], ids=["by address", "by name"])
async def test_replaced_files_count_from_the_next_connection_on(
    parties: tuple[Party, Party], tmp_path: Path, host: str
) -> None:
    old, new = parties
    certificate = ServingCertificate(mount(old, tmp_path / "mount"))
    async with served(certificate) as server:
        assert await admitted(server, old, old, host)
        mount(new, tmp_path / "mount")
        await certificate.refresh()
        assert await admitted(server, new, new, host)
        assert not await admitted(server, old, old, host)
        assert not await admitted(server, new, old, host)


async def test_files_that_do_not_belong_together_are_passed_over(
    parties: tuple[Party, Party], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = parties
    files = mount(old, tmp_path / "mount")
    certificate = ServingCertificate(files)
    async with served(certificate) as server:
        for broken in (new.server.key.read_bytes(), b"half a ke"):
            files.key.write_bytes(broken)
            await certificate.refresh()
            await certificate.refresh()
            assert await admitted(server, old, old)
        files.key.unlink()
        await certificate.refresh()
        assert await admitted(server, old, old)
        assert caplog.text.count("Certificate rejected; the previous one stays in use") == 3
        mount(new, tmp_path / "mount")
        await certificate.refresh()
        assert await admitted(server, new, new)


def test_files_that_cannot_be_used_are_an_error_at_the_start(parties: tuple[Party, Party], tmp_path: Path) -> None:
    old, new = parties
    with pytest.raises(OSError, match="key values mismatch"):
        ServingCertificate(CertificateFiles(old.server.certificate, new.server.key))
    with pytest.raises(FileNotFoundError):
        ServingCertificate(CertificateFiles(tmp_path / "none", new.server.key))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_session_does_not_outlive_the_authority_of_its_client(
    parties: tuple[Party, Party], tmp_path: Path, version: ssl.TLSVersion
) -> None:
    """A resumed session would not be verified again."""
    old, new = parties
    certificate = ServingCertificate(mount(old, tmp_path / "mount"))
    client = old.trust(shows=old)
    client.maximum_version = version
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    async with served(certificate) as server:
        session = await resumable(server, client, None)
        assert (session is not None) == (version is ssl.TLSVersion.TLSv1_3)
        mount(new, tmp_path / "mount")
        await certificate.refresh()
        assert await resumable(server, client, session) is None


async def resumable(
    server: RunningExtender, client: ssl.SSLContext, session: ssl.SSLSession | None
) -> ssl.SSLSession | None:
    """Return the session of a connection that got an answer, None if it got none."""
    return await asyncio.to_thread(_resumable, server.port, client, session)


def _resumable(port: int, client: ssl.SSLContext, session: ssl.SSLSession | None) -> ssl.SSLSession | None:
    try:
        with (
            socket.create_connection((LOOPBACK, port), timeout=60) as plain,
            client.wrap_socket(plain, session=session) as secured,
        ):
            secured.sendall(b"GET /filter HTTP/1.1\r\nHost: x\r\n\r\n")
            return secured.session if secured.recv(9) else None
    except ssl.SSLError:
        return None
