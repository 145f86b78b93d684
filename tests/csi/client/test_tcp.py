"""Drivers on tcp, on a real gRPC server with TLS: only with the right certificates of both sides is a driver called."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copy

import grpc
import pytest

from csi.client.channel import Limits
from csi.client.endpoint import Endpoint, TlsFiles
from csi.drivers import Drivers
from csi.health.verdict import HealthState, Verdict
from devcluster.credentials.certificates import Authority, KeyPair
from kube.clock import SystemClock
from tests.csi.observers import Recorder
from tests.csi.scripted_driver import NAME, ScriptedDriver
from tests.driver_process import eventually

SERVED = "localhost"
"""Among the names that the certificates of devcluster are for."""


class Site:
    """A driver on tcp, and the files that its clients need."""

    def __init__(self, directory: Path) -> None:
        self.authority = authority(directory / "ours")
        self.stranger = authority(directory / "stranger")
        self.server, self.client = self.authority.serving("driver"), self.authority.client("pvc-prebinder")
        self.driver = ScriptedDriver(directory / "unused.sock")
        self.port = 0

    def files(self, pair: KeyPair | None = None, trusted: Authority | None = None) -> TlsFiles:
        pair = pair or self.client
        return TlsFiles(str((trusted or self.authority).certificate), str(pair.certificate), str(pair.key))

    def endpoint(self, files: TlsFiles | None, server_name: str = SERVED) -> Endpoint:
        return Endpoint(NAME, "", f"127.0.0.1:{self.port}", server_name, files)

    async def probe(self, drivers: Drivers) -> Verdict:
        return await drivers.verdict(NAME, "v", timedelta(0))


def authority(directory: Path) -> Authority:
    directory.mkdir()
    return Authority(directory, datetime.now(UTC))


@asynccontextmanager
async def connected(endpoint: Endpoint) -> AsyncIterator[Drivers]:
    drivers = Drivers([endpoint], SystemClock(), Recorder(), Limits(deadline=5))
    yield drivers
    await drivers.close()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    site = Site(tmp_path)
    credentials = grpc.ssl_server_credentials(
        [(site.server.key.read_bytes(), site.server.certificate.read_bytes())],
        root_certificates=site.authority.certificate.read_bytes(),
        require_client_auth=True,
    )
    site.port = await site.driver.start_on_tcp(credentials)
    yield site
    await site.driver.stop()


async def test_with_the_right_certificates_the_driver_answers(site: Site) -> None:
    async with connected(site.endpoint(site.files())) as drivers:
        assert (await site.probe(drivers)).state is HealthState.HEALTHY


async def test_an_untrusted_client_gets_nothing(site: Site) -> None:
    rejected = {
        "another authority": site.endpoint(site.files(trusted=site.stranger)),
        "another server name": site.endpoint(site.files(), server_name="elsewhere.example"),
        "a client of another authority": site.endpoint(site.files(site.stranger.client("pvc-prebinder"))),
        "no certificates": site.endpoint(None),
    }
    for why, endpoint in rejected.items():
        async with connected(endpoint) as drivers:
            verdict = await site.probe(drivers)
            assert (verdict.state, verdict.reason) == (HealthState.UNKNOWN, "Unavailable"), why
            assert drivers.endpoints_up() == {NAME: False}
            assert ("tcp without TLS is rejected" in verdict.message) is (endpoint.tls is None)
    assert site.driver.calls == []


async def test_a_client_without_certificate_is_rejected(site: Site, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    async with connected(site.endpoint(TlsFiles(str(site.authority.certificate), str(empty), str(empty)))) as drivers:
        assert (await site.probe(drivers)).state is HealthState.UNKNOWN
    assert site.driver.calls == []


async def test_new_certificates_are_used_without_a_restart(site: Site, tmp_path: Path) -> None:
    """From missing to wrong to right files, as a Secret that is mounted late and corrected."""
    own = KeyPair(tmp_path / "tls.crt", tmp_path / "tls.key")
    async with connected(site.endpoint(site.files(own))) as drivers:
        missing = await site.probe(drivers)
        unreadable = f"cannot read the certificates: [Errno 2] No such file or directory: '{own.certificate}'"
        assert unreadable in missing.message

        async def wrong() -> bool:
            verdict = await site.probe(drivers)
            assert verdict.state is HealthState.UNKNOWN
            return unreadable not in verdict.message

        async def right() -> bool:
            return (await site.probe(drivers)).state is HealthState.HEALTHY

        for source, used in ((site.stranger, wrong), (site.authority, right)):
            issued = source.client("rotated")
            copy(issued.certificate, own.certificate)
            copy(issued.key, own.key)
            await eventually(used, f"the certificates are {used.__name__}")
        own.certificate.unlink()
        assert (await site.probe(drivers)).state is HealthState.HEALTHY, "what was read before serves on"
