from pathlib import Path

import pytest

from devcluster.driver.health import VolumeFault, diagnose
from devcluster.driver.volumes import (
    Volume,
    break_volume,
    create_volume,
    data_directory,
    delete_volume,
    find_volume,
    look_at,
    make_well,
    volume_id_for,
    volume_ids,
)


def fault_of(root: Path) -> VolumeFault | None:
    finding = diagnose(look_at(root, "v"), 1000)
    return finding.fault if finding else None


def test_a_volume_is_found_as_it_was_made(tmp_path: Path) -> None:
    made = create_volume(tmp_path, "v", 1000, {"zone": "a"}, name="pvc-1")
    assert made == Volume("v", "pvc-1", 1000, {"zone": "a"}) == find_volume(tmp_path, "v")


def test_making_a_volume_again_keeps_its_data(tmp_path: Path) -> None:
    create_volume(tmp_path, "v", 1000)
    (data_directory(tmp_path, "v") / "file").write_text("data")
    create_volume(tmp_path, "v", 2000)
    assert (data_directory(tmp_path, "v") / "file").read_text() == "data"


def test_volumes_are_listed_by_id(tmp_path: Path) -> None:
    assert volume_ids(tmp_path) == []
    for volume_id in ("c", "a", "b.d"):
        create_volume(tmp_path, volume_id, 1)
    assert volume_ids(tmp_path) == ["a", "b.d", "c"]


@pytest.mark.parametrize("kind", [None, *VolumeFault])
def test_a_deleted_volume_leaves_nothing(tmp_path: Path, kind: VolumeFault | None) -> None:
    create_volume(tmp_path, "v", 1000)
    if kind:
        break_volume(tmp_path, "v", kind)
    delete_volume(tmp_path, "v")
    delete_volume(tmp_path, "v")
    assert find_volume(tmp_path, "v") is None
    assert not data_directory(tmp_path, "v").exists()


@pytest.mark.parametrize("volume_id", ["", "../x", "a/b", ".hidden", "x" * 129, "ä"])
def test_ids_that_are_no_file_names(tmp_path: Path, volume_id: str) -> None:
    assert find_volume(tmp_path, volume_id) is None
    delete_volume(tmp_path, volume_id)
    with pytest.raises(ValueError, match="expected letters, digits"):
        create_volume(tmp_path, volume_id, 1)


def test_ids_follow_from_names_of_any_length() -> None:
    assert volume_id_for("x" * 5000) == volume_id_for("x" * 5000) != volume_id_for("x")
    assert len(volume_id_for("x" * 5000)) < 64


@pytest.mark.parametrize("kind", VolumeFault)
def test_unhealthy_and_well_again(tmp_path: Path, kind: VolumeFault) -> None:
    create_volume(tmp_path, "v", 1000)
    assert fault_of(tmp_path) is None
    break_volume(tmp_path, "v", kind)
    assert fault_of(tmp_path) is kind
    make_well(tmp_path, "v")
    assert fault_of(tmp_path) is None


def test_what_does_not_exist_cannot_be_made_unhealthy(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'v' does not exist"):
        break_volume(tmp_path, "v", VolumeFault.FULL)


def test_files_of_a_user_count_too(tmp_path: Path) -> None:
    create_volume(tmp_path, "v", 1000)
    below = data_directory(tmp_path, "v") / "below"
    below.mkdir()
    (below / "file").write_bytes(b"x" * 1000)
    assert fault_of(tmp_path) is VolumeFault.FULL
