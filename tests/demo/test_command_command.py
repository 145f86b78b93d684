"""The flags of the command `demo`."""

from pathlib import Path

import pytest

from prebinder.cli import main


@pytest.mark.parametrize("given", ["soon", "-1", "0", "nan", "inf"])
def test_a_timeout_is_a_number_of_seconds(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", f"--timeout={given}"]) == 2
    message = f'--timeout: expected a number of seconds, more than 0, found "{given}". See pvc-prebinder demo --help'
    assert capsys.readouterr().err == f"pvc-prebinder: {message}\n"


def test_a_picture_goes_into_a_directory_that_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", f"--svg={tmp_path}/none/demo.svg"]) == 2
    assert capsys.readouterr().err.startswith(f"pvc-prebinder: --svg: there is no directory {tmp_path}/none")
