"""`pvc-prebinder controller`, where it cannot start."""

from pathlib import Path

import pytest

from prebinder import cli
from prebinder.errors import ExitCode
from tests.command_process import command
from tests.kube.scripted_server import kubeconfig

ENDING = ("--dry-run", "--once")


def test_a_run_that_ends_by_itself_does_not_wait_for_an_api_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = kubeconfig(tmp_path, "https://127.0.0.1:1")
    assert cli.main(["controller", *ENDING, f"--kubeconfig={path}"]) == ExitCode.ERROR
    assert "pvc-prebinder: no answer from https://127.0.0.1:1: " in capsys.readouterr().err


async def test_at_its_start_it_says_which_feature_gates_are_off(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "https://127.0.0.1:1")
    off = "--feature-gates=NewNodes=false,Holds=true,Provision=false"
    _, _, errors = await command("controller", *ENDING, f"--kubeconfig={path}", off)
    assert "Feature gates are off" in errors
    assert "Provision, NewNodes" in errors
    _, _, errors = await command("controller", *ENDING, f"--kubeconfig={path}")
    assert "Feature gates" not in errors
