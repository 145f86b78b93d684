"""What the commands about volumes say when the cluster or a driver turns them away."""

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.command_process import command
from tests.kube.scripted_server import kubeconfig, serving
from tests.kube.scripted_transport import failure

VOLUME = {
    "metadata": {"name": "pv-1"},
    "spec": {"capacity": {"storage": "1Gi"}, "csi": {"driver": "disk.csi.example", "volumeHandle": "h"}},
}


@pytest.mark.parametrize(
    ("status", "reason", "next_step"),
    [
        pytest.param(403, "Forbidden", "request that permission, or choose another --context", id="no right"),
        pytest.param(401, "Unauthorized", "credentials rejected; log in again", id="no credentials"),
    ],
)
@pytest.mark.parametrize("arguments", [("health",), ("quarantine", "list"), ("quarantine", "release", "--all")])
async def test_a_rejection_is_one_line_with_the_next_step(
    tmp_path: Path, arguments: tuple[str, ...], status: int, reason: str, next_step: str
) -> None:
    async def reject(request: web.Request) -> web.Response:
        return web.json_response(failure(status, reason, "you are not permitted to"), status=status)

    async with serving(reject) as server:
        code, out, errors = await command(*arguments, f"--kubeconfig={kubeconfig(tmp_path, server.url)}")
    assert (code, out) == (1, "")
    assert (
        errors
        == f"pvc-prebinder: GET /api/v1/persistentvolumes: {status} {reason}: you are not permitted to; {next_step}\n"
    )


@pytest.mark.parametrize("arguments", [("doctor",), ("doctor", "--scheduler")])
async def test_rejected_credentials_are_the_only_error(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    async def reject(request: web.Request) -> web.Response:
        return web.json_response(failure(401, "Unauthorized", "Unauthorized"), status=401)

    async with serving(reject) as server:
        code, out, errors = await command(*arguments, f"--kubeconfig={kubeconfig(tmp_path, server.url)}")
    assert (code, out) == (1, "")
    next_step = "credentials rejected; log in again"
    assert errors == f"pvc-prebinder: GET /version: 401 Unauthorized: Unauthorized; {next_step}\n"


async def test_a_driver_that_is_not_there_is_named_with_its_address(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        items = [VOLUME] if request.path == "/api/v1/persistentvolumes" else []
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})

    socket = f"unix://{tmp_path}/nobody.sock"
    async with serving(answer) as server:
        code, out, errors = await command(
            "health", f"--kubeconfig={kubeconfig(tmp_path, server.url)}", f"--csi-endpoint=disk.csi.example={socket}"
        )
    assert (code, "Unknown" in out) == (0, True)
    assert "driver=disk.csi.example" in errors
    assert f"endpoint={socket}" in errors
    assert "No such file or directory" in errors


@pytest.mark.parametrize(
    "arguments",
    [("health",), ("quarantine", "list"), ("doctor", "--log-level=debug"), ("controller", "--log-level=debug")],
)
@pytest.mark.parametrize(
    ("server", "cluster", "user"),
    [
        pytest.param("https://me:s3cret@127.0.0.1:6443", {}, {"token": "x"}, id="server"),
        pytest.param("https://api.example", {"proxy-url": "socks5://me:s3cret@proxy"}, {"token": "x"}, id="proxy"),
        pytest.param(
            "https://127.0.0.1:9",
            {},
            {
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "sh",
                    "args": ["-c", "echo 'rejected: token=s3cret' >&2; exit 1"],
                    "interactiveMode": "Never",
                }
            },
            id="exec plugin",
        ),
    ],
)
async def test_no_command_shows_credentials(
    tmp_path: Path, arguments: tuple[str, ...], server: str, cluster: dict[str, Any], user: dict[str, Any]
) -> None:
    code, out, errors = await command(*arguments, f"--kubeconfig={kubeconfig(tmp_path, server, user, cluster)}")
    assert code != 0
    assert "pvc-prebinder: " in errors
    assert "s3cret" not in out + errors
