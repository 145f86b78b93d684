import pytest

from devcluster.driver.health import DirectoryState, Sickness, diagnose


@pytest.mark.parametrize(
    ("mode", "used", "sickness"),
    [
        pytest.param(0o755, 0, None, id="well"),
        pytest.param(0o755, 99, None, id="one byte left"),
        pytest.param(0o755, 100, Sickness.FULL, id="full"),
        pytest.param(0o755, 101, Sickness.FULL, id="more than full"),
        pytest.param(0o555, 0, Sickness.READ_ONLY, id="nobody may write"),
        pytest.param(0o575, 0, None, id="somebody may write"),
        pytest.param(0o555, 100, Sickness.READ_ONLY, id="read-only and full"),
        pytest.param(0o333, 0, Sickness.UNREADABLE, id="nobody may read"),
        pytest.param(0o000, 100, Sickness.UNREADABLE, id="unreadable, read-only and full"),
        pytest.param(None, 0, Sickness.GONE, id="gone"),
    ],
)
def test_diagnose(mode: int | None, used: int, sickness: Sickness | None) -> None:
    finding = diagnose(DirectoryState("/volumes/v", mode, used), 100)
    assert (finding.sickness if finding else None) == sickness
    assert finding is None or "/volumes/v" in finding.message
