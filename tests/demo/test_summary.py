"""What the demo prints when its cluster is kept."""

import shlex

import pytest

from demo.stage import Ready
from demo.summary import in_the_browser, looking_around
from prebinder import cli

READY = Ready("/kubeconfig", "/bin/kubectl", "csi=unix:///s", "/volumes", "http://m", "/c.log", "/s.log")


def test_the_command_that_stops_the_cluster_exists(capsys: pytest.CaptureFixture[str]) -> None:
    lines = looking_around(READY, "/demo", "pvc-prebinder")
    printed = next(line for line in lines if line.startswith("To stop it: "))
    program, *arguments = shlex.split(printed.removeprefix("To stop it: "))
    assert program == "pvc-prebinder"
    assert cli.main([*arguments[: arguments.index("--directory")], "--help"]) == 0
    assert "devcluster down" in capsys.readouterr().out


def test_the_page_in_the_browser_is_named_whether_or_not_the_cluster_is_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = [*looking_around(READY, "/demo", "pvc-prebinder"), *in_the_browser("pvc-prebinder")]
    assert sum("pvc-prebinder why --serve" in line for line in lines) == 2
    assert cli.main(["why", "--serve", "--help"]) == 0
    assert "--port" in capsys.readouterr().out
