"""The command line: exit codes, one clear line for a fault, and only the imports a command needs."""

import subprocess
import sys
from pathlib import Path

import pytest

from prebinder import cli
from prebinder.errors import ExitCode


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(["verison"], 'unknown command "verison"; did you mean "version"? See', id="command"),
        pytest.param(
            ["scheduler", "--leader-elect=false"],
            "--leader-elect takes no value: expected --leader-elect or --no-leader-elect",
            id="a switch with a value",
        ),
        pytest.param(["extender", "--bind-address=0"], "nobody could ask; expected an address", id="nobody to ask"),
        pytest.param(["extender", "--scheduler-name="], "as in spec.schedulerName of pods, is empty", id="no name"),
        pytest.param(["qqq"], 'unknown command "qqq". See pvc-prebinder --help', id="nothing near"),
        pytest.param(["version", "--ouput=json"], 'unknown flag "--ouput"; did you mean "--output"?', id="flag"),
        pytest.param(["version", "extra"], 'unknown argument "extra". See pvc-prebinder version --help', id="argument"),
        pytest.param(["version", "-o", "xml"], "invalid choice: 'xml' (choose from 'text', 'json')", id="choice"),
        pytest.param(["controller", "--mod", "off"], 'unknown flag "--mod"; did you mean "--mode"?', id="abbreviation"),
        pytest.param(["controller", "--mode"], "expected one argument", id="no value"),
        pytest.param(["controller", "--mode", "bnd"], "--mode: expected annotate, prebind, complete, off", id="mode"),
        pytest.param(["controller", "--csi-endpoint", "a=tcp://b:1"], "would delete volumes for anyone", id="tcp"),
        pytest.param(["controller", "--config", "/nowhere"], "cannot read the configuration file /nowhere", id="file"),
    ],
)
def test_a_usage_fault_is_one_line_and_exit_code_2(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == ExitCode.USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert complaint in printed.err
    assert printed.err.startswith("pvc-prebinder: ")
    assert printed.err.count("\n") == 1


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["controller", "--log-level", "debug", "--config", "/nowhere"]) == ExitCode.USAGE
    assert "Traceback" in capsys.readouterr().err


def test_without_a_command_the_help_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == ExitCode.FINE
    printed = capsys.readouterr().out
    assert all(f"  {command} " in printed for command in cli.COMMANDS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["version"]) == ExitCode.FINE
    assert capsys.readouterr().out.startswith("pvc-prebinder 0.")


def test_flags_override_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        "apiVersion: config.pvc-prebinder/v1alpha1\nkind: ControllerConfiguration\n"
        "binding: {mode: complete, concurrency: 3}\nleaderElection: {enabled: true}\n"
    )
    flags = ["--mode", "prebind", "--no-leader-elect", "--csi-endpoint", "a=unix:///a", "--csi-endpoint", "b=unix:///b"]
    assert cli.main(["controller", "--config", str(file), "--print-config", "--log-level", "error", *flags]) == 0
    printed = capsys.readouterr().out
    for line in ("mode: prebind", "concurrency: 3", "enabled: false", "- a=unix:///a", "- b=unix:///b", "level: error"):
        assert line in printed


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        pytest.param(["version"], {"msgspec", "yaml", "rich", "grpc", "aiohttp", "kubernetes"}, id="version"),
        pytest.param(["controller", "--help"], {"grpc", "aiohttp", "kubernetes", "apscheduler"}, id="controller help"),
        pytest.param(["match", "--help"], {"grpc", "aiohttp", "kubernetes"}, id="match"),
    ],
)
def test_a_command_imports_only_what_it_needs(arguments: list[str], unneeded: set[str]) -> None:
    program = (
        "import sys\nfrom prebinder import cli\n"
        f"try:\n    cli.main({arguments!r})\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr.split()
    assert unneeded & set(loaded) == set()


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m prebinder.cli --help | true; exit ${{PIPESTATUS[0]}}"
    finished = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_help_has_the_same_form(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.run([command, "--help"])
    printed = capsys.readouterr().out
    usage, _, description, *_ = printed.splitlines()
    assert usage.startswith(f"usage: pvc-prebinder {command} ")
    assert usage.endswith("[flags]")
    assert description.split()[0].endswith("s") or command == "quarantine"
    assert "exit codes" in printed
    assert max(map(len, printed.splitlines())) <= 120
