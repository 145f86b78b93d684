"""The flags of the command `demo`."""

import pytest

from prebinder.cli import main


@pytest.mark.parametrize("given", ["soon", "-1", "0", "nan", "inf"])
def test_a_timeout_is_a_number_of_seconds(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", f"--timeout={given}"]) == 2
    told = f'--timeout: expected a number of seconds, more than 0, found "{given}". See pvc-prebinder demo --help'
    assert capsys.readouterr().err == f"pvc-prebinder: {told}\n"
