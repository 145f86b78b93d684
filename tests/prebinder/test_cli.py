"""The command line: exit codes, one clear line for a fault, and only the imports a command needs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from prebinder import cli
from prebinder.commands.dev import group as dev_command
from prebinder.errors import ExitCode

COMMANDS = [
    *(command for commands in cli.SECTIONS.values() for command in commands if command != "dev"),
    *cli.ALIASES,
    *(f"dev {command}" for commands in dev_command.SECTIONS.values() for command in commands),
]
TOP = [command for commands in cli.SECTIONS.values() for command in commands]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(["verison"], 'unknown command "verison"; did you mean "version"? See', id="command"),
        pytest.param(
            ["controller", "--dry-run=perhaps"], '--dry-run: expected true or false, found "perhaps"', id="a switch"
        ),
        pytest.param(["dev", "devclustr"], 'unknown command "devclustr"; did you mean "devcluster"?', id="below dev"),
        pytest.param(["match"], "--match reads a dump: --filename is required", id="a flag is missing"),
        pytest.param(["why", "--al"], 'unknown flag "--al"; did you mean "--all-namespaces"? See', id="a beginning"),
        pytest.param(["why", "-o", "jsn"], 'found "jsn"; did you mean "json"? See', id="one mark at the end"),
        pytest.param(
            ["why", "node/a"],
            "binder: expected pod/NAME, pvc/NAME, pv/NAME, statefulset/NAME, deployment/NAME, job/NAME or NAME, "
            'found "node/a". See',
            id="a kind",
        ),
        pytest.param(["why", "pod/a/b"], 'found "pod/a/b". See', id="a name"),
        pytest.param(["why", "--node", "n1", "-f", "-"], "--node needs --match", id="a flag of --match"),
        pytest.param(["match", "-f", "-", "-o", "wide"], "one report, as text or a document", id="a form of why"),
        pytest.param(["extender", "--bind-address=0"], "the extender needs an address such as", id="no address"),
        pytest.param(["extender", "--scheduler-name="], "as in spec.schedulerName of pods, is empty", id="no name"),
        pytest.param(["qqq"], 'unknown command "qqq". See pvc-prebinder --help', id="nothing near"),
        pytest.param(["version", "--ouput=json"], 'unknown flag "--ouput"; did you mean "--output"?', id="flag"),
        pytest.param(["version", "extra"], 'unknown argument "extra". See pvc-prebinder version --help', id="argument"),
        pytest.param(
            ["version", "-o", "xml"], '--output: expected text, json, yaml, jsonpath=TEMPLATE, found "xml"', id="choice"
        ),
        pytest.param(["controller", "--mod", "off"], 'unknown flag "--mod"; did you mean "--mode"?', id="abbreviation"),
        pytest.param(["controller", "--mode"], "--mode needs a value", id="no value"),
        pytest.param(["controller", "--mode", "bnd"], "--mode: expected annotate, prebind, complete, off", id="mode"),
        pytest.param(
            ["controller", "--mode", "provision"],
            '--mode: expected annotate, prebind, complete, off, found "provision"',
            id="a mode of classes that provision",
        ),
        pytest.param(
            ["controller", "--dynamic-mode", "bnd"],
            "--dynamic-mode: expected annotate, prebind, complete, provision, off",
            id="dynamic mode",
        ),
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
    assert all(f"  {command} " in printed for command in TOP)
    assert all(f"\n{title}:\n" in printed for title in cli.SECTIONS)


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
        pytest.param(["--help"], {"msgspec", "yaml", "rich", "grpc", "aiohttp", "pydantic"}, id="help"),
        pytest.param(["controller", "--leader-elect=x"], {"pydantic", "grpc", "aiohttp"}, id="flags alone"),
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


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_the_same_form(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*command.split(), "--help"]) == ExitCode.FINE
    printed = capsys.readouterr().out
    usage, _, description, *_ = printed.splitlines()
    assert usage.startswith(f"Usage: pvc-prebinder {command} [flags]")
    assert description.split()[0].endswith("s")
    assert "Exit codes" in printed
    assert max(map(len, printed.splitlines())) <= 120


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_may_be_short(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([flag]) == cli.run(["quarantine", "list", flag]) == ExitCode.FINE
    assert "Usage: pvc-prebinder quarantine list" in capsys.readouterr().out


def test_the_version_is_also_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == ExitCode.FINE
    assert re.fullmatch(r"pvc-prebinder 0\.\d+\.\d+\n", capsys.readouterr().out)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_the_program(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == ExitCode.FINE
    assert f"{cli.COMPLETION}={shell}_complete" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["contr"], {"controller"}),
        (["dev", ""], {"devcluster", "profile"}),
        (["controller", "--mode", "pre"], {"prebind"}),
        (["health", "--csi-t"], {"--csi-tls-ca", "--csi-tls-cert", "--csi-tls-key"}),
    ],
)
def test_a_shell_completes_commands_flags_and_values(typed: list[str], offered: set[str]) -> None:
    words = ["pvc-prebinder", *typed]
    environment = {cli.COMPLETION: "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(typed))}
    finished = subprocess.run(
        [sys.executable, "-m", "prebinder.cli"], env=environment, capture_output=True, text=True, check=False
    )
    assert {line.partition(",")[2] for line in finished.stdout.splitlines()} == offered
