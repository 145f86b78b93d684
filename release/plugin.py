"""`kubectl pvc-why` for krew: an archive for each platform, and the manifest that names them.

The archive has the plugin's packages for each version of Python that pvc-prebinder supports, and a script that runs the
newest one that is installed: krew installs no Python.
"""

import gzip
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from release.errors import ReleaseError
from release.lock import Pin
from release.provenance import digest
from release.source import Source

PLATFORMS: Final[Mapping[tuple[str, str], str]] = {
    ("linux", "amd64"): "x86_64-manylinux_2_28",
    ("linux", "arm64"): "aarch64-manylinux_2_28",
    ("darwin", "amd64"): "x86_64-apple-darwin",
    ("darwin", "arm64"): "aarch64-apple-darwin",
}
"""Operating system and processor as krew calls them -> the platform as uv does."""
PYTHONS: Final = ("3.11", "3.12", "3.13")
"""Those for which PyPI has every package compiled."""
NOT_NEEDED: Final = frozenset(
    ["apscheduler", "cbor2", "grpcio", "highspy", "numpy", "protobuf", "pydantic", "pydantic-core", "pyinstrument"]
)
"""What only the controller, the scheduler and the agent import; a test imports the plugin without them."""
_LAUNCHER: Final = """\
#!/bin/sh
# Runs the plugin with the newest Python that its packages are for.
set -eu
self=$0
while [ -L "$self" ]; do
    target=$(readlink "$self")
    case $target in /*) self=$target ;; *) self=$(dirname "$self")/$target ;; esac
done
home=$(cd "$(dirname "$self")" && pwd)
for version in {versions}; do
    # Of some installers a python3.x is on PATH that does not run.
    if "python$version" -c "" >/dev/null 2>&1; then
        PYTHONPATH=$home/packages/$version:$home/packages/common exec "python$version" -c \\
            'import sys; from prebinder.plugin import {function}; sys.exit({function}())' "$@"
    fi
done
echo "error: kubectl pvc-why needs Python {versions}: install one, so that python3.x is on PATH" >&2
exit 1
"""


def archives(source: Source, wheel: Path, packages: Sequence[Pin], directory: Path, scratch: Path) -> list[Path]:
    """Write an archive for each platform, and return them. Raises ReleaseError if a package is missing for one."""
    needed = [each for each in packages if each.name not in NOT_NEEDED]
    common = scratch / "common"
    _install([str(wheel)], common, next(iter(PLATFORMS.values())), PYTHONS[0])
    compiled = _without_pure(needed, common, scratch)
    made = []
    for (system, processor), platform in PLATFORMS.items():
        tree = scratch / f"plugin-{system}-{processor}"
        shutil.copytree(common, tree / "packages" / "common", copy_function=os.link)
        for version in PYTHONS:
            pinned = [each for each in compiled if _is_for(each, version)]
            _install(_requirements(pinned, scratch), tree / "packages" / version, platform, version)
        for name, function in (("kubectl-pvc_why", "main"), ("kubectl_complete-pvc_why", "complete")):
            text = _LAUNCHER.format(versions=" ".join(reversed(PYTHONS)), function=function)
            (tree / name).write_text(text, encoding="utf-8")
            (tree / name).chmod(0o755)
        shutil.copy(source.directory / "LICENSE", tree / "LICENSE")
        path = directory / f"kubectl-pvc_why_{system}_{processor}.tar.gz"
        pack(tree, path, source.time)
        made.append(path)
    return made


def _without_pure(needed: Sequence[Pin], common: Path, scratch: Path) -> list[Pin]:
    """Install the packages that are the same everywhere to `common`; return those that are compiled."""
    first = scratch / "first"
    _install(_requirements(needed, scratch), first, next(iter(PLATFORMS.values())), PYTHONS[0])
    _trim(first)
    compiled = []
    for pin in needed:
        (description,) = first.glob(f"{pin.name.replace('-', '_')}-{pin.version}.dist-info")
        if "Tag: py3-none-any" not in (description / "WHEEL").read_text(encoding="utf-8"):
            compiled.append(pin)
            continue
        record = (description / "RECORD").read_text(encoding="utf-8").splitlines()
        for name in (line.split(",")[0] for line in record):
            if (first / name).is_file():
                (common / name).parent.mkdir(parents=True, exist_ok=True)
                (first / name).replace(common / name)
    return compiled


def manifest(version: str, source: Source, made: Sequence[Path], address: str) -> str:
    """Return the manifest (krew.googlecontainertools.github.com/v1alpha2); `address` is where the archives will be."""
    return yaml.safe_dump(
        {
            "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
            "kind": "Plugin",
            "metadata": {"name": "pvc-why"},
            "spec": {
                "version": f"v{version}",
                "homepage": source.origin,
                "shortDescription": "Find why a pod or claim waits for its volume",
                "description": "Explains why pods and PersistentVolumeClaims are pending: the root cause, its\n"
                "evidence and the next command. Reads with your own permissions and installs nothing.\n",
                "caveats": f"Needs Python {', '.join(PYTHONS[:-1])} or {PYTHONS[-1]} on PATH.\n",
                "platforms": [_platform(path, address) for path in made],
            },
        },
        sort_keys=False,
    )


def _platform(path: Path, address: str) -> dict[str, Any]:
    system, processor = path.name.removesuffix(".tar.gz").split("_")[-2:]
    return {
        "selector": {"matchLabels": {"os": system, "arch": processor}},
        "uri": f"{address}/{path.name}",
        "sha256": digest(path),
        "bin": "kubectl-pvc_why",
    }


def pack(tree: Path, path: Path, time: int) -> None:
    """Write a directory as an archive that depends on nothing but its content, and the time that it is given."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = time
        return entry

    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=time) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for each in sorted(tree.rglob("*")):
            archive.add(each, str(each.relative_to(tree)), recursive=False, filter=plain)


def _is_for(pin: Pin, version: str) -> bool:
    """Whether the package is needed by this version; the lock has markers about versions of Python only."""
    from packaging.markers import Marker  # noqa: PLC0415 - of the group `release`

    return not pin.marker or Marker(pin.marker).evaluate({"python_full_version": f"{version}.0"})


def _trim(packages: Path) -> None:
    """Remove what image/trim.sh removes from the official client: calls and models, which are imported lazily."""
    for client in (packages / "kubernetes" / "client", packages / "kubernetes" / "aio" / "client"):
        for path in (path for part in ("api", "models") for path in (client / part).glob("*.py")):
            if path.name != "__init__.py":
                path.unlink()
    # It imports the client that is not asynchronous, of which nothing is used.
    (packages / "kubernetes" / "__init__.py").write_text("", encoding="utf-8")


def _line(pin: Pin) -> str:
    return f"{pin.name}=={pin.version} {' '.join(f'--hash=sha256:{each}' for each in pin.hashes)}\n"


def _requirements(needed: Sequence[Pin], scratch: Path) -> list[str]:
    """Return the arguments that install these packages, each only if it is one of the files that are pinned."""
    file = scratch / "requirements.txt"
    file.write_text("".join(map(_line, needed)), encoding="utf-8")
    return ["--require-hashes", "--requirement", str(file)]


def _install(what: Sequence[str], target: Path, platform: str, version: str) -> None:
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--no-config", "--target", str(target), "--python-platform", platform, "--python-version", version]
    command += ["--link-mode=copy", *what]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise ReleaseError(f"packages of the plugin for {platform}, Python {version}: {ended.stderr.strip()}")
    for unwanted in (target / ".lock", target / "bin"):
        shutil.rmtree(unwanted) if unwanted.is_dir() else unwanted.unlink(missing_ok=True)
