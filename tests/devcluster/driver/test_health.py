import pytest

from devcluster.driver.health import DirectoryState, VolumeFault, diagnose


@pytest.mark.parametrize(
    ("mode", "used", "fault"),
    [
        pytest.param(0o755, 0, None, id="well"),
        pytest.param(0o755, 99, None, id="one byte left"),
        pytest.param(0o755, 100, VolumeFault.FULL, id="full"),
        pytest.param(0o755, 101, VolumeFault.FULL, id="more than full"),
        pytest.param(0o555, 0, VolumeFault.READ_ONLY, id="no user may write"),
        pytest.param(0o575, 0, None, id="a group may write"),
        pytest.param(0o555, 100, VolumeFault.READ_ONLY, id="read-only and full"),
        pytest.param(0o333, 0, VolumeFault.UNREADABLE, id="no user may read"),
        pytest.param(0o000, 100, VolumeFault.UNREADABLE, id="unreadable, read-only and full"),
        pytest.param(None, 0, VolumeFault.GONE, id="gone"),
    ],
)
def test_diagnose(mode: int | None, used: int, fault: VolumeFault | None) -> None:
    finding = diagnose(DirectoryState("/volumes/v", mode, used), 100)
    assert (finding.fault if finding else None) == fault
    assert finding is None or "/volumes/v" in finding.message
