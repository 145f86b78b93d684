"""Builds the image of the Containerfile with buildah, which needs no daemon: `python -m devcluster.build.image`.

Where no registry can be reached, the base is built from Debian packages by mmdebstrap. Images are kept in the user's
cache directory; a layer is rebuilt when its inputs have changed.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devcluster.build import binaries
from devcluster.errors import ClusterError
from devcluster.node import prerequisites

DEFAULT_BASE: Final = "docker.io/library/python:3.13-slim"
DEBIAN: Final = "debian"
"""The base that is made here instead of pulled."""

VERSION: Final = "0.1.0"
NAME: Final = f"docker.io/library/pvc-prebinder:{VERSION}"
"""The manifests' `pvc-prebinder:0.1.0` in full."""

_ROOT: Final = Path(__file__).parents[2]
_SUITE: Final = "trixie"
_PACKAGES: Final = "python3,python3-venv,ca-certificates"


def programs(base: str) -> dict[str, str]:
    """Return the programs that building on this base needs from the machine, each with its Debian package."""
    return prerequisites.IMAGE_PROGRAMS | (prerequisites.BASE_PROGRAMS if base == DEBIAN else {})


@dataclass(frozen=True, slots=True)
class Recipe:
    """What the image is made of: a tree of sources, of which revision and from where it says; `platform` is
    another than this machine's, such as linux/arm64, and needs an emulator of its processor. `form` is how the archive
    is written, as containers-transports(5) calls it.
    """

    context: Path
    revision: str
    source: str
    platform: str | None = None
    form: str = "docker-archive"


def recipe() -> Recipe:
    """Return that of this working tree."""
    return Recipe(_ROOT, _git("rev-parse", "HEAD"), _source())


def build_image(base: str, archive: Path, of: Recipe) -> str:
    """Build the image on this base, write it to an archive, and return one line about it. ClusterError if it fails."""
    prerequisites.require(programs(base))
    reference = _debian_base() if base == DEBIAN else base
    pull = "--pull=never" if base == DEBIAN else "--pull=missing"
    with tempfile.TemporaryDirectory() as scratch:
        arguments = [
            *("bud", "--layers", "--isolation=chroot", "--network=host", pull),
            *(f"--build-arg=PYTHON={reference}", f"--build-arg=VERSION={VERSION}"),
            *(f"--build-arg=REVISION={of.revision}", f"--build-arg=SOURCE={of.source}"),
            *([f"--platform={of.platform}"] if of.platform else []),
            *_secrets(Path(scratch)),
            *(f"--tag={NAME}", f"--file={of.context / 'Containerfile'}"),
            *(f"--ignorefile={of.context / '.dockerignore'}", str(of.context)),
        ]
        binaries.run([*_buildah(), *arguments], "building the image")
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.unlink(missing_ok=True)
    binaries.run([*_buildah(), "push", "--quiet", NAME, f"{of.form}:{archive}:{NAME}"], f"writing {archive}")
    return f"{NAME}: {_size(NAME)}, of which the base {reference} is {_size(reference)}"


def _debian_base() -> str:
    """Return the name of an image of Debian with Python, building it if necessary."""
    recipe = 'FROM scratch\nADD base.tar /\nCMD ["python3"]\n'
    version = hashlib.sha256(f"{_SUITE} {_PACKAGES} {recipe}".encode()).hexdigest()[:12]
    name = f"localhost/python-{_SUITE}:{version}"
    if _size(name):
        return name
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        include = f"--include={_PACKAGES}"
        command = ["mmdebstrap", "--variant=minbase", include, _SUITE, str(directory / "base.tar")]
        binaries.run(command, "making a base image of Debian's packages")
        (directory / "Containerfile").write_text(recipe, encoding="utf-8")
        binaries.run(
            [*_buildah(), "bud", "--isolation=chroot", f"--tag={name}", str(directory)], "adding it to the images"
        )
    return name


def _buildah() -> list[str]:
    storage = binaries.cache_directory() / "images"
    return ["buildah", f"--root={storage / 'storage'}", f"--runroot={storage / 'run'}", "--storage-driver=overlay"]


def _secrets(scratch: Path) -> list[str]:
    """Return the build secrets with which pip in the build reaches the same index as pip here."""
    settings = {key: os.environ.get(f"PIP_{key.upper().replace('-', '_')}") for key in ("index-url", "cert")}
    lines = [f"{key} = {'/etc/pip-ca.pem' if key == 'cert' else value}" for key, value in settings.items() if value]
    configuration = scratch / "pip.conf"
    configuration.write_text("\n".join(["[global]", *lines, ""]), encoding="utf-8")
    secrets = [f"--secret=id=pip.conf,src={configuration}"]
    return [*secrets, f"--secret=id=ca,src={settings['cert']}"] if settings["cert"] else secrets


def _size(image: str) -> str:
    """Return the size of an image for people; an empty text if there is none of that name."""
    listed = subprocess.run([*_buildah(), "images", "--json", image], capture_output=True, text=True, check=False)
    images = json.loads(listed.stdout) if listed.returncode == 0 else []
    return str(images[0]["size"]) if images else ""


def _source() -> str:
    return os.environ.get("SOURCE") or "unknown"


def _git(*arguments: str) -> str:
    answer = subprocess.run(["git", "-C", str(_ROOT), *arguments], capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m devcluster.build.image", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--base",
        default=DEFAULT_BASE,
        help="an image with Python, for a release pinned by digest; `debian` makes one of Debian's packages"
        " (default: %(default)s)",
    )
    parser.add_argument("--archive", type=Path, default=Path(f"dist/pvc-prebinder-{VERSION}.tar"))
    options = parser.parse_args(arguments)
    try:
        sys.stdout.write(f"{build_image(options.base, options.archive.absolute(), recipe())}\n{options.archive}\n")
    except ClusterError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
