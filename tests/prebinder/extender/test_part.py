"""From settings to a server: what cannot be served is an error that says what to do."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from devcluster.processes.ports import LOOPBACK, free_ports
from kube.store.store import Store
from prebinder.config.settings import ExtenderSettings, Settings
from prebinder.errors import CommandError, UsageError
from prebinder.extender.part import ExtenderPart
from prebinder.serving.health_server import Check
from tests.fake_clock import FakeClock
from tests.prebinder.running_extender import Counts, Party
from tests.scheduler.extender_requests import arguments


def part(
    store: Store | None = None, clock: FakeClock | None = None, not_ready: Check = lambda: None, **chosen: Any
) -> ExtenderPart:
    settings = replace(Settings(), extender=ExtenderSettings(**chosen))
    return ExtenderPart(settings, store or Store(), not_ready, clock or FakeClock(), Counts())


@pytest.mark.parametrize(
    ("chosen", "complaint"),
    [
        pytest.param({"bind_address": ":8443"}, 'the extender on ":8443" needs a certificate', id="every address"),
        pytest.param({"bind_address": "10.0.0.1:8443"}, "needs a certificate", id="another address"),
        pytest.param({"bind_address": "example.org:8443"}, "needs a certificate", id="a name"),
        pytest.param(
            {"bind_address": "127.0.0.1:8443", "tls_cert_file": "x"}, "both a certificate and its key", id="no key"
        ),
        pytest.param(
            {"bind_address": "127.0.0.1:8443", "client_ca_file": "x"}, "needs them too", id="an authority alone"
        ),
        pytest.param(
            {"bind_address": ":8443", "tls_cert_file": "/none/tls.crt", "tls_key_file": "/none/tls.key"},
            "cannot use the extender's certificate /none/tls.crt: No such file",
            id="no such file",
        ),
    ],
)
def test_what_cannot_be_served_safely_is_rejected(chosen: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        part(**chosen)


def test_a_key_of_another_certificate_is_rejected(tmp_path: Path) -> None:
    ours, others = Party(tmp_path / "ours"), Party(tmp_path / "others")
    with pytest.raises(UsageError, match=r"expected matching PEM files in .*server"):
        part(bind_address=":0", tls_cert_file=str(ours.server.certificate), tls_key_file=str(others.server.key))


def test_an_authority_that_is_not_there_is_named(tmp_path: Path) -> None:
    ours = Party(tmp_path / "ours").server
    with pytest.raises(UsageError, match=r"certificate /none/ca\.crt: No such file"):
        part(
            bind_address=":0",
            tls_cert_file=str(ours.certificate),
            tls_key_file=str(ours.key),
            client_ca_file="/none/ca.crt",
        )


async def test_an_address_that_is_taken_is_an_error() -> None:
    address = f"{LOOPBACK}:{free_ports(1)[0]}"
    async with part(bind_address=address).serving():
        with pytest.raises(CommandError, match="choose another address"):
            async with part(bind_address=address).serving():
                pass


@pytest.mark.parametrize("host", [LOOPBACK, "localhost"])
async def test_loopback_does_without_a_certificate(host: str) -> None:
    async with part(bind_address=f"{host}:{free_ports(1)[0]}").serving():
        pass


async def test_it_keeps_answering_for_a_while_after_a_signal_to_stop() -> None:
    clock, address = FakeClock(), f"{LOOPBACK}:{free_ports(1)[0]}"
    body = arguments(["n1"])
    leaving = part(clock=clock, bind_address=address, shutdown_delay_duration=timedelta(seconds=7))
    async with leaving.serving(), aiohttp.ClientSession() as session:

        async def connection() -> str | None:
            async with session.post(f"http://{address}/filter", data=body) as answer:
                assert answer.status == 200
                return answer.headers.get("Connection")

        assert await connection() is None
        draining = asyncio.create_task(leaving.drain())
        await clock.advance(6.9)
        assert await connection() == "close"
        assert not draining.done()
        await clock.advance(0.1)
        assert draining.done()


async def test_an_extender_that_was_never_ready_stops_at_once() -> None:
    clock = FakeClock()
    waiting = part(clock=clock, not_ready=lambda: "waiting", bind_address=f"{LOOPBACK}:{free_ports(1)[0]}")
    async with waiting.serving():
        await waiting.drain()
    assert clock.slept == []


async def test_without_an_address_it_is_nothing_and_follows_nothing() -> None:
    store = Store()
    async with part(store).serving():
        assert store.volumes.listeners == []
