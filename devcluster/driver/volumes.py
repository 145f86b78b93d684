"""Volumes that are directories: created, found, listed, removed, and made unhealthy and healthy again by tests and
people.

Below the root, `volumes/ID/` is the data and `records/ID.json` the record (name, bytes, segment). A volume exists if
its record does; the record is written last and removed last, so every incomplete step is repeated.
"""

import hashlib
import json
import os
import re
import shutil
import stat
from dataclasses import asdict, dataclass
from pathlib import Path

from devcluster.driver.health import DirectoryState, VolumeFault

_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_FILLER = "filler"


@dataclass(frozen=True, slots=True)
class Volume:
    """The record of a volume. `segment` is where it is accessible; empty means everywhere."""

    volume_id: str
    name: str
    capacity: int
    segment: dict[str, str]


def volume_id_for(name: str) -> str:
    """Return the id of the volume that CreateVolume creates for a name: the same each time, and a safe file name."""
    return f"dir-{hashlib.sha256(name.encode()).hexdigest()[:24]}"


def create_volume(
    root: Path, volume_id: str, capacity: int, segment: dict[str, str] | None = None, name: str = ""
) -> Volume:
    """Create a volume of `capacity` bytes ahead of any driver; existing data stays. Raises ValueError for a bad id."""
    if not _SAFE_ID.fullmatch(volume_id):
        raise ValueError(f"volume id {volume_id!r}: expected letters, digits, '.', '_' and '-', at most 128")
    volume = Volume(volume_id, name or volume_id, capacity, dict(segment or {}))
    data_directory(root, volume_id).mkdir(parents=True, exist_ok=True)
    record = _record(root, volume_id)
    record.parent.mkdir(parents=True, exist_ok=True)
    half = record.with_suffix(".half")
    half.write_text(json.dumps(asdict(volume)))
    half.replace(record)
    return volume


def find_volume(root: Path, volume_id: str) -> Volume | None:
    """Return the volume, or None if there is none of that id."""
    if not _SAFE_ID.fullmatch(volume_id):
        return None
    try:
        return Volume(**json.loads(_record(root, volume_id).read_text()))
    except FileNotFoundError:
        return None


def volume_ids(root: Path) -> list[str]:
    """Return the ids of all volumes, sorted."""
    return sorted(path.stem for path in (root / "records").glob("*.json"))


def delete_volume(root: Path, volume_id: str) -> None:
    """Remove a volume with its data. A volume that does not exist counts as removed."""
    if find_volume(root, volume_id) is None:
        return
    directory = data_directory(root, volume_id)
    if directory.exists():
        directory.chmod(0o755)
        shutil.rmtree(directory)
    _record(root, volume_id).unlink(missing_ok=True)


def data_directory(root: Path, volume_id: str) -> Path:
    """Return where the data of a volume is, or would be."""
    return root / "volumes" / volume_id


def look_at(root: Path, volume_id: str) -> DirectoryState:
    """Return the state of a volume's directory."""
    directory = data_directory(root, volume_id)
    try:
        mode = stat.S_IMODE(directory.stat().st_mode)
        return DirectoryState(str(directory), mode, _used(directory))
    except FileNotFoundError:
        return DirectoryState(str(directory), None, 0)


def break_volume(root: Path, volume_id: str, fault: VolumeFault) -> None:
    """Make the volume unhealthy in that way. A full one holds a sparse file, which uses no space."""
    directory = data_directory(root, volume_id)
    volume = find_volume(root, volume_id)
    if volume is None:
        raise ValueError(f"volume {volume_id!r} does not exist below {root}")
    match fault:
        case VolumeFault.GONE:
            directory.chmod(0o755)
            shutil.rmtree(directory)
        case VolumeFault.UNREADABLE:
            directory.chmod(0o000)
        case VolumeFault.READ_ONLY:
            directory.chmod(0o555)
        case VolumeFault.FULL:
            with (directory / _FILLER).open("wb") as filler:
                filler.truncate(volume.capacity)


def make_well(root: Path, volume_id: str) -> None:
    """Undo every break_volume; the data of a volume that was gone stays lost."""
    directory = data_directory(root, volume_id)
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o755)
    (directory / _FILLER).unlink(missing_ok=True)


def _record(root: Path, volume_id: str) -> Path:
    return root / "records" / f"{volume_id}.json"


def _used(directory: Path) -> int:
    """Bytes by file length and not by blocks, so that a sparse file counts."""
    total = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except FileNotFoundError:  # removed meanwhile
                continue
    return total
