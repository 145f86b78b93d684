"""Creates a container image of one program, without any tool: an archive in the format of `docker save`."""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import Any

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


_DIRECTORY = "usr/local/bin"


def write(archive: Path, name: str, program: Path) -> None:
    """Write an image called `name` that holds this static program, found by its name, and runs it."""
    path = f"{_DIRECTORY}/{program.name}"
    layer = _tar({path: (program.read_bytes(), 0o755)})
    configuration: dict[str, Any] = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": [f"/{path}"], "Env": [f"PATH=/{_DIRECTORY}"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    described = json.dumps(configuration).encode()
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    content = {"config.json": described, "layer.tar": layer, "manifest.json": json.dumps(manifest).encode()}
    archive.write_bytes(_tar({path: (data, 0o644) for path, data in content.items()}))


def _tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, (data, mode) in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), mode
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
