"""The configuration, told and replaced over HTTP."""

from pathlib import Path

import pytest

from prebinder.control.config_endpoint import MAX_CONFIGURATION_BYTES
from scheduler.standalone.config_watch import ConfigurationInForce
from tests.prebinder.control_port import CONFIGURATION, Control, configured, controlled

YAML = {"Content-Type": "application/yaml"}


async def put(control: Control, body: bytes) -> tuple[int, str]:
    status, content, _ = await control.request("PUT", "/config", body, YAML)
    return status, content.decode()


def weight(configurations: ConfigurationInForce) -> int:
    return configurations.current.profiles["ours"].scores[0].weight


async def test_a_configuration_is_replaced(tmp_path: Path) -> None:
    configurations = configured()
    async with controlled(tmp_path, configurations=configurations) as control:
        assert await put(control, CONFIGURATION.replace("BinPack: 1", "BinPack: 7").encode()) == (200, "applied\n")
    assert weight(configurations) == 7


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(
            CONFIGURATION.replace("BinPack: 1", "BinPack: 0").encode(),
            "profiles[0].scores.BinPack: expected a whole number from 1 to 100, found 0",
            id="a weight of nothing",
        ),
        pytest.param(
            CONFIGURATION.replace("BinPack", "BinPuck").encode(), 'profiles[0].scores: there is no "BinPuck"', id="name"
        ),
        pytest.param(b"", "expected a mapping with apiVersion", id="nothing"),
        pytest.param(b"\xff", "expected UTF-8, found an invalid byte at 0", id="not UTF-8"),
        pytest.param(b"{", "invalid YAML", id="not YAML"),
        pytest.param(b"[" * 100_000, "nested too deeply", id="deep"),
        pytest.param(b"a: &a [1]\nb: *a\n", "alias *a on line 2", id="an alias"),
        pytest.param(b"? [a]\n: b\n", "invalid YAML", id="a key that is a list"),
        pytest.param(
            b"apiVersion: 0x" + b"f" * 100_000, 'apiVersion: expected "config.', id="a number of 120,000 digits"
        ),
    ],
)
async def test_a_wrong_configuration_changes_nothing(body: bytes, problem: str, tmp_path: Path) -> None:
    configurations = configured()
    before = configurations.current
    async with controlled(tmp_path, configurations=configurations) as control:
        status, content = await put(control, body)
        assert status == 422
        assert content.startswith(problem), content
        assert len(content) < 1000
        assert configurations.current is before
        assert (await put(control, CONFIGURATION.encode()))[0] == 200


async def test_what_is_in_force_can_be_put_back(tmp_path: Path) -> None:
    configurations = configured()
    before = configurations.current
    async with controlled(tmp_path, configurations=configurations) as control:
        status, content, headers = await control.request("GET", "/config")
        assert (status, headers["Content-Type"]) == (200, "application/yaml; charset=utf-8")
        assert (await put(control, CONFIGURATION.replace("BinPack: 1", "BinPack: 7").encode()))[0] == 200
        assert (await put(control, content))[0] == 200
        assert (await control.request("GET", "/config"))[1] == content
    assert configurations.current is not before
    assert weight(configurations) == 1


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        pytest.param(CONFIGURATION.encode(), {"Content-Type": "text/yaml"}, 200, id="an older type"),
        pytest.param(CONFIGURATION.encode(), {"Content-Type": "application/json"}, 415, id="another type"),
        pytest.param(CONFIGURATION.encode(), {}, 415, id="no type"),
        pytest.param(b"#" * MAX_CONFIGURATION_BYTES, YAML, 422, id="as large as allowed"),
        pytest.param(b"#" * (MAX_CONFIGURATION_BYTES + 1), YAML, 413, id="a byte too large"),
    ],
)
async def test_status_codes(body: bytes, headers: dict[str, str], status: int, tmp_path: Path) -> None:
    async with controlled(tmp_path) as control:
        assert (await control.request("PUT", "/config", body, headers))[0] == status
