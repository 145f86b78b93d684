import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster.command import command, default_directory

COMMAND = (sys.executable, "-m", "prebinder.cli", "dev", "devcluster")


def run(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.cluster
def test_up_env_down(tmp_path: Path) -> None:
    directory = tmp_path / "it's here"
    up = run("up", "--directory", directory, "--nodes", "2")
    assert up.returncode == 0, up.stderr
    again = run("up", "--directory", directory)
    env = run("env", "--directory", directory)
    look = subprocess.run(
        ["sh", "-c", f"{env.stdout}kubectl get nodes -o name"], capture_output=True, text=True, check=False
    )
    down = run("down", "--directory", directory)
    assert down.returncode == 0, down.stderr
    assert not directory.exists()
    assert look.stdout.split() == ["node/node-1", "node/node-2"]
    assert env.stdout in up.stdout
    assert again.returncode == 1
    shown = f"pvc-prebinder dev devcluster env --directory {shlex.quote(str(directory))}"
    assert (
        again.stderr == f"pvc-prebinder: a cluster is already running in {directory}; `{shown}` prints how to use it\n"
    )
    assert shown in up.stdout


@pytest.mark.parametrize("action", ["down", "env"])
def test_without_a_cluster_it_says_so(action: str, tmp_path: Path) -> None:
    answer = run(action, "--directory", tmp_path / "nothing")
    assert answer.returncode == 1
    assert answer.stderr.startswith(f"pvc-prebinder: no cluster in {tmp_path}/nothing; ")


def test_an_image_needs_a_real_node(tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"
    archive.touch()
    answer = run("load", "--directory", tmp_path / "nothing", archive)
    assert answer.returncode == 1
    assert "no cluster with a real node" in answer.stderr
    assert f"up --node real --directory {tmp_path}/nothing" in answer.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere another line says so")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("up", "--node", "real"), 1), (("check",), 3), (("check", "--image-base", "debian"), 3)],
)
def test_what_a_real_node_lacks_is_one_line(tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    environment = dict(os.environ) | {"PATH": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    answer = subprocess.run([*COMMAND, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == code
    assert answer.stderr.count("\n") == 1
    assert ("on Debian: apt-get install" if os.geteuid() == 0 else "needs root") in answer.stderr


def test_a_command_names_the_directory_unless_it_is_the_default() -> None:
    assert command("down", default_directory()) == "pvc-prebinder dev devcluster down"
    assert command("down", Path("/a b")) == "pvc-prebinder dev devcluster down --directory '/a b'"


@pytest.mark.parametrize(
    "arguments",
    [
        ("up", "--nodes", "-1"),
        ("up", "--nodes", "few"),
        ("up", "--node", "toy"),
        ("up", "--node", "real", "--nodes", "3"),
        ("load", "/nowhere"),
        ("sideways",),
        (),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).returncode == 2


def test_a_failed_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"):
        (programs / name).write_text("#!/bin/sh\necho out of order\nexit 7\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    command = [*COMMAND, "up", "--directory", str(tmp_path / "cluster")]
    environment = dict(os.environ) | {"PVC_PREBINDER_CLUSTER_BIN": str(programs)}
    up = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert up.returncode == 1
    assert "etcd ended with exit code 7" in up.stderr
    assert "out of order" in up.stderr
    assert not (tmp_path / "cluster").exists()
