"""`pvc-prebinder controller`, where it cannot start."""

from pathlib import Path

import pytest

from prebinder import cli
from prebinder.errors import ExitCode
from tests.kube.scripted_server import kubeconfig


def test_a_run_that_ends_by_itself_does_not_wait_for_an_api_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = kubeconfig(tmp_path, "https://127.0.0.1:1")
    served = ("--metrics-bind-address=0", "--health-bind-address=0")
    assert cli.main(["controller", "--dry-run", "--once", f"--kubeconfig={path}", *served]) == ExitCode.ERROR
    assert "pvc-prebinder: no answer from https://127.0.0.1:1: " in capsys.readouterr().err
