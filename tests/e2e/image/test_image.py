"""The image: its labels, its user, and what must not be in it."""

import json
import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import pytest

from devcluster.build.image import VERSION
from tests.e2e.conftest import ARCHIVE

LABEL = "org.opencontainers.image."


@pytest.fixture(scope="module")
def image() -> Iterator[tarfile.TarFile]:
    with tarfile.open(os.environ[ARCHIVE]) as archive:
        yield archive


def read(image: tarfile.TarFile, name: str) -> Any:
    file = image.extractfile(name)
    assert file is not None
    return json.load(file)


def configuration(image: tarfile.TarFile) -> dict[str, Any]:
    (manifest,) = read(image, "manifest.json")
    return read(image, manifest["Config"])["config"]  # type: ignore[no-any-return]


def files(image: tarfile.TarFile) -> set[PurePosixPath]:
    """Return the paths that are left when all layers lie on one another."""
    (manifest,) = read(image, "manifest.json")
    left: set[PurePosixPath] = set()
    for name in manifest["Layers"]:
        with tarfile.open(fileobj=image.extractfile(name)) as layer:
            added = {PurePosixPath("/") / member.name for member in layer if not member.isdir()}
        gone = {path.with_name(path.name.removeprefix(".wh.")) for path in added if path.name.startswith(".wh.")}
        left = {path for path in left if path not in gone and not gone.intersection(path.parents)} | added
    return {path for path in left if not path.name.startswith(".wh.")}


def test_labels_name_version_revision_and_source(image: tarfile.TarFile) -> None:
    labels = configuration(image)["Labels"]
    assert labels[f"{LABEL}version"] == VERSION
    assert re.fullmatch("[0-9a-f]{40}|unknown", labels[f"{LABEL}revision"])
    assert labels[f"{LABEL}source"]
    assert labels[f"{LABEL}licenses"] == "Apache-2.0"
    assert labels[f"{LABEL}title"] == "pvc-prebinder"


def test_it_runs_the_command_without_root(image: tarfile.TarFile) -> None:
    config = configuration(image)
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["/opt/pvc-prebinder/bin/pvc-prebinder"]
    assert config["Cmd"] == ["controller"]


def test_it_has_neither_pip_nor_sources_nor_what_builds_them(image: tarfile.TarFile) -> None:
    names = files(image)
    assert PurePosixPath("/opt/pvc-prebinder/bin/pvc-prebinder") in names
    parts = {part for path in names for part in path.parts}
    assert not parts & {"pip", "ensurepip", "hatchling", "pip.conf", "Containerfile"}
    assert not names & {PurePosixPath("/usr/bin") / program for program in ("gcc", "cc", "make", "git", "pip")}
    assert not [path for path in names if path.parts[1] in {"src", "wheel", "tools", "image"}]
