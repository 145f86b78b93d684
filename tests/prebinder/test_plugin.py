"""`kubectl pvc-why`: it names itself as its user types it."""

from pathlib import Path

import pytest

from prebinder import plugin
from prebinder.errors import ExitCode
from tests.prebinder.commands.test_explain import UNKNOWN_CLASS


@pytest.mark.parametrize("command", [(), ("dump",), ("explain",)])
def test_its_help_names_the_plugin(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert plugin.main([*command, "--help"]) == ExitCode.FINE
    shown = capsys.readouterr().out
    assert shown.startswith(" ".join(("Usage: kubectl pvc-why", *command)) + " [flags]")
    assert "pvc-prebinder" not in shown


@pytest.mark.parametrize(
    ("arguments", "end"),
    [
        (("--foo",), "See kubectl pvc-why --help\n"),
        (("explain", "foo"), "See kubectl pvc-why explain --help\n"),
    ],
)
def test_its_errors_name_the_plugin(arguments: tuple[str, ...], end: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert plugin.main(arguments) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert error.startswith("kubectl pvc-why: ")
    assert error.endswith(end)


def test_an_answer_ends_with_the_plugin_s_own_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = tmp_path / "dump.yaml"
    dump.write_text(UNKNOWN_CLASS)
    assert plugin.main(["-f", str(dump)]) == ExitCode.PROBLEM_FOUND
    assert capsys.readouterr().out.splitlines()[-1] == "Explain: kubectl pvc-why explain StorageClassNotFound"
